"""Queries whose checkpoints another version leaves behind, in the middle of their streams, for a later one to continue.

To keep those of the version in the folder VERSION:

    PYTHONPATH=VERSION/src:VERSION/tests:VERSION/tests/fleets python tests/support/old_checkpoints.py tests/data/NAME.tar.xz
"""

import json
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

from skytide.batch import BatchRules, Delivery, InPlace, Keying, Sent
from skytide.keyed import AggregateAnswer, CountWindows, KeyedStep, Operator, QueryAnswer, Rebalancer, Tagged, TimeWindows
from skytide.lateness import DropRatio, FixedSlack, KSlack, Slack
from skytide.queries import Aggregate, Measure, Query, Skyline, high, low
from skytide.routing import KEYS
from skytide.spark.checkpoint import Store
from skytide.spark.engine.engine import Engine
from skytide.spark.sinks.base import Staged
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows
from support.engine import Collected, InProcess, Plan

COLUMNS = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("a", pa.int64()), ("b", pa.float64()), ("id", pa.int64())]
)
BATCHES, CUT = 12, 7
"""How many batches there are, and in which one a query is cut off."""
STOPPED, RECORDED, FLUSHED = "stopped", "recorded", "flushed"
"""When it is cut off: after the batch, between its record and its output, and between record and output of a flush after it."""
SINKS = ("results", "late", "windows", "invalid")
START_US = 1_700_000_000_000_000
FAR_US = 600_000_000
"""How far ahead a time is that is wrong."""


class Numbered:
    """Counts the windows of a key in an array, and returns the tuples of each."""

    def open(self, key: Any) -> Any:
        return np.zeros(1, np.int64)

    def process(self, state: Any, rows: pa.Table) -> Any:
        return state + 1, {"number": [int(state[0])], "ids": [rows["id"].to_pylist()]}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([("number", pa.int64()), ("ids", pa.list_(pa.int64()))])


class Running:
    """Numbers the tuples of a key, and adds up a column; the state is bytes."""

    def open(self, key: Any) -> bytes:
        return b"0 0"

    def process(self, state: bytes, rows: pa.Table) -> Any:
        number, total = map(int, state.split())
        totals = total + np.cumsum(rows["a"].to_numpy())
        after = b"%d %d" % (number + len(totals), totals[-1] if len(totals) else total)
        return after, {"number": number + np.arange(len(totals)), "id": rows["id"], "total": totals}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([("number", pa.int64()), ("id", pa.int64()), ("total", pa.int64())])


@dataclass(frozen=True)
class Case:
    """A query, and how it waits and sends."""

    query: Query
    windows: Windows
    slack: Slack
    delivery: Delivery = field(default_factory=InPlace)
    step: KeyedStep | None = None


def keyed(slack: Slack, windows: CountWindows | TimeWindows | None = None, answer: Any = None, operator: Any = None) -> Case:
    """Return a case with an operator on the tuples of each key."""
    tick = windows.tick if isinstance(windows, TimeWindows) else Windows(100_000, 100_000)
    return Case(Tagged(("k",)), tick, slack, step=KeyedStep(("k",), "ts", COLUMNS, windows, answer, operator))


MEASURES = tuple(map(Measure.parse, ("count(*) AS n", "sum(a) AS total", "last(b) AS latest")))
SKYLINE = Skyline(low("a") * high("b"))
ODD, SLIDING = Windows(1_234_567, 1_234_567), Windows(1_234_566, 411_522)
CASES: dict[str, Case] = {
    "aggregate": Case(Aggregate(MEASURES, ("k",), "ts"), ODD, FixedSlack("150 ms")),
    "sent": Case(Aggregate(MEASURES, ("k",), "ts"), SLIDING, KSlack(), Sent(KEYS)),
    "skyline": Case(SKYLINE, SLIDING, FixedSlack("300 ms")),
    "running": keyed(DropRatio(0.1), operator=Operator(Running())),
    "numbered by time": keyed(KSlack(), TimeWindows(Windows(1_000_000, 500_000)), operator=Operator(Numbered())),
    "numbered by count": keyed(FixedSlack("150 ms"), CountWindows(4, 3), operator=Operator(Numbered())),
    "aggregate by count": keyed(FixedSlack("150 ms"), CountWindows(2, 2), AggregateAnswer(Aggregate(MEASURES, (), "ts"))),
    "skyline by count": keyed(KSlack(), CountWindows(5, 2), QueryAnswer(SKYLINE)),
}
KEPT = [
    *((name, moment) for name in CASES for moment in (STOPPED, RECORDED)),
    *((name, FLUSHED) for name in ("aggregate", "skyline", "running")),
]
KEPT_FOLDERS = [("aggregate", STOPPED), ("aggregate", RECORDED), ("numbered by count", RECORDED)]
"""What writes to Parquet folders."""


