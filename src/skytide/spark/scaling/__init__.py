"""The auto-scaler for streaming queries on Spark: plants, their metrics, and the thread that runs the loop."""

from skytide.errors.deprecation import renamed
from skytide.records import ScalerStatus, ScalingEvent
from skytide.spark.scaling.autoscale import autoscale
from skytide.spark.scaling.history import History
from skytide.spark.scaling.power import Power
from skytide.spark.scaling.scaler import Scaler

__all__ = ["History", "Power", "Scaler", "ScalerStatus", "ScalingEvent", "autoscale"]
__getattr__ = renamed(__name__, {"Event": "ScalingEvent"})
