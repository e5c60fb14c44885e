"""The simulator: nothing is lost, known queues behave as in textbooks, and the same seed means the same run."""

from dataclasses import replace
from itertools import pairwise

import pytest

from skytide.routing import AS_PID, EVEN, PB_RR, STRATEGIES, TB_RR, Splitting
from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.sim import (
    BatchCosts,
    BatchOutcome,
    CoarseStage,
    Costs,
    Curve,
    PaneStage,
    Traffic,
    run_batches,
    run_panes,
    run_windows,
    traffic,
)

PANES = Windows(100_000, 100_000)
SLIDING = Windows(500_000, 100_000)
# Every tuple costs 50 us, whatever it meets; a tenth of each partition is kept; a pair of rows costs 1 us.
FLAT = Costs("made up", {"independent": Curve((1, 10_000), (0.1, 1_000.0), (50e-6, 0.5))}, 1e-6)


def stream(
    rate: float, seconds: float = 10.0, dispersion: float | None = None, in_order: bool = False, windows: Windows = PANES
) -> Traffic:
    kind = {"arrivals": "constant"} if dispersion is None else {"arrivals": "map", "dispersion": dispersion}
    workload = Workload(rate=rate, delay_us=50_000, tick_us=5_000, **kind)  # type: ignore[arg-type]
    return traffic(workload, windows, seconds, in_order=in_order)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_every_tuple_is_computed_once(strategy: Splitting) -> None:
    came = stream(20_000, dispersion=500)
    outcome, stage = run_panes(came, FLAT, strategy, 3)
    assert sum(result.tuples for result in stage.results) == came.tuples - came.late
    counts = {result.pane: result.partitions for result in stage.results}
    for pane, partitions in counts.items():
        assert sum(result.pane == pane for result in stage.results) == partitions
    assert 1 <= outcome.splitting_factor <= 3


def test_utilisation_is_load_over_capacity() -> None:
    """20,000 tuples per second of 50 us are the work of one slot."""
    for slots, expected in ((1, 1.0), (2, 0.5), (4, 0.25)):
        outcome, _ = run_panes(stream(20_000), FLAT, TB_RR, slots, warm_up_s=1.0)
        assert outcome.utilisation == pytest.approx(expected, rel=0.06)


def test_an_overloaded_level_sustains_what_it_can() -> None:
    """Twice as much as it can: the last pane is done after twice the length of the stream."""
    outcome, _ = run_panes(stream(40_000), FLAT, TB_RR, 1)
    assert outcome.throughput == pytest.approx(0.5, rel=0.05)
    assert outcome.utilisation > 1.5


def test_bursts_of_events_make_uneven_panes_and_bursts_of_arrivals_even_ones() -> None:
    """A delay smooths what it is added to (P3 §4.3.2): bursts in application time stay in panes, others are spread over them."""
    windows = Windows(100_000, 100_000)
    workload = Workload(rate=20_000, arrivals="map", dispersion=3_000.0, delay_us=400_000, tick_us=10_000)
    whole = {
        bursts: run_panes(traffic(workload, windows, 20.0, bursts=bursts), FLAT, PB_RR, 40)[0].pane_cv  # type: ignore[arg-type]
        for bursts in ("of events", "of arrivals")
    }
    assert whole["of events"] > 1.5 * whole["of arrivals"]


def test_what_happens_arrives_its_delay_later() -> None:
    windows = Windows(100_000, 100_000)
    workload = Workload(rate=5_000, delay_us=300_000, tick_us=10_000)
    came = traffic(workload, windows, 4.0, bursts="of events")
    assert came.tuples == workload.counts(0, 400).sum()
    assert sum(n for step in came.steps for _, n in step.arrived) + came.late == came.tuples
    assert 4.25 <= came.steps[-1].end_s <= 4.31 + 256 * 0.01  # in whole blocks of ticks
    assert all((pane + 1) * 0.1 + 0.31 >= step.end_s for step in came.steps for pane, _ in step.arrived if step.end_s < 4.0)


def test_a_sorted_buffer_moves_as_many_pointers_as_lie_behind_what_it_puts_in() -> None:
    """Tuples in order move none; the later they are, the more."""
    windows = Windows(100_000, 100_000)
    moved = [
        sum(
            step.moved
            for step in traffic(Workload(rate=5_000, delay_us=delay_us, tick_us=10_000), windows, 2.0, in_order=True).steps
        )
        for delay_us in (1, 100_000, 400_000)
    ]
    assert moved[0] < moved[1] / 10 < moved[2] / 20
    ordered, dear = (
        run_panes(
            traffic(Workload(rate=5_000, delay_us=400_000, tick_us=10_000), windows, 2.0, in_order=True),
            FLAT,
            TB_RR,
            4,
            move_s=each,
        )[0]
        for each in (0.0, 1e-6)
    )
    assert dear.latency_s > ordered.latency_s


def test_the_same_seed_gives_the_same_run() -> None:
    one, two = (run_panes(stream(30_000, dispersion=1_000), FLAT, AS_PID, 4)[0] for _ in range(2))
    assert one == two


