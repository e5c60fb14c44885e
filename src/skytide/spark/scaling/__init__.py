"""The auto-scaler for streaming queries on Spark: plants, their metrics, and the thread that runs the loop."""

from skytide.records import Event, ScalerStatus
from skytide.spark.scaling.autoscale import autoscale
from skytide.spark.scaling.power import Power
from skytide.spark.scaling.scaler import History, Scaler

__all__ = ["Event", "History", "Power", "Scaler", "ScalerStatus", "autoscale"]
