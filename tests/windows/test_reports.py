"""Reports of many tasks: what they say together, and that each of them costs the driver the same however many there are."""

import cProfile
import pstats
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.driver import DELIVERIES, Driver
from skytide.batch import OpenPane, PanePart, PaneReport, PaneTaskReport, Piece
from skytide.batch.open_panes import with_parts
from skytide.lateness import Arrivals, Order, observe
from skytide.lateness.crowds import joined
from skytide.lateness.delays import longest
from skytide.routing import Frequencies
from skytide.spark.engine.panes import REPORT, read_reports

LEAP_US = 1_000

times = st.lists(st.integers(0, 20_000), max_size=30)
orders = st.sampled_from(Order)
counts = st.dictionaries(st.integers(0, 5) | st.integers(2**63, 2**64 - 1), st.integers(1, 9), max_size=5)
frequencies = counts.map(lambda by_key: Frequencies(sum(by_key.values()), tuple(by_key.items())))
parts = st.lists(
    st.builds(PanePart, st.integers(0, 3), st.integers(1, 9), st.builds(Piece, st.sampled_from("ab"), *[st.integers(0, 9)] * 3))
)


def seen(some: list[int], order: Order) -> Arrivals:
    return observe(np.array(some, np.int64), 5_000, 4_000, LEAP_US, order=order)


def together(one: Arrivals, other: Arrivals) -> Arrivals:
    """Return the arrivals of two tasks, field by field."""
    newest = [time for time in (one.newest_us, other.newest_us) if time is not None]
    return Arrivals(
        one.tuples + other.tuples,
        one.late + other.late,
        max(newest) if newest else None,
        max(one.longest_delay_us, other.longest_delay_us),
        longest(one.far_delays_us + other.far_delays_us),
        tuple(a + b for a, b in zip(one.delays, other.delays, strict=True)),
        tuple(joined([*one.crowds, *other.crowds], LEAP_US)),
        one.behind + other.behind,
    )


def whole(tasks: list[PaneTaskReport]) -> PaneReport:
    """Return reports as the driver reads them."""
    return read_reports(pa.table({"report": [task.to_text() for task in tasks]}, schema=REPORT))


@given(st.lists(st.builds(seen, times, orders), max_size=6))
def test_arrivals_of_all_tasks_are_those_of_one_after_the_other(arrivals: list[Arrivals]) -> None:
    report = whole([PaneTaskReport(slot, each) for slot, each in enumerate(arrivals)])
    assert report.arrivals(LEAP_US) == reduce(together, arrivals, Arrivals())


@given(st.lists(st.builds(seen, times, st.just(Order.TOGETHER)), max_size=6), st.randoms())
def test_the_order_of_tasks_does_not_matter(arrivals: list[Arrivals], random: object) -> None:
    other = list(arrivals)
    random.shuffle(other)  # type: ignore[attr-defined]
    assert Arrivals.of_tasks(other, LEAP_US) == Arrivals.of_tasks(arrivals, LEAP_US)


@given(st.lists(frequencies, max_size=6))
def test_keys_of_all_tasks_are_those_of_one_after_the_other(keys: list[Frequencies]) -> None:
    report = whole([PaneTaskReport(slot, keys=each.packed()) for slot, each in enumerate(keys)])
    assert report.keys() == reduce(Frequencies.merged, keys, Frequencies())


@given(st.lists(parts, max_size=4), parts)
def test_panes_get_the_parts_of_all_tasks_in_their_order(tasks: list[list[PanePart]], before: list[PanePart]) -> None:
    open_ = {part.pane: OpenPane(part.tuples, (part.piece,)) for part in before}
    expected = dict(open_)
    for part in [part for task in tasks for part in task]:
        pane = expected.get(part.pane, OpenPane())
        expected[part.pane] = replace(pane, tuples=pane.tuples + part.tuples, pieces=(*pane.pieces, part.piece))
    panes = with_parts(open_, whole([PaneTaskReport(slot, parts=tuple(task)) for slot, task in enumerate(tasks)]))
    assert list(panes.items()) == list(expected.items())


def test_a_task_costs_the_driver_the_same_however_many_there_are() -> None:
    """Cost is counted in calls, not in seconds: a busy machine does not change it."""

    def calls_per_task(tasks: int) -> float:
        driver, profile = Driver(tasks, 2, DELIVERIES["sent"]), cProfile.Profile()
        driver.run_batch()
        profile.enable()
        driver.run_batch()
        profile.disable()
        return pstats.Stats(profile).total_calls / tasks  # type: ignore[attr-defined]

    assert calls_per_task(4_000) <= 1.2 * calls_per_task(500)
