"""What a query keeps to continue after a crash: files below one folder, manifests that name them, and Spark's own notes."""

from skytide.spark.checkpoint.files import Files, fresh_name, sequence_of
from skytide.spark.checkpoint.place import Place, checkpoint_place, place_of
from skytide.spark.checkpoint.retention import KEPT
from skytide.spark.checkpoint.spark_logs import SparkLogs
from skytide.spark.checkpoint.store import Store

__all__ = ["KEPT", "Files", "Place", "SparkLogs", "Store", "checkpoint_place", "fresh_name", "place_of", "sequence_of"]
