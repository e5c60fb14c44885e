"""Where streams come from: a folder of files, Redis, Kafka. Each is a `Feed`."""

from skytide.spark.fleet.feeds.feed import STREAM, Feed, Look, Range, Records, Skipped

__all__ = ["STREAM", "Feed", "Look", "Range", "Records", "Skipped"]