def batches() -> list[list[pa.Table]]:
    """Return batches of two partitions each: times mostly in order, some late, some far ahead; all keys at times, some rarely."""
    drawn = np.random.default_rng(7)
    found, number = [], 0
    for batch in range(BATCHES):
        parts = []
        for _ in range(2):
            ids = np.arange(number, number + 9)
            number += len(ids)
            times = START_US + ids * 75_021 - drawn.choice([0, 0, 0, 90_000, 700_000], len(ids))
            if batch in (2, CUT):
                times[4] += FAR_US
            keys = [f"key {n}" if n < 5 else f"rare {n} of {batch}" for n in drawn.integers(0, 6, len(ids)).tolist()]
            values = {"ts": times, "k": keys, "a": drawn.integers(0, 9, len(ids)), "b": drawn.integers(0, 9, len(ids)) * 0.5}
            parts.append(pa.table({**values, "ts": pa.array(times, COLUMNS.field("ts").type), "id": ids}, COLUMNS))
        found.append(parts)
    return found


def plan_of(case: Case, folder: Path) -> Plan:
    """Return the plan of a query with a checkpoint in a folder; its keys move for little."""
    windows = case.step.windows if case.step else None
    of_time = windows.windows if isinstance(windows, TimeWindows) else None
    keying = Keying(2, Rebalancer(threshold=1.05, target=1.01, own_share=0.3), of_time) if case.step else None
    rules = BatchRules(case.windows, case.slack, case.delivery, keying=keying, can_spread=case.query.skyline_inside() is not None)
    store = Store(str(folder))
    return Plan.of(case.query, rules, store, COLUMNS, case.step)


class CutOff(Exception):
    """The process dies here."""


class Emitted(Collected):
    """A sink that remembers what it got in files."""

    def __init__(self, folder: Path, is_cut: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self.place, self.is_cut = folder, is_cut
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            self.batches[int(file.stem)] = feather.read_table(file)

    def __call__(self, results: pa.Table, number: int) -> None:
        if self.is_cut():
            raise CutOff
        super().__call__(results, number)
        feather.write_feather(results, self.place / f"{number}.arrow", compression="uncompressed")


class CutOffFolder(Parquet):
    """A folder that nothing is published in any more."""

    def publish(self, sequence: int, staged: Staged) -> None:
        raise CutOff


def sinks_of(folder: Path, is_cut: Callable[[], bool] = lambda: False) -> Sinks:
    """Return sinks that remember, the first of which may be cut off."""
    out = {name: Emitted(folder / name, is_cut if name == "results" else lambda: False) for name in SINKS}
    return Sinks(out["results"], late=out["late"], windows=out["windows"], invalid=out["invalid"])


def folders_of(folder: Path, is_cut: Callable[[], bool] = lambda: False) -> Sinks:
    """Return sinks that are Parquet folders."""
    results = CutOffFolder if is_cut() else Parquet
    return Sinks(results(folder / "results"), **{name: Parquet(folder / name) for name in SINKS[1:]})


def leave(case: Case, moment: str, folder: Path, in_folders: bool = False) -> None:
    """Run a query until it is cut off, with its checkpoint and its output in a folder."""
    data, now = batches(), ""

    def is_cut() -> bool:
        return now == moment

    def engine() -> Engine:
        plan = plan_of(case, folder / "checkpoint")
        return Engine(*plan, folders_of(folder / "out", is_cut) if in_folders else sinks_of(folder / "out", is_cut))

    running = engine()
    for number in range(CUT):
        running.run_batch(InProcess(), data[number], number)
    try:
        now = RECORDED
        running = engine()
        running.run_batch(InProcess(), data[CUT], CUT)
        now = FLUSHED
        if moment == FLUSHED:
            running.flush(InProcess())
    except CutOff:
        assert moment != STOPPED
    else:
        assert moment == STOPPED, "nothing came out, so nothing was cut off"


def leave_fleet(folder: Path, cut: str) -> None:
    """Run a fleet until it is cut off, with its streams, its notes, what Spark knows of it and what came out in a folder."""
    from fleet_model import Asked, record

    (folder / "feeds").mkdir(parents=True)
    asked = Asked(folder / "notes", place=str(folder / "feeds"), splits=2)
    torn = b""
    for turn in range(3):
        data = torn + b"".join(record(turn * 5 + n) for n in range(5))
        data, torn = data[:-4], data[-4:]
        for stream in STREAMS:
            with (folder / "feeds" / f"{stream}.jsonl").open("ab") as file:
                file.write(data)
        asked.batch(crash=cut if turn == 2 else "")
    known = {"log": asked.log, "committed": asked.committed, "given": asked.given}
    (folder / "known.json").write_text(json.dumps({**known, "torn": torn.decode()}))


STREAMS = ("a", "b", "cab 7")
FLEETS = {STOPPED: "", RECORDED: "before the commit"}


def main() -> None:
    """Write everything into one archive."""
    with tempfile.TemporaryDirectory() as made, tarfile.open(sys.argv[1], "w:xz") as archive:
        for name, moment in KEPT:
            leave(CASES[name], moment, Path(made, name, moment))
        for name, moment in KEPT_FOLDERS:
            leave(CASES[name], moment, Path(made, f"{name} in folders", moment), in_folders=True)
        for moment, cut in FLEETS.items():
            leave_fleet(Path(made, "fleet", moment), cut)
        archive.add(made, ".")


if __name__ == "__main__":
    main()
