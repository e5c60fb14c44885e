"""A batch that was cut off after the sink, or before, and is repeated in other circumstances: every window reaches every kind of sink once."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from support.engine import QUERIES, Crash, Fragile, InProcess, plan_of, tuples
from support.once import KINDS, Database
from support.s3_server import BUCKET, s3_server

from skytide.batch import Delivery, InPlace, Sent, StepReport, WindowReport
from skytide.lateness import DropRatio, FixedSlack, KSlack, Slack
from skytide.queries import Query
from skytide.routing import AS_PID, PB_RR
from skytide.spark.checkpoint import Files, Store
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.windows import WindowTask
from skytide.spark.sinks.function import Function
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows

WINDOWS = Windows(1_000, 200)
RNG = np.random.default_rng(10)
# Ten batches of a stream that is up to 700 us late: how late its tuples are depends on how they are divided into partitions.
DATA = tuples([[(np.arange(40) * 50 + 2_000 * batch - RNG.integers(0, 700, 40)).tolist()] for batch in range(10)])
CHANGES: dict[str, tuple[int, Delivery, Slack]] = {
    "one partition": (1, InPlace(), KSlack()),
    "two partitions": (2, InPlace(), KSlack()),
    "four partitions": (4, InPlace(), KSlack()),
    "other slots": (3, Sent(AS_PID), KSlack()),
    "panes in turn": (2, Sent(PB_RR), KSlack()),
    "another slack": (2, InPlace(), FixedSlack(0)),
    "a share may be lost": (4, InPlace(), DropRatio(0.2)),
}


def divided(batch: list[pa.Table], parts: int) -> list[pa.Table]:
    whole = pa.concat_tables(batch)
    size = -(-whole.num_rows // parts)
    return [whole.slice(part * size, size) for part in range(parts)]


def life(folder: Path, sinks: Sinks, batches: range, change: str = "two partitions", fuse: Iterator[bool] = iter(())) -> None:  # noqa: B008
    """Run some batches in a process of its own, so to speak; it may die when the fuse says so."""
    parts, delivery, slack = CHANGES[change]
    plan = plan_of(QUERIES[0], str(folder), WINDOWS, slack, delivery=delivery, pane_slots=parts)
    engine = Engine(*replace(plan, store=Fragile(plan.store, fuse)), sinks)  # type: ignore[arg-type]
    for number in batches:
        engine.run_batch(InProcess(), divided(DATA[number], parts), number)
    if batches.stop == len(DATA):
        engine.flush(InProcess())


def dies_after(calls: int) -> Iterator[bool]:
    yield from [False] * calls
    yield True


@pytest.mark.parametrize(
    ("kind", "change"), [*((kind, "four partitions") for kind in KINDS), *(("remember_largest", c) for c in CHANGES)]
)
def test_a_batch_cut_off_after_the_sink_is_the_same_again(tmp_path: Path, kind: str, change: str) -> None:
    cut, whole = Database(tmp_path / "cut.db"), Database(tmp_path / "whole.db")
    first = getattr(cut, kind)

    def dying(results: pa.Table, number: int) -> None:
        first(results, number)
        if number == 5:
            raise Crash

    life(tmp_path / "whole", Sinks(Function(getattr(whole, kind))), range(6))
    with contextlib.suppress(Crash):
        life(tmp_path / "cut", Sinks(Function(dying)), range(6))
    life(tmp_path / "cut", Sinks(Function(getattr(cut, kind))), range(5, 6), change)
    assert cut.rows() == whole.rows()
    for folder, database in (("whole", whole), ("cut", cut)):
        life(tmp_path / folder, Sinks(Function(getattr(database, kind))), range(6, len(DATA)), change)
    assert cut.rows() == whole.rows()
    assert len({start for start, _ in cut.rows()}) > 90


@pytest.mark.parametrize("change", ["one partition", "four partitions", "other slots"])
@pytest.mark.parametrize("calls", (1, 8, 20, 29))
def test_a_batch_cut_off_anywhere_loses_and_doubles_nothing(tmp_path: Path, calls: int, change: str) -> None:
    """What is late may differ if nothing had been decided yet; but each window comes out once."""
    out = Database(tmp_path / "out.db")
    with contextlib.suppress(Crash):
        life(tmp_path / "state", Sinks(Function(out.remember_largest)), range(6), fuse=dies_after(calls))
    done = (
        Engine(*plan_of(QUERIES[0], str(tmp_path / "state"), WINDOWS, KSlack()), Sinks(Function(out.remember_largest)))
        .store.latest()
        .batch
    )
    life(tmp_path / "state", Sinks(Function(out.remember_largest)), range(max(0, done), len(DATA)), change)
    starts = [start for start, _ in out.rows()]
    assert len(set(starts)) > 90
    rows = [row for _, row in out.rows()]
    assert len(rows) == len(set(rows))


class Orphans(InProcess):
    """Jobs whose window tasks are repeated later, as by a task of an earlier try that nobody stopped."""

    def __init__(self) -> None:
        self.left: list[Callable[[], WindowReport | StepReport]] = []

    def window_task(self, work: Callable[[], WindowReport | StepReport]) -> str:
        task = getattr(work, "__self__", None)
        if isinstance(task, WindowTask):
            fewer = {pane: pieces[:1] for pane, pieces in list(task.instruction.panes.items())[:1]}
            self.left.append(replace(task, instruction=replace(task.instruction, panes=fewer)).run)
        return super().window_task(work)


def test_an_orphaned_task_that_writes_late_changes_no_file_that_readers_see(tmp_path: Path) -> None:
    def play(name: str, query: Query, jobs: InProcess) -> pa.Table:
        plan = plan_of(query, str(tmp_path / name), WINDOWS, KSlack())
        engine = Engine(*plan, Sinks(Parquet(str(tmp_path / f"{name} out"))))
        for number, batch in enumerate(DATA):
            engine.run_batch(jobs, divided(batch, 2), number)
            for work in jobs.left if isinstance(jobs, Orphans) else ():
                with contextlib.suppress(FileNotFoundError):  # the files of its panes may be gone
                    work()
        engine.flush(jobs)
        return pq.read_table(tmp_path / f"{name} out").sort_by([("window_start", "ascending"), ("id", "ascending")])

    assert play("orphans", QUERIES[0], Orphans()).equals(play("alone", QUERIES[0], InProcess()))


@pytest.mark.slow
def test_a_query_on_an_object_store_goes_on_after_it_was_cut_off(tmp_path: Path) -> None:
    """State and results lie on a server of the S3 protocol; its process dies in the sink of a batch, and another one goes on."""

    def life_on(place: Files, sink: Parquet, batches: range, dies: bool = False) -> None:
        plan = plan_of(QUERIES[0], "", WINDOWS, KSlack(), store=Store(place))
        windows = Function(
            Fragile(Database(tmp_path / f"{uuid.uuid4().hex}.db").overwrite, dies_after(2 * 3) if dies else iter(()))
        )
        engine = Engine(*plan, Sinks(sink, windows=windows))
        for number in batches:
            engine.run_batch(InProcess(), divided(DATA[number], 2), number)
        if batches.stop == len(DATA):
            engine.flush(InProcess())

    with s3_server() as options:
        remote = Files(f"s3a://{BUCKET}/query", options)
        out = Parquet(f"s3a://{BUCKET}/out", options=options)
        with contextlib.suppress(Crash):
            life_on(remote, out, range(6), dies=True)
        done = Store(remote).latest().batch
        assert 0 < done < 6
        life_on(remote, out, range(done, len(DATA)))
        found = pq.read_table(f"{BUCKET}/out", filesystem=pafs.S3FileSystem(**options))
    here = Parquet(tmp_path / "out")
    life_on(Files(tmp_path / "query"), here, range(len(DATA)))
    order = [("window_start", "ascending"), ("id", "ascending")]
    assert found.sort_by(order).equals(pq.read_table(tmp_path / "out").sort_by(order))
