"""What a crash must not do, without Spark: the corners of starting again that a random test seldom meets."""

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from support.engine import QUERIES, Batch, Collected, Crash, Fragile, InProcess, Plan, micros, plan_of, tuples

from skytide.batch import Delivery, PaneReport, StepReport, WindowReport
from skytide.errors import InvalidInput, SkytideError
from skytide.lateness import DropRatio, FixedSlack, KSlack, Slack
from skytide.spark.checkpoint import Store
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.panes import PaneTask
from skytide.spark.engine.windows import WindowTask
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows

# The stream seems to end after two batches; the third one is so small that without a flush no window would end with it.
BATCHES: list[Batch] = [[[0, 150, 160, 900]], [[1_000, 2_010], [1_900]], [[2_020]], [[5_000, 5_050]], [[5_600]]]


def plan_in(folder: Path) -> Plan:
    return plan_of(QUERIES[0], str(folder), Windows(1_000, 200), FixedSlack("300 us"))


def play(plan: Plan, sinks: Sinks, steps: list[int | str], jobs: InProcess | None = None) -> None:
    """Run batches by number, and flush, each in an engine of its own, as after a restart."""
    data = tuples(BATCHES)
    for step in steps:
        engine = Engine(*plan, sinks)
        engine.finish_flush(jobs or InProcess())
        if isinstance(step, int):
            engine.run_batch(jobs or InProcess(), data[step], step)
        else:
            engine.flush(jobs or InProcess())


def windows_of(stats: Collected) -> list[int]:
    return [micros(row["window_start"]) for row in stats.rows()]


@pytest.mark.parametrize("step", range(19))
def test_a_flush_that_was_cut_off_happened_wholly_or_not_at_all(tmp_path: Path, step: int) -> None:
    """Also if more data has come when the query starts again."""
    plan, out, stats = plan_in(tmp_path / "cut"), Collected(), Collected()
    play(plan, Sinks(out, windows=stats), [0, 1])
    fuse = iter([False] * step + [True])
    fragile = replace(plan, store=Fragile(plan.store, fuse))  # type: ignore[arg-type]
    with contextlib.suppress(Crash):
        Engine(*fragile, Sinks(Fragile(out, fuse), windows=Fragile(stats, fuse))).flush(Fragile(InProcess(), fuse))
    play(plan, Sinks(out, windows=stats), [2, 3, 4, "flush"])
    happened = plan.store.latest().sequence == 6
    expected, expected_stats = Collected(), Collected()
    steps: list[int | str] = [0, 1, "flush", 2, 3, 4, "flush"] if happened else [0, 1, 2, 3, 4, "flush"]
    play(plan_in(tmp_path / "whole"), Sinks(expected, windows=expected_stats), steps)
    assert out.rows() == expected.rows()
    assert windows_of(stats) == windows_of(expected_stats)


def test_a_batch_repeated_after_the_flush_changes_nothing(tmp_path: Path) -> None:
    whole, out, stats = Collected(), Collected(), Collected()
    play(plan_in(tmp_path / "whole"), Sinks(whole), [0, 1, "flush", 2, 3, 4, "flush"])
    play(plan_in(tmp_path / "again"), Sinks(out, windows=stats), [0, 1, "flush", 1, "flush", 2, 2, 3, 4, "flush", 4])
    assert out.rows() == whole.rows()
    assert windows_of(stats) == sorted(set(windows_of(stats)))


def test_half_a_checkpoint_is_refused(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "skytide"))
    with pytest.raises(SkytideError, match=r"the state after batch -1, but Spark continues with batch 7; .* restore the whole"):
        store.before(7)
    play(plan_in(tmp_path / "skytide"), Sinks(Collected()), [0, 1, 2])
    with pytest.raises(SkytideError, match="the state after batch 2, but Spark continues with batch 0"):
        store.before(0)
    assert [store.before(batch).batch for batch in (2, 3)] == [1, 2]


def test_what_a_killed_task_left_half_written_is_removed(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    play(plan, Sinks(Collected()), [0])
    name = uuid.uuid4().hex
    drafts = [tmp_path / "panes" / f".0-1-{name}.arrow.{name}", tmp_path / "manifests" / f".000000000000.json.{name}"]
    for draft in drafts:
        draft.write_text("half")
    play(plan, Sinks(Collected()), [1])
    assert not any(draft.exists() for draft in drafts)


def test_a_folder_on_an_unknown_file_system_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"nowhere://x: Unrecognized filesystem type .*; choose a folder that all hosts share"):
        Store("nowhere://x")


@pytest.mark.parametrize("slack", [KSlack(), DropRatio(0.1)])
def test_another_slack_may_go_on_with_a_checkpoint(tmp_path: Path, slack: Slack) -> None:
    whole, out = Collected(), Collected()
    play(plan_in(tmp_path / "whole"), Sinks(whole), [0, 1, 2, 3, 4, "flush"])
    play(plan_in(tmp_path / "changed"), Sinks(out), [0, 1])
    changed = plan_in(tmp_path / "changed")
    play(replace(changed, rules=replace(changed.rules, slack=slack)), Sinks(out), [2, 3, 4, "flush"])
    assert out.rows() == whole.rows()  # nothing is late here


class LeftBehind(InProcess):
    """Jobs of which an earlier try, that divided the batch otherwise, still writes when the next one has ended."""

    def panes(self, batch: list[pa.Table], task: PaneTask, delivery: Delivery) -> PaneReport:
        reports = super().panes(batch, task, delivery)
        super().panes([pa.concat_tables(reversed(batch))], task, delivery)
        return reports

    def window_task(self, work: Callable[[], WindowReport | StepReport]) -> str:
        reports = super().window_task(work)
        task = getattr(work, "__self__", None)
        if isinstance(task, WindowTask):
            fewer = {pane: pieces[:1] for pane, pieces in task.instruction.panes.items()}
            super().window_task(replace(task, instruction=replace(task.instruction, panes=fewer)).run)
        return reports


def test_what_an_earlier_try_still_writes_harms_nothing(tmp_path: Path) -> None:
    expected, out = Collected(), Collected()
    play(plan_in(tmp_path / "alone"), Sinks(expected), [0, 1, 2, 3, 4, "flush"])
    play(plan_in(tmp_path / "left"), Sinks(out), [0, 1, 2, 3, 4, "flush"], LeftBehind())
    assert out.rows() == expected.rows()


def test_what_an_earlier_try_still_writes_never_reaches_a_reader_of_parquet(tmp_path: Path) -> None:
    expected = Collected()
    play(plan_in(tmp_path / "alone"), Sinks(expected), [0, 1, 2, 3, 4, "flush"])
    play(plan_in(tmp_path / "left"), Sinks(Parquet(tmp_path / "out")), [0, 1, 2, 3, 4, "flush"], LeftBehind())
    rows = ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()
    assert sorted(rows, key=repr) == sorted(expected.rows(), key=repr)


@pytest.mark.usefixtures("one_minute")
def test_only_the_latest_states_are_kept(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    play(plan, Sinks(Collected()), [0, 1, 2, 3, 4, "flush"])
    assert sorted(path.name for path in (tmp_path / "manifests").iterdir()) == [f"{number:012}.json" for number in range(1, 6)]
    needed = {name for state in plan.store.states() for name in state.files()}
    assert {f"panes/{path.name}" for path in (tmp_path / "panes").iterdir()} <= needed
    assert plan.store.latest().flushed
