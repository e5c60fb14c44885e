"""`make bench-peers`: the stream that all peers get, the oracle, and the driver on those whose environment is there."""

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.peers import environments, oracle
from benchmarks.peers.__main__ import ENTRIES, FRAME, LOOP, OWN, Entry, highest, report, run
from benchmarks.peers.common import COLUMNS, PANES, SLIDE_US, TICK_US, Task, tuple_times_us, windows_of
from benchmarks.peers.watch import Contestant, Failed, Lengths, check, measure
from benchmarks.timing import Disagreement
from skytide.workloads.workload import Workload

TOY = Lengths(warm_up_s=0.5, measured_s=2.0)
SECOND = 1_000_000


@pytest.mark.parametrize("rate_hz", [1_250, 20_000])
def test_peers_get_the_tuples_of_the_workload(rate_hz: int) -> None:
    task = Task("skyline", rate_hz, "unused")
    batches = Workload(rate=rate_hz, arrivals="constant").tuples(3, 40, start_us=7 * SECOND)
    expected = np.concatenate([np.column_stack([batch[name].to_numpy() for name in COLUMNS]) for batch in batches])
    ticks = {tick: task.tick(tick) for tick in range(3, 40)}
    assert np.array_equal(np.concatenate(list(ticks.values())), expected)
    times = [time for tick, points in ticks.items() for time in tuple_times_us(7 * SECOND + tick * TICK_US, len(points))]
    batches = Workload(rate=rate_hz, arrivals="constant").tuples(3, 40, start_us=7 * SECOND)
    assert times == [time for batch in batches for time in batch["ts"].cast("int64").to_pylist()]


def test_windows_are_answered_from_their_panes(tmp_path: Path) -> None:
    for query in ("skyline", "aggregate"):
        task = Task(query, 1_000, str(tmp_path))
        ticks = [task.tick(tick) for tick in range(100)]
        answer = task.answer([task.partial(ticks[first : first + 20]) for first in range(0, 100, 20)])
        oracle.check(query, np.concatenate(ticks), answer, sample=1_000)
    assert [list(windows_of(pane)) for pane in (0, 4, 5)] == [[4], [4, 5, 6, 7, 8], [5, 6, 7, 8, 9]]
    assert windows_of(9)[-1] == 9 + PANES - 1


@pytest.mark.parametrize("wrong", ["a row less", "a row that is dominated", "a row of another window", "a row twice"])
def test_a_wrong_skyline_is_caught(tmp_path: Path, wrong: str) -> None:
    task = Task("skyline", 1_000, str(tmp_path))
    points = np.concatenate([task.tick(tick) for tick in range(20, 120)])
    right = task.partial([points])
    end_us = task.start_us() + 6 * SLIDE_US
    task.write(end_us, right)
    check(task)
    found = {row.tobytes() for row in right}
    dominated = next(row for row in points if row.tobytes() not in found)
    guilty = {
        "a row less": right[1:],
        "a row that is dominated": np.vstack([right, dominated]),
        "a row of another window": np.vstack([right, task.tick(0)[:1] / 9]),
        "a row twice": np.vstack([right, right[:1]]),
    }
    task.write(end_us, guilty[wrong])
    with pytest.raises(Disagreement, match=r"skyline at 1,000/s, window until \d+: "):
        check(task)


def test_a_wrong_aggregate_is_caught() -> None:
    points = Task("aggregate", 1_000, "unused").tick(0)
    right = [len(points), points[:, 0].mean(), points[:, 1].max()]
    oracle.check("aggregate", points, np.array(right), sample=0)
    for column in range(3):
        wrong = np.array(right)
        wrong[column] *= 1.001
        with pytest.raises(Disagreement, match="instead of"):
            oracle.check("aggregate", points, wrong, sample=0)


def test_the_highest_load_is_found_by_halving() -> None:
    for limit in range(5):
        tried: list[int] = []
        found = highest((1, 2, 3), lambda rate, limit=limit, tried=tried: tried.append(rate) or rate <= limit)  # type: ignore[misc]
        assert found == (min(limit, 3) or None) and len(tried) == 2


@pytest.mark.long
def test_a_loop_is_watched_and_reported(tmp_path: Path) -> None:
    here = Contestant(LOOP.module, "skytide", LOOP.form)
    told: list[str] = []
    result = run(Entry("loop", "a loop", here, "skyline", (500,)), TOY, (500,), told.append)
    assert not result.wrong and result.common and result.best and [found.rate_hz for found in result.tried] == [20_000, 500]
    assert all(found.kept_up and found.cpu_s_per_million > 0 for found in result.tried) and len(told) == 2
    out = Console(file=StringIO(), width=150)
    report(out, [result], TOY, tmp_path)
    assert "500 and more" in out.file.getvalue()  # type: ignore[attr-defined]
    assert (tmp_path / "bench-peers.md").read_text().count("| a loop |") == 1


@pytest.mark.long
def test_a_contestant_that_ends_is_no_result() -> None:
    with pytest.raises(Failed, match="ended with code 1"):
        measure(Contestant("on_nothing", "skytide", ""), "skyline", 500, TOY)


@pytest.mark.long
@pytest.mark.parametrize(
    "entry", [each for each in ENTRIES if each.contestant.environment != "skytide"], ids=lambda each: each.name
)
def test_every_peer_gives_right_windows(entry: Entry) -> None:
    if not environments.is_ready(entry.contestant.environment):
        pytest.skip(f"no environment: make bench-peers ARGS='--only {entry.only} --quick' makes it")
    assert measure(entry.contestant, entry.query, 1_000, TOY).windows > 0


@pytest.mark.long
@pytest.mark.parametrize(("contestant", "query"), [(OWN, "skyline"), (FRAME, "aggregate")])
def test_skytide_gives_right_windows(contestant: Contestant, query: str) -> None:
    assert measure(contestant, query, 1_000, TOY).windows > 0
