"""The format "skytide-fleet": `spark.readStream.format("skytide-fleet").option("path", ...).option("schema", ...).load()`."""

from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from skytide.records.secret import Secret
from skytide.spark.fleet.feeds import STREAM
from skytide.spark.fleet.reader import FleetReader
from skytide.spark.fleet.settings import Settings
from skytide.spark.sources.private import register_private
from skytide.spark.sources.quiet_end import end_quietly

FORMAT = "skytide-fleet"


class FleetSource(DataSource):
    """Many streams through one source."""

    password: Secret | None = None
    """Of the server, if it is not an option."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns; Spark asks when the stream is loaded, so wrong options are refused then."""
        end_quietly()
        return f"{Settings.from_options(self.options).schema}, {STREAM} string"

    def streamReader(self, schema: StructType) -> FleetReader:
        """Return the reader that Spark's driver keeps for the whole query; tasks have copies of their own."""
        end_quietly()
        settings = Settings.from_options(self.options)
        if self.password is not None:
            settings = replace(settings, password=self.password)
        feed = settings.feed(schema)
        feed.check()
        return FleetReader(settings, feed)


def register_fleet(spark: SparkSession, password: Secret | None = None) -> str:
    """Register the format in a session, and return its name: another one for a server with a password."""
    spark.dataSource.register(FleetSource)
    return FORMAT if password is None else register_private(spark, FleetSource, password=password)
