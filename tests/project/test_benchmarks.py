import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from rich.console import Console

import skytide
from benchmarks import admission, kernel, trading, traffic
from benchmarks.stream import bursts, growth, hours
from benchmarks.stream.growth_picture import AXES
from benchmarks.stream.profile import Timed
from benchmarks.timing import Disagreement, Goal, announce, check_agreement, duration, durations, geometric_mean, race
from skytide import kernels
from skytide.admission import STRATEGIES, Admission
from skytide_lab.kernels.bnl import block_nested_loops
from skytide_lab.sim import BatchCosts

Points = NDArray[np.float64]

QUICK = {name: each for name, each in kernel.CONTESTANTS.items() if name != "paretoset"}  # takes seconds to compile

few_values = st.integers(0, 4).map(float)
tiny = arrays.arrays(np.float64, st.tuples(st.integers(0, 30), st.integers(1, 4)), elements=few_values)


@given(tiny)
def test_block_nested_loops_finds_the_skyline(cloud: Points) -> None:
    no_worse = (cloud[:, None] <= cloud[None]).all(axis=2)
    better = (cloud[:, None] < cloud[None]).any(axis=2)
    assert np.array_equal(block_nested_loops(cloud), ~(no_worse & better).any(axis=0))


def test_the_table_names_all_contestants_and_the_goals() -> None:
    out = Console(file=StringIO(), width=130)
    results = kernel.run(out, contestants=QUICK, sizes=(50, 100), budget_s=0)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    for word in (*QUICK, "correlated 50", "anticorrelated 100", "best peer, worst cell", "geometric mean"):
        assert word in printed
    for cell in results["cells"]:
        ours, *peers = cell["best_s"].values()
        assert cell["over_best_peer"] == pytest.approx(min(peers) / ours)
        assert cell["over_moocore"] == pytest.approx(cell["best_s"]["moocore"] / ours)
    worst, mean = results["goals"]
    assert worst["measured"] == min(cell["over_best_peer"] for cell in results["cells"])
    assert mean["measured"] == pytest.approx(np.prod([cell["over_moocore"] for cell in results["cells"]]) ** (1 / 6))


def _forgets_the_last(cloud: Points) -> NDArray[np.bool_]:
    mask = kernels.skyline(cloud)
    mask[np.flatnonzero(mask)[-1]] = False
    return mask


def test_a_contestant_that_answers_wrongly_is_caught() -> None:
    guilty = QUICK | {"guilty": _forgets_the_last}
    with pytest.raises(Disagreement, match="correlated 100 x 8: guilty and skytide differ: in 5 rows"):
        kernel.compare(guilty, "correlated", 100, budget_s=0)


def test_a_missing_row_is_caught() -> None:
    check_agreement("cell", {"one": np.array([1, 2]), "other": np.array([1, 2])})
    with pytest.raises(Disagreement, match="cell: other and one differ: 1 rows instead of 2"):
        check_agreement("cell", {"one": np.array([1, 2]), "other": np.array([1])})


def test_a_goal_is_reached_or_missed() -> None:
    out = Console(file=StringIO(), width=130)
    announced = announce(out, [Goal("ratio", 2.0, 2.0), Goal("ratio", 1.99, 2.0)])
    assert [goal["reached"] for goal in announced] == [True, False]
    assert out.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "Goal reached: ratio: 2.00 (goal: 2)",
        "Goal MISSED: ratio: 1.99 (goal: 2)",
    ]


def test_contestants_run_in_turn_and_slow_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    turns: list[str] = []

    def runner(name: str, *seconds: float) -> Callable[[], str]:
        rounds = iter(seconds)

        def run() -> str:
            nonlocal now
            turns.append(name)
            now += next(rounds)
            return name

        return run

    monkeypatch.setattr("time.perf_counter", lambda: now)
    contestants = {"a": runner("a", 1, 3, 2), "slow": runner("slow", 9), "b": runner("b", 2, 2, 2)}
    runs = race(contestants, min_rounds=2, max_rounds=9, budget_s=10, slow_s=5)
    assert turns == ["a", "slow", "b", "a", "b", "a", "b"]
    assert runs["a"].seconds == (1, 3, 2)
    assert (runs["a"].best_s, runs["a"].median_s, runs["a"].answer) == (1, 2, "a")