def test_sorting_first_holds_more_and_is_later() -> None:
    ways = [run_panes(stream(20_000, in_order=in_order), FLAT, TB_RR, 2) for in_order in (False, True)]
    (as_they_come, one), (sorted_first, two) = ways
    assert sum(result.tuples for result in one.results) == sum(result.tuples for result in two.results)
    assert as_they_come.latency_s < sorted_first.latency_s
    assert one.samples[5].held < two.samples[5].held


@pytest.mark.parametrize("policy", ["WIN_RR", "WIN_FB", "WIN_FB_MERGE"])
def test_every_window_comes_out(policy: str) -> None:
    came = stream(10_000, windows=SLIDING)
    _, panes = run_panes(came, FLAT, PB_RR, 2)
    outcome, stage = run_windows(panes.results, FLAT, SLIDING, 3, policy, came.length_s)  # type: ignore[arg-type]
    pane_numbers = [result.pane for result in panes.results]
    assert sorted(stage.out_s) == list(range(SLIDING.first_of_pane(min(pane_numbers)), SLIDING.last_of_pane(max(pane_numbers)) + 1))
    assert outcome.throughput > 0.9
    for slot in range(3):
        mine = sorted((done.begin_s, done.end_s) for done in stage.done if done.slot == slot)
        assert all(one[1] <= two[0] + 1e-12 for one, two in pairwise(mine))


def test_slots_come_and_go_and_nothing_is_lost() -> None:
    came = stream(30_000, dispersion=800)

    stage = PaneStage(FLAT, AS_PID, 2, came)
    given_up = 0
    for number, step in enumerate(came.steps):
        if number % 100 == 0:
            given_up += sum(result.tuples for result in stage.resize(1 + number // 100 % 4, step.end_s))
        stage.step(step)
    assert sum(result.tuples for result in stage.results) + given_up == came.tuples - came.late


# As FLAT, but a tuple costs the more the larger its partition is.
STEEP = Costs("made up", {"independent": Curve((1, 100, 10_000), (1.0, 50.0, 1_000.0), (1e-6, 1e-3, 1.0))}, 1e-6)


@pytest.mark.parametrize("strategy", [TB_RR, AS_PID], ids=lambda each: each.name)
def test_counts_say_about_the_same_as_tuples(strategy: Splitting) -> None:
    came = stream(50_000, seconds=60)
    fine, _ = run_panes(came, STEEP, strategy, 4, warm_up_s=30.0)
    coarse = CoarseStage(STEEP, strategy, 0.1).step(50_000, 4)
    assert coarse.utilisation == pytest.approx(fine.utilisation, rel=0.1)
    assert coarse.splitting_factor == pytest.approx(fine.splitting_factor, rel=0.35)


def test_what_is_left_over_by_counts_is_done_later() -> None:
    stage = CoarseStage(FLAT, TB_RR, 0.1)
    backlogs = [stage.step(tuples, 2).backlog_s for tuples in (80_000, 80_000, 10_000, 10_000, 10_000, 10_000)]
    assert backlogs == pytest.approx([1.0, 2.0, 1.25, 0.5, 0.0, 0.0], abs=0.01)


def test_thousands_of_slots_are_no_more_work() -> None:
    stage = CoarseStage(STEEP, AS_PID, 0.1)
    assert stage.step(30_000_000, 5_000).utilisation <= 0.91


SPARK = BatchCosts("made up", batch_s=0.1, tuple_s=1e-6, task_s=0.01, window_s=0.01, window_tuple_s=0.0)


def batches(
    rate: float, strategy: Splitting, dispersion: float | None = None, cores: int = 2, costs: BatchCosts = SPARK
) -> BatchOutcome:
    kind = {"arrivals": "constant"} if dispersion is None else {"arrivals": "map", "dispersion": dispersion}
    workload = Workload(rate=rate, **kind)  # type: ignore[arg-type]
    return run_batches(workload, SLIDING, costs, strategy, slots=2, cores=cores, trigger_s=0.5, length_s=30.0)


def test_batches_take_what_they_cost() -> None:
    """Half a second of 100,000 tuples per second: 0.1 s for Spark, 0.01 + 0.025 s for the tasks, 0.05 s for five windows."""
    found = batches(100_000, EVEN)
    assert found.utilisation == pytest.approx(0.185 / 0.5, rel=0.05)
    assert found.overruns == 0
    assert found.latency_mean_s == pytest.approx(0.2 + 0.185, abs=0.1)
    assert batches(100_000, EVEN, cores=1).utilisation > found.utilisation


def test_tasks_wait_for_the_driver() -> None:
    """The second of two equal tasks begins when the driver has launched both; with one core it waits for the first one anyway."""
    slow = replace(SPARK, driver_task_s=0.03)
    assert batches(100_000, EVEN, costs=slow).utilisation == pytest.approx((0.185 + 0.06) / 0.5, rel=0.05)
    assert batches(100_000, EVEN, costs=slow, cores=1).utilisation == pytest.approx((0.185 + 0.035 + 0.03) / 0.5, rel=0.05)


def test_whole_panes_overrun_where_equal_parts_do_not() -> None:
    panes, parts = (batches(500_000, strategy, 6_000.0) for strategy in (PB_RR, EVEN))
    assert panes.latency_p99_s > parts.latency_p99_s
