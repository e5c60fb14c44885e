"""Files of a state that is large are few, and few of them are opened: a process may not hold thousands."""

import re
from pathlib import Path

import pytest
from support.engine import QUERIES, InProcess, Outputs, plan_of, tuples

from skytide.batch import Run, merging
from skytide.batch.merging import FAN_IN, changes_to_replace, runs_to_replace
from skytide.errors import InvalidInput
from skytide.lateness import FixedSlack
from skytide.spark.checkpoint import Files
from skytide.spark.engine.cache import bytes_of, cache
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows

GROUPED = QUERIES[4]


@pytest.mark.parametrize(("rows", "slots"), [(100, 1), (20_000, 1), (100_000, 1), (100_000, 64)])
def test_windows_of_thousands_of_large_panes_are_remembered_in_hundreds_of_runs(rows: int, slots: int) -> None:
    runs: list[Run] = []
    most_runs = copied = 0
    for pane in range(3 * 3_600):
        replaced = runs_to_replace(runs, rows)
        gone = runs[len(runs) - replaced :]
        level = max((run.level + 1 for run in gone), default=0)
        copied += sum(run.rows for run in gone)
        whole = Run(gone[0].first if gone else pane, pane, level, ("f",) * slots, rows + sum(run.rows for run in gone))
        runs = [run for run in (*runs[: len(runs) - replaced], whole) if run.last > pane - 3_600]
        most_runs = max(most_runs, len(runs))
    assert most_runs <= max(3 * FAN_IN, (3_600 * rows / slots) ** 0.5 / 10)
    assert copied <= 3 * 3 * 3_600 * rows, "a row is copied once per level"


def test_of_files_of_many_slots_only_those_are_opened_that_windows_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MAX_RUN_ROWS", 1)
    plan = plan_of(GROUPED, str(tmp_path), Windows(2_000, 1), FixedSlack(0), spreading_pays_s=0.0, driver_pays_s=-1.0)
    engine = Engine(*plan, Outputs().sinks)
    engine.resize(window_slots=5)
    data = tuples([[[10 * number] * 3, list(range(10 * number, 10 * number + 10))] for number in range(151)])
    for number, batch in enumerate(data[:-1]):
        engine.run_batch(InProcess(), batch, number)
    memory = engine.store.latest().memory
    assert sum(len(run.files) for run in memory) > 2 * len(memory) > 200
    opened: list[str] = []
    open_batches = Files.open_batches
    monkeypatch.setattr(Files, "open_batches", lambda files, name: opened.append(name) or open_batches(files, name))
    cache.keep_only(engine.store.files.uri)
    engine.resize(window_slots=1)
    engine.run_batch(InProcess(), data[-1], 150)
    assert len(memory) <= len(set(opened)) < 1.5 * len(memory)


@pytest.mark.parametrize("slots", [1, 16])
def test_candidates_are_written_anew_as_seldom_by_many_slots_as_by_one(slots: int) -> None:
    runs: list[Run] = []
    written = most_files = 0
    for _ in range(500):
        replaced = changes_to_replace(runs, 1_000)
        base = Run(0, 0, 0, ("f",) * slots, 100_000)  # as many rows die as come
        runs = [base] if replaced == len(runs) else [*runs, Run(0, 0, 0, ("f",) * slots, 1_000)]
        written += runs[-1].rows
        most_files = max(most_files, sum(len(run.files) for run in runs))
    assert written <= 500 * 1_000 + 500 / FAN_IN * 100_000 and most_files <= (FAN_IN + 1) * slots


@pytest.mark.parametrize("given", ["lots", "nan", "-1", "1 GB"])
def test_a_size_of_the_cache_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"SKYTIDE_CACHE_MB='{given}'")):
        bytes_of(given)
    assert (bytes_of("0"), bytes_of("1.5"), bytes_of("inf")) == (0.0, 1.5 * 2**20, float("inf"))
