import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.state import hour, oracle, skylines, tumbling
from benchmarks.state.__main__ import PARTS, ROOT, goal_of
from benchmarks.state.common import START_US, Mark
from benchmarks.state.contest import Stream, between
from benchmarks.state.memory import Peaks
from benchmarks.timing import Disagreement, Goal, Limit


def test_a_limit_is_kept_or_missed() -> None:
    assert [str(Limit("files", files, 2_000)) for files in (2_000, 2_001)] == [
        "Goal reached: files: 2,000.00 (goal: at most 2000)",
        "Goal MISSED: files: 2,001.00 (goal: at most 2000)",
    ]
    for goal in (Goal("ratio", 2.0, 3.0), Limit("MB", 2.0, 3.0)):
        assert goal_of({**vars(goal), "reached": goal.reached}) == goal


def test_a_window_with_a_wrong_or_missing_row_is_caught() -> None:
    some = oracle.numbers_between(START_US, START_US + 10_000_000, rate_hz=7, count=60)
    assert some == range(60)
    window = oracle.in_turn(some, 9)
    assert sum(window["n"].to_pylist()) == 60
    oracle.check("window", window, oracle.in_turn(some, 9))
    wrong = window.set_column(2, "total", pa.array([0, *window["total"].to_pylist()[1:]]))
    with pytest.raises(Disagreement, match="window: total differs in 1 of 9 rows"):
        oracle.check("window", wrong, window)
    with pytest.raises(Disagreement, match="window: 8 rows instead of 9"):
        oracle.check("window", window.slice(1), window)
    with pytest.raises(Disagreement, match="window: 0 rows instead of 0"):
        oracle.check("window", window.slice(9), window.slice(9))


def test_windows_without_a_common_one_are_caught(tmp_path: Path) -> None:
    for name, start_us in (("one", 0), ("other", 60_000_000)):
        pq.write_table(pa.table({"window_start": pa.array([start_us], pa.timestamp("us", "UTC"))}), tmp_path / name)
    with pytest.raises(Disagreement, match="no window of both: 1 and 1"):
        tumbling.agree(tmp_path / "one", tmp_path / "other")


def test_costs_are_those_of_the_batches_between_two_marks() -> None:
    stream = Stream(rate_hz=100, key="n", batch_s=10, window="1 minute")
    measured = between([Mark(3, 50.0, 7.0), Mark(4, 51.0, 8.0), Mark(7, 58.0, 9.0)], stream, Peaks())
    assert (measured.rows, measured.load, measured.cpu_per_million_s) == (4_000, 8 / 40, 2 / 4_000 * 1e6)


def test_the_oracle_of_skylines_compares_all_pairs_of_a_group() -> None:
    rows = pa.table({"id": [0, 1, 2, 3], "x0": [1.0, 1.0, 2.0, 2.0], "x1": [1.0, 3.0, 1.0, 2.0]})
    assert skylines.undominated(rows, groups=1) == [0]
    assert skylines.undominated(rows, groups=2) == [0, 1, 3]


def test_a_growing_batch_time_is_seen() -> None:
    seconds = [9.0] * 10 + [1.0] * 10 + [2.0] * 10 + [3.0] * 10
    assert hour.Aged.of(seconds, 1.0, compared=10, peaks=Peaks()).growth == 3.0


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
def test_each_part_runs_and_checks_what_comes_out(part: str, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks.state", part, "--quick", "--spark-minutes", "2", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(out.read_text())[part]["goals"]
