"""Where streams come from: a folder of files, Redis, Kafka. Each is a `Feed`."""

from skytide.spark.fleet.feeds.feed import STREAM, Cut, Feed, Look, NotNowError, Range, Records, Skipped

__all__ = ["STREAM", "Cut", "Feed", "Look", "NotNowError", "Range", "Records", "Skipped"]
