"""Names for annotations: what functions and methods of skytide take and return, beside the names in `skytide` itself."""

from skytide.keyed import RoutingTable
from skytide.loop.cycle import Cycle
from skytide.records import Status, WindowRow
from skytide.records.fleet import FleetStatus, SplitStatus
from skytide.routing import Splitting
from skytide.spark.api.chain import AggregatedFrame
from skytide.spark.api.keyed import Keyed, KeyedWindowed
from skytide.spark.api.stream import Grouped, Stream, Windowed
from skytide.spark.scaling import History, ScalerStatus, ScalingEvent
from skytide.spark.sinks.base import SideSink, SinkFunction
from skytide.spark.sources.workload import WorkloadStream
from skytide.windows import Duration

__all__ = [
    "AggregatedFrame",
    "Cycle",
    "Duration",
    "FleetStatus",
    "Grouped",
    "History",
    "Keyed",
    "KeyedWindowed",
    "RoutingTable",
    "ScalerStatus",
    "ScalingEvent",
    "SideSink",
    "SinkFunction",
    "SplitStatus",
    "Splitting",
    "Status",
    "Stream",
    "WindowRow",
    "Windowed",
    "WorkloadStream",
]
