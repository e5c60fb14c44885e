"""The input of a simulator: for each short step of time, the tuples of each pane and the panes that close."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skytide.lateness import KSlack, Slack, StreamClock, observe
from skytide.windows import Windows
from skytide.workloads.arrivals import SECOND_US
from skytide.workloads.identity import derive
from skytide.workloads.workload import Workload

FIRST_US = -(2**62)
TOGETHER = 256  # ticks whose events are drawn together
Times = NDArray[np.int64]
EMPTY = np.zeros(0, np.int64)
Bursts = Literal["of arrivals", "of events"]
"""Whether the bursts of a workload are in the times of arrivals or of events. P3 §4.3.2 and P0 §5.2 generate them in event time, and add a
delay to get the time of arrival, which smooths bursts of arrivals. If bursts are in the time of arrival, the delay smooths panes instead."""


@dataclass(frozen=True)
class Step:
    """A step of time: what arrived in it, and the first pane that is open at its end."""

    end_s: float
    arrived: tuple[tuple[int, int], ...]
    """Panes, and how many tuples of each arrived."""
    open_from: int
    buffered: int
    """Tuples in the sorted buffer."""
    moved: int = 0
    """Pointers that the sorted buffer moves to insert what arrived."""


@dataclass(frozen=True)
class Traffic:
    """A stream in steps, from its beginning until all of its panes have closed."""

    steps: tuple[Step, ...]
    pane_s: float
    length_s: float
    tuples: int
    late: int
    cloud: Callable[[int], str]
    """The kind of points of a pane."""
    first_arrival_s: dict[int, float]
    """When the first tuple of each pane arrived."""


def traffic(
    workload: Workload,
    windows: Windows,
    length_s: float,
    *,
    cloud: Callable[[int], str] | None = None,
    in_order: bool = False,
    bursts: Bursts = "of arrivals",
    slack: Slack | None = None,
) -> Traffic:
    """Return the traffic of a workload with a slack (K-slack by default), with a punctuation at the end of every tick.

    With `in_order` a buffer holds tuples until the punctuation has passed them, as in systems that sort first (SPEC O4).
    """
    buffer = np.zeros(0, np.int64)
    tick_us, last = workload.tick_us, int(length_s * SECOND_US) // workload.tick_us
    come = _arrivals(workload, last) if bursts == "of arrivals" else _of_events(workload, last)
    logic, clock = (slack or KSlack()).build(), StreamClock()
    steps: list[Step] = []
    first_arrival: dict[int, float] = {}
    for tick, ts in enumerate(come):
        end_s = (tick + 1) * tick_us / SECOND_US
        arrived: tuple[tuple[int, int], ...] = ()
        moved = 0
        if len(ts):
            in_time = ts if clock.punctuation_us is None else ts[ts >= clock.punctuation_us]
            clock = clock.advance(observe(ts, clock.newest_us, clock.punctuation_us, clock.leap_us(windows)), windows, logic)
            arrived = _by_pane(windows.pane_of(in_time))
            for pane, _n in arrived:
                first_arrival.setdefault(pane, tick * tick_us / SECOND_US)
            if in_order:
                moved = _moved(buffer, in_time)
                buffer = np.sort(np.concatenate([buffer, in_time]), kind="stable")
                passed = int(np.searchsorted(buffer, FIRST_US if clock.punctuation_us is None else clock.punctuation_us))
                arrived, buffer = _by_pane(windows.pane_of(buffer[:passed])), buffer[passed:]
        open_from = windows.pane_of(FIRST_US if clock.punctuation_us is None else clock.punctuation_us)
        steps.append(Step(end_s, arrived, open_from, len(buffer), moved))
    clock = clock.flushed(windows)
    open_from = windows.pane_of(clock.newest_us) + 1 if clock.newest_us is not None else 0
    end_s = steps[-1].end_s if steps else 0.0
    end = Step(end_s, _by_pane(windows.pane_of(buffer)), open_from, 0)
    points = workload.points
    return Traffic(
        (*steps, end),
        windows.slide_us / windows.panes_per_slide / SECOND_US,
        length_s,
        clock.tuples,
        clock.late,
        cloud or (lambda _: points),
        first_arrival,
    )


def _arrivals(workload: Workload, last: int) -> Iterator[Times]:
    """Yield the event times of the tuples that arrive in each tick; the workload determines how many arrive."""
    for tick, n in enumerate(workload.counts(0, last).tolist()):
        yield workload.times_us(tick, n)[0] if n else EMPTY


def _of_events(workload: Workload, last: int) -> Iterator[Times]:
    """Yield the event times of the tuples that arrive in each tick; the workload determines how many events occur, which arrive later.

    After the last tick there are more until all have arrived.
    """
    tick_us, waiting = workload.tick_us, np.zeros((2, 0), np.int64)
    first = 0
    while first < last or waiting.shape[1]:
        after = first + TOGETHER
        counts = workload.counts(first, min(after, last)) if first < last else EMPTY
        random = derive(workload.seed, "events", first)
        ts = np.repeat(np.arange(first, first + len(counts)) * tick_us, counts) + random.integers(0, tick_us, int(counts.sum()))
        events = np.concatenate([waiting, [ts, ts + workload.lateness.draw(random, len(ts))]], axis=1)
        events = events[:, np.argsort(events[1], kind="stable")]
        ends = np.searchsorted(events[1], np.arange(first + 1, after + 1) * tick_us)
        for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            yield events[0, begin:end]
        waiting, first = events[:, ends[-1] :], after


def _moved(buffer: Times, coming: Times) -> int:
    """Return how many pointers move when tuples are inserted into a sorted deque: for each, those on its shorter side.

    Tuples that come together are counted against what was there before.
    """
    behind = len(buffer) - np.searchsorted(buffer, coming, side="right")
    return int(np.minimum(behind, len(buffer) - behind).sum())


def _by_pane(panes: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    if not len(panes):
        return ()
    first = int(panes.min())
    counts = np.bincount(panes - first)
    return tuple((first + int(at), int(counts[at])) for at in np.flatnonzero(counts))