def test_numbers_are_readable() -> None:
    assert (duration(0.00002), duration(0.0958), duration(12.34)) == ("0.020 ms", "95.8 ms", "12.3 s")
    assert durations({"a": 1.5, "b": 40.0}, {"a": 5, "b": 1}) == ["1.50 s", "40.0 s*"]
    assert geometric_mean([0.5, 8.0]) == pytest.approx(2.0)


def test_windows_that_differ_are_caught() -> None:
    bursts.agree({"AS": {1: (7, 8), 2: (9,)}, "EVEN": {2: (9,), 3: (1,)}})
    with pytest.raises(Disagreement, match="EVEN and AS differ in 1 windows"):
        bursts.agree({"AS": {1: (7, 8), 2: (9,)}, "EVEN": {1: (7,), 2: (9,)}})


def test_windows_are_read_from_all_batches_and_count_from_the_beginning_of_the_stream(tmp_path: Path) -> None:
    for batch, (ends, ids) in enumerate([((1_500, 1_200), (3, 1)), ((1_500,), (2,))]):
        (tmp_path / f"batch={batch}").mkdir()
        pq.write_table(
            pa.table({"window_end": pa.array(ends, pa.timestamp("us")), "id": ids}), tmp_path / f"batch={batch}" / "a.parquet"
        )
    assert bursts.results(tmp_path, first_us=1_000) == {500: (2, 3), 200: (1,)}


def test_plans_of_fleets_are_timed_and_checked() -> None:
    out = Console(file=StringIO(), width=130)
    results = admission.run(out, sizes=(300,))
    assert {cell["strategy"] for cell in results["cells"]} == set(STRATEGIES)
    assert all(cell["new_s"] > 0 and cell["splits"] >= 2 for cell in results["cells"])
    fleet = admission.Fleet(10, 1)
    plan = Admission(capacity_hz=1e9).build().plan(fleet.sample(0.0), fleet.profiles)
    admission.check(plan, fleet)
    with pytest.raises(Disagreement, match="a split of 40,000 tuples/s"):
        admission.check(replace(plan, load_hz=np.array([40_000.0])), fleet)


def test_fits_are_timed_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Console(file=StringIO(), width=150)
    results = trading.run(out, n=1_200, max_rounds=2)
    assert [cell["windows"] for cell in results["cells"]] == [9, 9]
    assert "numpy polyfit" in out.file.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr(trading, "by_polyfit", lambda x, y, later: float(y[-1]))
    with pytest.raises(Disagreement, match="the predictions of numpy polyfit and skytide differ"):
        trading.measure("calm, 50 quotes per second", n=1_200, max_rounds=2)


def test_the_driver_limits_how_many_executors_help() -> None:
    """100 executors with 10 ms each fill the driver for a second; with a quarter of the tasks for a quarter of it."""
    costs = BatchCosts("made up", batch_s=0.1, tuple_s=1e-7, task_s=0.0, window_s=0.0, window_tuple_s=0.0, driver_task_s=0.01)
    table, limits = growth.simulate({"skyline": replace(costs, window_tuple_s=1e-6), "aggregates": costs}, (1, 100))
    assert table[100]["aggregates"] == pytest.approx(0.1 + 1.0, rel=0.05)
    assert table[100]["aggregates, one slot per 4 executors"] == pytest.approx(0.1 + 0.25, rel=0.1)
    assert table[100]["aggregates, if the driver cost nothing"] == pytest.approx(
        table[1]["aggregates, if the driver cost nothing"], rel=0.1
    )
    assert 30 < limits["aggregates"] < 50
    assert limits["skyline"] < limits["aggregates"] < limits["aggregates, if the driver cost nothing"] == float("inf")


def test_windows_that_differ_as_costs_grow_are_caught() -> None:
    some = pa.table({"id": [1, 2]})
    growth.agree("cell", [some, pa.table({"id": [1, 2]})])
    for guilty in ([some, pa.table({"id": [1, 3]})], [some.slice(2), some.slice(2)]):
        with pytest.raises(Disagreement, match="cell: different windows, or none"):
            growth.agree("cell", guilty)


