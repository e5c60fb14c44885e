"""Many small streams as people write them: `fleet("/data/feeds", schema="ts timestamp, x double")`."""

import atexit
import os
import shutil
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skytide.admission import Profile
from skytide.batch import Delivery, InSplits
from skytide.errors import InvalidInput
from skytide.errors.checks import check_text, check_type, refused
from skytide.records.fleet import FleetStatus, SplitStatus
from skytide.records.printing import Printed
from skytide.records.secret import Address
from skytide.routing import AUTO, IN_PLACE, Splitting
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.fleet.channel import Channel, Control
from skytide.spark.fleet.feeds import STREAM
from skytide.spark.fleet.reader import FleetReader
from skytide.spark.fleet.settings import Settings, schema_text
from skytide.spark.fleet.source import register_fleet
from skytide.spark.fleet.status import splits_of
from skytide.spark.fleet.watching import fleet_subject
from skytide.watch.serving import export, serve
from skytide.windows import Duration, duration_us

if TYPE_CHECKING:
    from skytide.watch.exporter import Exporter
    from skytide.watch.server import Page


class Fleet(Printed):
    """Streams that come and go, read through one source. Made by `fleet`.

    `skytide.stream(fleet)` asks queries of it; `load` returns it as a DataFrame. Several queries may read one fleet. More in
    [fleet.md](fleet.md).

    Parameters
    ----------
    settings
        What `fleet` was given.

    Examples
    --------
    >>> sensors = fleet("/data/feeds", schema="ts timestamp, x double")
    >>> sensors.declare("sensor7", Profile(max_hz=5_000))
    >>> sensors.suspend("sensor8")
    >>> sensors.status().streams  # no query has read it yet
    0
    """

    def __init__(self, settings: Settings) -> None:
        """Open a channel, through which this object and the readers of its queries communicate."""
        path = tempfile.mkdtemp(prefix="skytide-fleet-")
        atexit.register(shutil.rmtree, path, ignore_errors=True)  # a query may outlive this object
        self.settings = replace(settings, channel=path)
        self._channel, self._control = Channel(path), Control()

    def lines(self) -> list[tuple[str, str]]:
        """Return where the streams are, and how the fleet is doing."""
        return [("fleet", self.settings.place), *self.status().lines()]

    def __repr__(self) -> str:
        """Return its place and its status in a few lines."""
        return str(self)

    def load(self, spark: SparkSession, *, checkpoint: str | os.PathLike[str] | None = None) -> DataFrame:
        """Return the streams as one streaming DataFrame: the columns of the schema, and `stream`, the name of each row's stream.

        Parameters
        ----------
        spark
            The session to read in.
        checkpoint
            The checkpoint of the query that will read it, for the positions of streams. Without it they are in Spark's log of offsets,
            which is as safe, but takes more space: some 5 bytes per stream and batch.

        Raises
        ------
        InvalidInput
            If the schema has a column that cannot be read, or the folder or server does not answer.

        Examples
        --------
        ```python
        rows = sensors.load(spark, checkpoint="/data/checkpoint")
        rows.writeStream.format("console").option("checkpointLocation", "/data/checkpoint").start()
        ```
        """
        settings = self.settings
        if checkpoint is not None:
            settings = replace(settings, notes=f"{_folder('checkpoint', checkpoint)}/fleet")
        if settings.splits is None:
            settings = replace(settings, splits=spark.sparkContext.defaultParallelism)
        _check_schema(spark, settings.schema)
        df = spark.readStream.format(register_fleet(spark, settings.password)).options(**settings.options()).load()
        settings.feed(df.schema).check()
        return df

    @property
    def partitions(self) -> int | None:
        """The maximum number of splits, if one was given."""
        return self.settings.splits

    def delivery(self, splitting: Splitting) -> Delivery | None:
        """Return how tuples reach slots inside the source: each stream is read in its split, which its planner balances. Any other splitting needs a shuffle."""
        return InSplits() if splitting.name in (AUTO.name, IN_PLACE.name) else None

    def expected_hz(self) -> float | None:
        """Return how many tuples per second are expected of all streams together, by forecasts and declarations."""
        status = self._channel.status()
        return None if status is None else FleetStatus(**status).expected_hz

    def folder(self) -> OwnedFolder | None:
        """Return the folder for records that cannot be read, if there is one."""
        return OwnedFolder(self.settings.invalid) if self.settings.invalid else None

    def reader(self, columns: StructType, notes: Files, trigger_us: int | None) -> FleetReader:
        """Return the reader for a query with the pane level in the splits."""
        settings = replace(self.settings, notes=notes.uri, interval_us=trigger_us or self.settings.interval_us)
        feed = settings.feed(columns)
        feed.check()
        return FleetReader(settings, feed)

    def declare(self, stream: str, profile: Profile) -> None:
        """Declare what is known of a stream, from the next batch on.

        Parameters
        ----------
        stream
            Its name; it need not exist yet.
        profile
            Its characteristics, which replace those declared before.

        Raises
        ------
        InvalidInput
            If the name is not a text, or the profile not a `Profile`.
        """
        check_text("stream", stream, "sensor:7")
        check_type(
            "profile", profile, Profile, reason="not a profile", remedy="pass Profile(max_hz=5_000), or other characteristics"
        )
        self._set_control(replace(self._control, profiles={**self._control.profiles, stream: profile}))

    def suspend(self, *streams: str) -> None:
        """Let nothing of some streams in from the next batch on; they keep their positions, even when the query is started again.

        Parameters
        ----------
        streams
            Their names. Those that no stream has are in `status().unknown`.

        Raises
        ------
        InvalidInput
            If none is named, or a name is not a text.
        """
        self._set_suspended(streams, True)

    def resume(self, *streams: str) -> None:
        """Let streams in again: they catch up from where they were, as fast as the others leave room.

        Parameters
        ----------
        streams
            Their names, as for `suspend`.
        """
        self._set_suspended(streams, False)

    def status(self) -> FleetStatus:
        """Return how the fleet is doing, as of its query's latest batch; before the first, everything is 0."""
        return FleetStatus(**(self._channel.status() or {}))

    def splits(self) -> list[SplitStatus]:
        """Return which streams each split reads, and how it is doing, as of at most a second ago."""
        streams = self._channel.streams()
        return [] if streams is None else splits_of(streams, self.status().capacity_hz)

    def streams(self) -> pa.Table:
        """Return a row for each stream: its split, rates, and what is buffered of it, as of at most a second ago.

        Raises
        ------
        InvalidInput
            If no query has read the fleet yet.
        """
        streams = self._channel.streams()
        if streams is None:
            raise InvalidInput(value="streams()", reason="no query has read this fleet yet", remedy="start one first")
        return streams

    def serve(self, address: str = "127.0.0.1", port: int | None = None, *, token: str | None = None) -> "Page":
        """Show the fleet on a live page, and return the page; `run.serve()` shows a query with its fleet.

        Parameters
        ----------
        address
            The address to listen on.
        port
            The port; by default the first free one from 4090 on.
        token
            What a viewer has to show, unless on this machine; by default one is made, which is in the page's `url`.

        Raises
        ------
        InvalidInput
            If it cannot listen there, or the token is too short.
        SkytideError
            If what a page needs is not installed.
        """
        return serve([fleet_subject(self)], address, port, token)

    def metrics(self, port: int, address: str = "127.0.0.1") -> "Exporter":
        """Let Prometheus read how the fleet is doing, and return the exporter.

        Parameters
        ----------
        port
            The port to listen on; 0 for a free one.
        address
            The address to listen on.

        Raises
        ------
        InvalidInput
            If it cannot listen there.
        SkytideError
            If what metrics need is not installed.
        """
        return export([fleet_subject(self)], port, address)

    def _set_suspended(self, streams: tuple[str, ...], value: bool) -> None:
        if not streams:
            raise refused("streams", streams, "none is named", 'name some: fleet.suspend("sensor:7")')
        for stream in streams:
            check_text("stream", stream, "sensor:7")
        self._set_control(replace(self._control, suspended={**self._control.suspended, **dict.fromkeys(streams, value)}))

    def _set_control(self, control: Control) -> None:
        self._channel.write_control(control)
        self._control = control


