"""Checkpoints that an earlier version left behind go on with this one: nothing is lost, twice or different."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import oracle
from support.engine import InProcess, Plan
from support.old_checkpoints import (
    BATCHES,
    CASES,
    CUT,
    FAR_US,
    FLUSHED,
    KEPT,
    KEPT_FOLDERS,
    ODD,
    SINKS,
    SLIDING,
    START_US,
    batches,
    folders_of,
    plan_of,
    sinks_of,
)

from skytide.spark.engine.engine import Engine
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows

ARCHIVE = Path(__file__).parents[1] / "data" / "checkpoints-28fea2d.tar.xz"
Row = dict[str, Any]
MEASURED = [("count", "*", "n"), ("sum", "a", "total"), ("last", "b", "latest")]
BY_KEY = oracle.aggregate(MEASURED, keys=("k",))
SKYLINE = oracle.skyline(("low", "a"), ("high", "b"))


def in_windows(windows: Windows, ask: oracle.Ask) -> oracle.Ask:
    """Return a query for the answers of all windows, with their bounds."""

    def answer(rows: list[Row]) -> list[Row]:
        found = oracle.windows_of(rows, windows.length_us, windows.slide_us, ask)
        bounds = {start: {"window_start": start, "window_end": start + windows.length_us} for start in found}
        return [{**bounds[start], **row} for start, window in found.items() for row in window.rows]

    return answer


def by_count(length: int, slide: int, ask: oracle.Ask) -> oracle.Ask:
    """Return a query for the answers of all windows of so many rows."""

    def answer(rows: list[Row]) -> list[Row]:
        found = []
        for begin in range(0, len(rows) - length + 1, slide):
            window = rows[begin : begin + length]
            bounds = {
                "row_start": begin,
                "row_end": begin + length,
                "window_start": window[0]["ts"],
                "window_end": window[-1]["ts"],
            }
            found += [{**bounds, **row} for row in ask(window)]
        return found

    return answer


ASKED: dict[str, oracle.Ask] = {
    "aggregate": in_windows(ODD, BY_KEY),
    "sent": in_windows(SLIDING, BY_KEY),
    "skyline": in_windows(SLIDING, SKYLINE),
    "running": oracle.of_each_key(oracle.running("a"), ["k"]),
    "numbered by time": oracle.of_each_key(oracle.numbered_by_time(1_000_000, 500_000), ["k"]),
    "numbered by count": oracle.of_each_key(oracle.numbered_by_count(4, 3), ["k"]),
    "aggregate by count": oracle.of_each_key(by_count(2, 2, oracle.aggregate(MEASURED)), ["k"]),
    "skyline by count": oracle.of_each_key(by_count(5, 2, SKYLINE), ["k"]),
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the earlier version left behind."""
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(ARCHIVE) as stored:
        stored.extractall(folder, filter="data")
    return folder


def go_on(name: str, moment: str, folder: Path, sinks: Callable[[Plan], Sinks]) -> int:
    """Continue a query to its end, each batch with an engine of its own, and return how many tuples are held."""
    data = batches()
    for number in range(CUT + (moment == FLUSHED), BATCHES):
        plan = plan_of(CASES[name], folder / "checkpoint")
        assert plan.store.key_seed() == 0  # keys are found by the hashes that they had
        engine = Engine(*plan, sinks(plan))
        engine.finish_flush(InProcess())
        engine.run_batch(InProcess(), data[number], number)
    engine.flush(InProcess())
    return engine.status().held


def check(name: str, out: dict[str, pa.Table], held: int) -> None:
    """Assert that all rows are in their windows, or aside; an operator on keys may hold those with wrong times."""
    found = {sink: oracle.rows_of(table) for sink, table in out.items()}
    rows = oracle.accepted(
        [row for batch in batches() for part in batch for row in oracle.rows_of(part)], found["late"], found["invalid"]
    )
    rows = [row for row in rows if not held or row["ts"] < START_US + FAR_US]
    aside = len(found["late"]) + len(found["invalid"])
    assert len(rows) + aside + held == sum(part.num_rows for batch in batches() for part in batch)
    assert oracle.multiset(found["results"]) == oracle.multiset(ASKED[name](rows))


def all_of(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables) if tables else pa.table({})


@pytest.mark.parametrize(("name", "moment"), KEPT)
def test_a_query_goes_on(archive: Path, name: str, moment: str) -> None:
    folder = archive / name / moment
    held = go_on(name, moment, folder, lambda plan: sinks_of(folder / "out"))
    sinks = sinks_of(folder / "out")
    formats = [
        json.loads(path.read_text().partition("\n")[0])["format"] for path in sorted(folder.glob("checkpoint/manifests/*.json"))
    ]
    assert formats[-1] > 3  # which the earlier version refuses; it would misread what is in there
    check(name, {sink: all_of(list(getattr(sinks, sink).batches.values())) for sink in SINKS}, held)
    memory = plan_of(CASES[name], folder / "checkpoint").store.latest().memory
    assert moment == FLUSHED or all(run.level >= 0 for run in memory), "the file of the earlier version is read once"


@pytest.mark.parametrize(("name", "moment"), KEPT_FOLDERS)
def test_a_query_goes_on_writing_to_its_folders(archive: Path, name: str, moment: str) -> None:
    folder = archive / f"{name} in folders" / moment
    for sink in SINKS:  # the archive is not unpacked where it was written: as after a move, the folders are told
        owner = folder / "out" / sink / "_skytide" / "owner.json"
        owner.write_text(json.dumps({**json.loads(owner.read_text()), "checkpoint": f"file://{folder}/checkpoint"}))
    held = go_on(name, moment, folder, lambda plan: folders_of(folder / "out"))
    parts = {sink: sorted((folder / "out" / sink).glob("batch=*/*.parquet")) for sink in SINKS}
    check(name, {sink: all_of([pq.ParquetFile(part).read() for part in mine]) for sink, mine in parts.items()}, held)
