"""What arrives, as a simulator needs it: for each short step of time the tuples of each pane, and the panes that close."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skytide.lateness import Clock, KSlack, observe
from skytide.windows import Windows
from skytide.workloads.workload import Workload

SECOND_US = 1_000_000
FIRST_US = -(2**62)


@dataclass(frozen=True)
class Step:
    """A step of time: what arrived in it, and the first pane that is still open at its end."""

    end_s: float
    arrived: tuple[tuple[int, int], ...]
    """Panes, and how many of their tuples."""
    open_from: int
    buffered: int
    """Tuples that are held back."""


@dataclass(frozen=True)
class Traffic:
    """A stream, cut into steps, from its beginning to a moment when all of its panes have closed."""

    steps: tuple[Step, ...]
    pane_s: float
    length_s: float
    tuples: int
    late: int
    cloud: Callable[[int], str]
    """The kind of points of a pane."""
    first_arrival_s: dict[int, float]
    """Of each pane, when its first tuple arrived."""


def traffic(
    workload: Workload, windows: Windows, length_s: float, *, cloud: Callable[[int], str] | None = None, in_order: bool = False
) -> Traffic:
    """Play a workload with a K-slack, whose punctuation goes out at the end of every step (a tick of the workload).

    With `in_order` a buffer holds tuples back until the punctuation has passed them, as systems do that sort first (SPEC O4).
    """
    buffer = np.zeros(0, np.int64)
    tick_us, last = workload.tick_us, int(length_s * SECOND_US) // workload.tick_us
    counts = workload.counts(0, last).tolist()
    slack, clock = KSlack().build(), Clock()
    steps: list[Step] = []
    first_arrival: dict[int, float] = {}
    for tick, n in enumerate(counts):
        end_s = (tick + 1) * tick_us / SECOND_US
        arrived: tuple[tuple[int, int], ...] = ()
        if n:
            ts, _ = workload.times_us(tick, n)
            in_time = ts if clock.punctuation_us is None else ts[ts >= clock.punctuation_us]
            clock = clock.advance(observe(ts, clock.newest_us, clock.punctuation_us, clock.leap_us(windows)), windows, slack)
            arrived = _by_pane(windows.pane_of(in_time))
            for pane, _n in arrived:
                first_arrival.setdefault(pane, tick * tick_us / SECOND_US)
            if in_order:
                buffer = np.concatenate([buffer, in_time])
                passed = buffer < (FIRST_US if clock.punctuation_us is None else clock.punctuation_us)
                arrived, buffer = _by_pane(windows.pane_of(buffer[passed])), buffer[~passed]
        open_from = windows.pane_of(FIRST_US if clock.punctuation_us is None else clock.punctuation_us)
        steps.append(Step(end_s, arrived, open_from, len(buffer)))
    clock = clock.flushed(windows)
    open_from = windows.pane_of(clock.newest_us) + 1 if clock.newest_us is not None else 0
    end = Step(last * tick_us / SECOND_US, _by_pane(windows.pane_of(buffer)), open_from, 0)
    kind = workload.points
    return Traffic(
        (*steps, end),
        windows.slide_us / windows.panes_per_slide / SECOND_US,
        length_s,
        clock.tuples,
        clock.late,
        cloud or (lambda _: kind),
        first_arrival,
    )


def _by_pane(panes: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    if not len(panes):
        return ()
    first = int(panes.min())
    found = np.bincount(panes - first)
    return tuple((first + int(at), int(found[at])) for at in np.flatnonzero(found))
