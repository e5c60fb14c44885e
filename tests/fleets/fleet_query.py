"""A query with windows over a fleet, without Spark."""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support import oracle
from support.engine import InProcess, Outputs, Plan

from skytide.batch import BatchRules, Delivery, InSplits, PaneReport
from skytide.lateness import Slack
from skytide.queries import Aggregate, Measure
from skytide.records.fleet import FleetStatus
from skytide.spark.checkpoint import Store
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.panes import PaneTask, read_reports
from skytide.spark.fleet.feeds.lines import JsonFolder
from skytide.spark.fleet.reader import FleetReader
from skytide.spark.fleet.settings import Settings
from skytide.spark.sources.panes import PaneReader
from skytide.windows import Windows

SECOND = 1_000_000
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
BEGIN_US = int(BEGIN.timestamp()) * SECOND
TIME = pa.field("ts", pa.timestamp("us", "UTC"))
READ = pa.schema([TIME, pa.field("a", pa.int64())])
COLUMNS = READ.append(pa.field("stream", pa.string()))
COUNTED = (Measure.parse("count(*)"), Measure.parse("sum(a)"))


class FromSource(InProcess):
    """Jobs whose pane level has run in the source."""

    def panes(self, batch: Any, task: PaneTask, delivery: Delivery) -> PaneReport:
        return read_reports(pa.Table.from_batches(batch))


class Query:
    """A query over a fleet, called as Spark calls it; it may be restarted after any batch."""

    def __init__(self, folder: Path, slack: Slack, capacity_hz: float, **more: Any) -> None:
        self.folder, self.slack, self.capacity_hz, self.more = folder, slack, capacity_hz, more
        self.outputs = Outputs()
        self.offset: dict[str, Any] | None = None
        self.number, self.now_s = 0, 0.0
        self.start()

    def start(self) -> None:
        settings = Settings(
            place=str(self.folder / "feeds"),
            schema="ts timestamp, a bigint",
            notes=str(self.folder / "notes"),
            splits=2,
            **self.more,
        )
        fleet = FleetReader(settings, JsonFolder(settings.place, READ), lambda: self.now_s)
        fleet._capacity.measured = lambda reports, now_s: None  # type: ignore[method-assign]
        fleet._capacity.hz = self.capacity_hz
        self.fleet = fleet
        rules = BatchRules(Windows(10 * SECOND, 5 * SECOND), self.slack, InSplits())
        self.store = store = Store(str(self.folder / "state"))
        plan = Plan.of(Aggregate(COUNTED, time="ts"), rules, store, COLUMNS)
        self.reader, self.engine = PaneReader(fleet, *plan), Engine(*plan, self.outputs.sinks)

    def batch(self) -> bool:
        start = self.offset or self.reader.initialOffset()
        end = json.loads(json.dumps(self.reader.latestOffset(start, ReadAllAvailable())))
        if end == start:
            return False
        reports = [batch for part in self.reader.partitions(start, end) for batch in self.reader.read(part)]
        self.engine.run_batch(FromSource(), reports, self.number)
        self.offset, self.number, self.now_s = end, self.number + 1, self.now_s + 1
        return True

    def punctuation_s(self) -> float | None:
        """Return how far windows have come out, in seconds since the begin of `write_times`."""
        reached_us = self.store.latest_before_source(1_000).clock.punctuation_us
        return None if reached_us is None else (reached_us - BEGIN_US) / SECOND

    def fleet_status(self) -> FleetStatus:
        """Return how the fleet is doing, by another look."""
        assert self.fleet._channel is not None
        self.reader.latestOffset(self.offset or {}, ReadAllAvailable())
        return FleetStatus(**(self.fleet._channel.status() or {}))

    def windows(self) -> dict[int, int]:
        rows = oracle.rows_of(pa.concat_tables(self.outputs.windows.batches.values()))
        assert [row["window_start"] for row in rows] == sorted(row["window_start"] for row in rows)
        return {row["window_start"]: row["tuples"] for row in rows}


def write_times(folder: Path, stream: str, times_s: Sequence[float | None]) -> list[dict[str, Any]]:
    """Append tuples of these times to a stream, None for one without a time, and return those that have one."""
    feeds = folder / "feeds"
    feeds.mkdir(exist_ok=True)
    with (feeds / f"{stream}.jsonl").open("a") as file:
        for number, time_s in enumerate(times_s):
            at = None if time_s is None else (BEGIN + datetime.timedelta(seconds=time_s)).isoformat()
            file.write(json.dumps({"ts": at, "a": number}) + "\n")
    return [{"ts": BEGIN_US + round(time_s * SECOND), "a": number} for number, time_s in enumerate(times_s) if time_s is not None]
