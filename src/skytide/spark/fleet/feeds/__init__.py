"""Where streams come from: a folder of files, Redis, Kafka. Each is a `Feed`."""

from skytide.spark.fleet.feeds.feed import STREAM, Cut, Discovery, Feed, Range, Records, Skipped, UnavailableError

__all__ = ["STREAM", "Cut", "Discovery", "Feed", "Range", "Records", "Skipped", "UnavailableError"]
