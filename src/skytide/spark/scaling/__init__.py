"""The auto-scaler for streaming queries on Spark: metrics, actuators, and the thread that runs the loop."""

from skytide.spark.scaling.autoscale import autoscale
from skytide.spark.scaling.power import Power
from skytide.spark.scaling.scaler import Event, History, Scaler, ScalerStatus

__all__ = ["Event", "History", "Power", "Scaler", "ScalerStatus", "autoscale"]