def test_the_costs_of_partitioning_are_compared_round_by_round(tmp_path: Path) -> None:
    out = Console(file=StringIO(), width=150)
    costs = {way: [traffic.Cost(s * factor, 0.5, 9.0, 1.2) for s in (1.0, 2.0)] for way, factor in (("plain", 1.0), ("P1's", 1.1))}
    traffic.report(out, "keys", costs, 1_000, 4)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert "costs +10.0% in the split tasks (quartiles +10.0% to +10.0%); P1: 17%" in printed
    assert "costs +0.0% in all of Spark" in printed
    assert traffic.write(tmp_path / "in", rate=100) >= 100 * traffic.SECONDS_PER_FILE * 0.9
    tables = [pq.read_table(file) for file in sorted((tmp_path / "in").iterdir())]
    assert len(tables) == traffic.FILES
    times = np.concatenate([table["ts"].to_numpy() for table in tables])
    assert (np.diff(times) >= np.timedelta64(0)).all()
    assert max(table.num_rows for table in tables) > 2 * min(table.num_rows for table in tables)  # the rate jumps


@pytest.mark.long
def test_the_growth_of_costs_is_measured_and_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "growth.png"
    command = [sys.executable, "-m", "benchmarks.stream.growth", "--quick", "--picture", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=growth.ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    for words in (*(along for along, _, _ in AXES.values()), "The driver computes"):
        assert words in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_profile_counts_the_work_of_every_thread_once() -> None:
    def work(seconds: float) -> None:
        until_s = time.thread_time() + seconds
        while time.thread_time() < until_s:
            pass

    def read() -> None:
        with timed.stage("reading"):
            work(0.1)
            with timed.stage("unpacking"):
                work(0.05)
        work(0.05)

    timed = Timed()
    with timed.stage("kernel"):
        threads = [threading.Thread(target=read) for _ in range(2)]
        for each in threads:
            each.start()
        work(0.1)
        for each in threads:
            each.join()
    whole_s = sum(timed.seconds.values())
    shares = {name: spent_s / whole_s for name, spent_s in timed.seconds.items()}
    assert shares == pytest.approx({"kernel": 0.4, "reading": 0.4, "unpacking": 0.2}, abs=0.05)


@pytest.mark.parametrize("played", hours.QUERIES, ids=lambda played: played.name)
def test_windows_of_hours_are_compared_with_what_was_fed(played: hours.Played) -> None:
    source = skytide.workload(rate=0.1, dimensions=2, tick="1 s", pace="fast", duration="3 hours", start=hours.START_US).workload
    found: dict[tuple[int, int], int] = {}
    for batch in source.tuples(0, 3 * hours.HOUR_S, hours.START_US):
        for time_us, x in zip(batch["ts"].cast(pa.int64()).to_pylist(), batch["x0"].to_pylist(), strict=True):
            latest = time_us // played.slide_us * played.slide_us
            for start_us in range(latest, time_us - 60 * hours.MINUTE_US, -played.slide_us):
                found[start_us, int(x * hours.KEYS)] = found.get((start_us, int(x * hours.KEYS)), 0) + 1
    starts = pa.array([start for start, _ in found], pa.int64()).cast(pa.timestamp("us", "UTC"))
    right = pa.table({"window_start": starts, "key": [key for _, key in found], "n": list(found.values())})
    assert right.num_rows > 500 and hours.is_right(right, source, 3, played.slide_us)
    assert not hours.is_right(right.slice(1), source, 3, played.slide_us)
    assert not hours.is_right(pa.concat_tables([right, right.slice(0, 1)]), source, 3, played.slide_us)
    more = right.set_column(2, "n", pa.array([right["n"][0].as_py() + 1, *right["n"].to_pylist()[1:]]))
    assert not hours.is_right(more, source, 3, played.slide_us)


def test_what_grows_from_hour_to_hour_is_named() -> None:
    flat = {"driver MB": 100.0, "workers MB": 100.0, "JVM live MB": 50.0, "state files": 20.0, "manifest kB": 3.0}
    samples = [{**flat, "hour": float(number // 5), "state files": 20.0 + number % 5} for number in range(30)]
    console = Console(file=StringIO())
    assert hours.grown(console, hours.QUERIES[0], samples) == []
    assert hours.grown(console, hours.QUERIES[0], [{**some, "manifest kB": 3.0 + some["hour"]} for some in samples]) == [
        "manifest kB"
    ]
