"""Windows over a fleet without Spark: streams that are kept waiting lose nothing, and the windows of others wait for them."""

import datetime
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support import oracle
from support.engine import InProcess, Outputs

from skytide.batch import InSplits, PaneReport, Rules, Way
from skytide.lateness import FixedSlack, KSlack, Slack
from skytide.queries import Aggregate, Measure
from skytide.spark.checkpoint import Store
from skytide.spark.engine.engine import Engine, Plan
from skytide.spark.engine.pane_level import PaneTask, read_reports
from skytide.spark.fleet.feeds.lines import JsonFolder
from skytide.spark.fleet.reader import FleetReader
from skytide.spark.fleet.settings import Settings
from skytide.spark.sources.panes import PaneReader
from skytide.windows import Windows

SECOND = 1_000_000
TIME = pa.field("ts", pa.timestamp("us", "UTC"))
READ = pa.schema([TIME, pa.field("a", pa.int64())])
COLUMNS = READ.append(pa.field("stream", pa.string()))
COUNTED = (Measure.parse("count(*)"), Measure.parse("sum(a)"))


class FromSource(InProcess):
    """Jobs whose pane level has run in the source."""

    def panes(self, batch: Any, task: PaneTask, way: Way) -> PaneReport:
        return read_reports(pa.Table.from_batches(batch))


class Query:
    """A query over a fleet, called as Spark calls it; it may be restarted after any batch."""

    def __init__(self, folder: Path, slack: Slack, capacity_hz: float) -> None:
        self.folder, self.slack, self.capacity_hz = folder, slack, capacity_hz
        self.outputs = Outputs()
        self.offset: dict[str, Any] | None = None
        self.number, self.now_s = 0, 0.0
        self.start()

    def start(self) -> None:
        settings = Settings(
            place=str(self.folder / "feeds"), schema="ts timestamp, a bigint", notes=str(self.folder / "notes"), splits=2
        )
        fleet = FleetReader(settings, JsonFolder(settings.place, READ), lambda: self.now_s)
        fleet._capacity.measured = lambda reports, now_s: None  # type: ignore[method-assign]
        fleet._capacity.hz = self.capacity_hz
        rules = Rules(Windows(10 * SECOND, 5 * SECOND), self.slack, InSplits())
        store = Store(str(self.folder / "state"))
        plan = Plan(Aggregate(COUNTED, time="ts"), rules, "ts", COLUMNS, (), store, late_wanted=True, invalid_wanted=True)
        self.reader, self.engine = PaneReader(fleet, plan), Engine(plan, self.outputs.sinks)

    def batch(self) -> bool:
        start = self.offset or self.reader.initialOffset()
        end = json.loads(json.dumps(self.reader.latestOffset(start, ReadAllAvailable())))
        if end == start:
            return False
        reports = [batch for part in self.reader.partitions(start, end) for batch in self.reader.read(part)]
        self.engine.run_batch(FromSource(), reports, self.number)
        self.offset, self.number, self.now_s = end, self.number + 1, self.now_s + 1
        return True

    def windows(self) -> dict[int, int]:
        rows = oracle.rows_of(pa.concat_tables(self.outputs.windows.batches.values()))
        assert [row["window_start"] for row in rows] == sorted(row["window_start"] for row in rows)
        return {row["window_start"]: row["tuples"] for row in rows}


def _write(folder: Path, stream: str, times_s: list[float]) -> list[dict[str, Any]]:
    feeds = folder / "feeds"
    feeds.mkdir(exist_ok=True)
    with (feeds / f"{stream}.jsonl").open("a") as file:
        for number, time_s in enumerate(times_s):
            at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=time_s)
            file.write(json.dumps({"ts": at.isoformat(), "a": number}) + "\n")
    start = int(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp()) * SECOND
    return [{"ts": start + round(time_s * SECOND), "a": number} for number, time_s in enumerate(times_s)]


streams = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 120), st.sampled_from([0.1, 1.0, 7.0])), min_size=1, max_size=5)


@given(
    streams,
    st.sampled_from([KSlack(), FixedSlack(0), FixedSlack("20 s")]),
    st.sampled_from([5, 20, 100, 10_000]),
    st.booleans(),
)
def test_history_is_read_whole_however_little_a_batch_takes(
    spans: list[tuple[int, int, float]], slack: Slack, capacity_hz: float, restarts: bool
) -> None:
    """Streams begin, end and are as dense as they like; short ones are read at once, and long ones over many batches."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [
            row
            for number, (begin, count, step) in enumerate(spans)
            for row in _write(folder, f"s{number}", [begin + at * step for at in range(count)])
        ]
        query = Query(folder, slack, capacity_hz)
        while query.batch():
            if restarts:
                query.start()
        query.engine.flush(FromSource())
        want = {start: window.tuples for start, window in oracle.windows_of(rows, 10 * SECOND, 5 * SECOND, lambda rows: []).items()}
        assert not query.outputs.late.rows() and not query.outputs.invalid.rows()
        assert query.windows() == want


def test_what_holds_the_windows_back_lets_go_when_it_has_caught_up(tmp_path: Path) -> None:
    _write(tmp_path, "short", [100 + at for at in range(10)])
    _write(tmp_path, "long", [at * 0.1 for at in range(1_000)])
    query = Query(tmp_path, KSlack(), 300)
    query.batch()
    held = query.engine.status()
    assert held.windows_out < 10
    while query.batch():
        pass
    assert query.engine.status().slack_us == 0, "that we kept a stream waiting is no delay of its tuples"
    _write(tmp_path, "short", [130.0 + at for at in range(5)])
    query.batch()
    assert max(query.windows()) > min(query.windows()) + 100 * SECOND
    assert query.engine.status().late == 0
