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
from skytide.batch import InSplits, Way
from skytide.errors import InvalidInput
from skytide.errors.checks import kind_of, refused, words
from skytide.records.fleet import FleetStatus, SplitStatus
from skytide.records.printing import Printed
from skytide.records.secret import Address
from skytide.routing import Splitting
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.fleet.board import Board, Control
from skytide.spark.fleet.feeds import STREAM
from skytide.spark.fleet.reader import FleetReader
from skytide.spark.fleet.settings import Settings, schema_text
from skytide.spark.fleet.source import register_fleet
from skytide.spark.fleet.standing import splits_of
from skytide.spark.watching import fleet_subject
from skytide.watch.serving import export, serve
from skytide.windows import Duration, duration_us

if TYPE_CHECKING:
    from skytide.watch.exporter import Exporter
    from skytide.watch.server import Page


class Fleet(Printed):
    """Streams that come and go, read through one source. Made by `fleet`."""

    def __init__(self, settings: Settings) -> None:
        """Open a board, through which this object and the readers of its queries communicate."""
        path = tempfile.mkdtemp(prefix="skytide-fleet-")
        atexit.register(shutil.rmtree, path, ignore_errors=True)  # a query may outlive this object
        self.settings = replace(settings, board=path)
        self._board, self._control = Board(path), Control()

    def lines(self) -> list[tuple[str, str]]:
        """Return where the streams are, and how the fleet is doing."""
        return [("fleet", self.settings.place), *self.status().lines()]

    def __repr__(self) -> str:
        """Return its place and its status in a few lines."""
        return str(self)

    def load(self, spark: SparkSession, *, checkpoint: str | os.PathLike[str] | None = None) -> DataFrame:
        """Return the streams as one streaming DataFrame: the columns of the schema, and `stream`, the name of each row's stream.

        The positions of streams are noted in the `checkpoint` of the query if that is named here, too; otherwise in Spark's log, which is
        as safe, but takes more space: some 5 bytes per stream and batch.
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

    def way(self, splitting: Splitting | None) -> Way | None:
        """Return how tuples reach slots inside the source: each stream is read in its split. Any other splitting needs a shuffle."""
        return InSplits() if splitting is None else None

    def expected_hz(self) -> float | None:
        """Return how many tuples per second are expected of all streams together, by forecasts and declarations."""
        status = self._board.status()
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
        """Declare what is known of a stream, from the next batch on; the stream need not exist yet."""
        words("stream", stream, "sensor:7")
        kind_of("profile", profile, Profile, reason="not a profile", remedy="pass Profile(max_hz=5_000), or other characteristics")
        self._set_control(replace(self._control, profiles={**self._control.profiles, stream: profile}))

    def suspend(self, *streams: str) -> None:
        """Let nothing of some streams in from the next batch on; they keep their place, even when the query is started again."""
        self._set_suspended(streams, True)

    def resume(self, *streams: str) -> None:
        """Let streams in again: they catch up from where they were, as fast as the others leave room."""
        self._set_suspended(streams, False)

    def status(self) -> FleetStatus:
        """Return how the fleet is doing, as of its query's latest look."""
        return FleetStatus(**(self._board.status() or {}))

    def splits(self) -> list[SplitStatus]:
        """Return which streams each split reads, and how it is doing, as of at most a second ago."""
        streams = self._board.streams()
        return [] if streams is None else splits_of(streams, self.status().capacity_hz)

    def streams(self) -> pa.Table:
        """Return a row for each stream: its split, rates, and what is buffered of it, as of at most a second ago."""
        found = self._board.streams()
        if found is None:
            raise InvalidInput(value="streams()", reason="no query has looked at the fleet yet", remedy="start one first")
        return found

    def serve(self, address: str = "127.0.0.1", port: int | None = None, *, token: str | None = None) -> "Page":
        """Show the fleet on a live page, and return the page; `run.serve()` shows a query with its fleet."""
        return serve([fleet_subject(self)], address, port, token)

    def metrics(self, port: int, address: str = "127.0.0.1") -> "Exporter":
        """Let Prometheus read how it is doing, and return the exporter."""
        return export([fleet_subject(self)], port, address)

    def _set_suspended(self, streams: tuple[str, ...], value: bool) -> None:
        if not streams:
            raise refused("streams", streams, "none is named", 'name some: fleet.suspend("sensor:7")')
        for stream in streams:
            words("stream", stream, "sensor:7")
        self._set_control(replace(self._control, suspended={**self._control.suspended, **dict.fromkeys(streams, value)}))

    def _set_control(self, control: Control) -> None:
        self._board.write_control(control)
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
    """Return many streams that are read together.

    - Where: a folder with one growing file per stream, named after the stream. Its `format`, which is also the extension of the files, is
      "jsonl", "csv" (with a `header`, the first line of a file names its columns, in any order) or "arrow" (Arrow IPC streams).
      Or a Redis server, "redis://localhost:6379/0", or "redis://:password@localhost:6379/0", whose password nothing prints, with the
      pattern `streams` ("sensor:*"): each key that matches is a stream. An entry
      has one field per column, or, with the `format` "jsonl" or "csv", a single field with JSON or CSV.
      Or Kafka, "kafka://localhost:9092", with some `topics`: each partition is a stream, named `topic-partition`, and the value of a
      message is a JSON object, or CSV.
    - What: the columns of the `schema`, as Spark writes them. Missing fields are NULL. A record that cannot be read is counted, and
      written to the folder `invalid`, if one is named.
    - From when: `starting` "earliest"; or "latest", which skips what is there when a query first looks.
    - How much: a batch has up to `splits` tasks (default: as many as there are cores); only as many as are needed are opened. A split
      takes what it can do in an `interval`, which should be that of the trigger; streams move away from a split that is more than the
      `latency` behind. The `strategy` decides which: "drfm", or P1's others, "drf", "ari", "ard" and "par". What a split can do is
      measured, unless `capacity_hz` gives it in tuples per second.
    - How long windows wait for a stream of which something was kept waiting: until it has caught up, or, with `hold`, until it is that far
      behind the newest tuple, by the times of tuples ("10 minutes"); what comes of it after that may be late.
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