def fleet(
    place: str | os.PathLike[str],
    *,
    schema: str | StructType,
    format: str | None = None,
    streams: str | None = None,
    topics: str | None = None,
    header: bool = False,
    starting: str = "earliest",
    splits: int | None = None,
    interval: Duration = "1 s",
    latency: Duration = "5 s",
    strategy: str = "drfm",
    capacity_hz: float | None = None,
    hold: Duration | None = None,
    invalid: str | os.PathLike[str] | None = None,
) -> Fleet:
    """Return many streams that are read together, in as few tasks as their load needs.

    More in [fleet.md](fleet.md).

    Parameters
    ----------
    place
        Where the streams are. A folder has one growing file per stream, named after the stream. On a Redis server,
        "redis://localhost:6379/0" or "redis://:password@localhost:6379/0", whose password nothing prints, each key that matches `streams`
        is a stream. In Kafka, "kafka://localhost:9092", each partition of the `topics` is a stream, named `topic-partition`.
    schema
        The columns, as Spark writes them: "ts timestamp, x double", or a StructType. Missing fields are NULL.
    format
        What records are. In a folder, where it is also the extension of the files: "jsonl" (the default), "csv" or "arrow" (Arrow IPC
        streams). In Redis: "fields" (the default), one field of an entry per column, or a single field with "jsonl" or "csv". In Kafka,
        the value of a message: "jsonl" (the default) or "csv".
    streams
        The pattern of the keys, only for Redis: "sensor:*".
    topics
        Names separated by commas, only for Kafka: "trades, quotes".
    header
        Whether the first line of each CSV file names its columns, which may then be in any order.
    starting
        "earliest", or "latest", which skips what is there when a query first reads the fleet.
    splits
        How many tasks a batch has at most; by default as many as there are cores. Only as many as are needed are opened.
    interval
        The time between two batches, which should be that of the trigger: a split takes what it can do in that time.
    latency
        Streams move away from a split that is further behind than this.
    strategy
        What decides which streams move: "drfm" (by forecasts and declarations), or P1's others, "drf", "ari", "ard" and "par".
    capacity_hz
        How many tuples per second a split can take; by default, that is measured.
    hold
        How long windows wait for a stream of which something was kept waiting: by default until it has caught up, otherwise until it is
        that far behind the newest tuple, by the times of tuples ("10 minutes"); what comes of it after that may be late.
    invalid
        A folder for records that cannot be read; they are counted in any case.

    Returns
    -------
    Fleet
        What `skytide.stream` takes; nothing is read before a query starts.

    Raises
    ------
    InvalidInput
        If an argument is not what is described here, or belongs to another system than that of the `place`.

    Examples
    --------
    >>> sensors = fleet("/data/feeds", schema="ts timestamp, x double", format="csv", header=True, latency="2 s")
    >>> sensors.settings.splits is None
    True
    >>> fleet("redis://localhost", schema="x double")
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: a fleet in Redis: streams is missing; give streams with it

    ```python
    run = skytide.stream(sensors).window("30 s", slide="10 s").skyline(low("x")).start("console", checkpoint="/data/checkpoint")
    ```
    """
    text = os.fspath(place) if isinstance(place, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise refused("place", place, "not the name of a place", 'name a folder, such as "/data/feeds"')
    address = Address.of(text)
    return Fleet(
        Settings(
            place=address.plain,
            password=address.password,
            schema=schema_text(schema),
            format=format,
            streams=streams,
            topics=topics,
            header=header,
            starting=starting,
            splits=splits,
            interval_us=duration_us(interval, "interval"),
            latency_us=duration_us(latency, "latency"),
            strategy=strategy,
            capacity_hz=capacity_hz,
            hold_us=None if hold is None else duration_us(hold, "hold"),
            invalid=None if invalid is None else _folder("invalid", invalid),
        )
    )


def _folder(name: str, folder: Any) -> str:
    text = os.fspath(folder) if isinstance(folder, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise refused(name, folder, "not the name of a folder", f'name one, such as {name}="/data/{name}"')
    return os.path.abspath(text)


def _check_schema(spark: SparkSession, schema: str) -> None:
    """Refuse columns that Spark cannot read, or that have the name of the column that is added."""
    try:
        columns = spark.createDataFrame([], schema).columns
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidInput(value=f"schema={schema!r}", reason=reason, remedy='write it as "ts timestamp, x double"') from None
    if STREAM in map(str.lower, columns):
        raise InvalidInput(
            value=f"a column {STREAM}",
            reason="the name of each row's stream is added under that name",
            remedy="give the column another name",
        )
