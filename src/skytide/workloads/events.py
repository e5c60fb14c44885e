"""Streams whose bursts are in the times of events: each tuple arrives a delay after its event (P3 §4.3.2, P0 §5.2).

The delay smooths bursts of arrivals, and leaves panes as full or as empty as they are. The tuples of a tick of arrivals have their events in
this tick or in some before it, as far back as the longest delay reaches.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skytide.workloads.identity import derive

if TYPE_CHECKING:
    from skytide.workloads.workload import Workload

Times = NDArray[np.int64]
MOST_BACK_US = 60_000_000
"""Longer delays would have every task make a long stretch of the stream to find the few tuples of it that arrive late."""
TICKS = 256
"""So many ticks are made together, or more if delays reach further back."""


def arrivals(stream: "Workload", first: int, last: int) -> Iterator[tuple[range, Times, Times]]:
    """Yield the tuples that arrive in the ticks of [first, last), some ticks at a time: these ticks, and the times of events and arrivals, in order of arrival.

    Tick 0 begins at time 0. Tuples that arrive together are in order of their events' ticks, so any division of the stream has the same.
    """
    back = -(-(stream.lateness.longest_us or 0) // stream.tick_us)
    together = max(TICKS, back)
    for begin in range(first, last, together):
        ticks = range(begin, min(begin + together, last))
        times, come = _events(stream, max(0, begin - back), ticks.stop)
        arrive = (come >= ticks.start * stream.tick_us) & (come < ticks.stop * stream.tick_us)
        times, come = times[arrive], come[arrive]
        order = np.argsort(come, kind="stable")
        yield ticks, times[order], come[order]


def counts(stream: "Workload", first: int, last: int) -> Times:
    """Return how many tuples arrive in each tick of [first, last)."""
    counted = [np.zeros(0, np.int64)]
    for ticks, _, come in arrivals(stream, first, last):
        counted.append(np.bincount(come // stream.tick_us - ticks.start, minlength=len(ticks)))
    return np.concatenate(counted)


def newest_us(stream: "Workload", first: int, last: int) -> int | None:
    """Return the newest event of the tuples that arrive in the ticks of [first, last), or None if there are none."""
    end = last
    while end > first:  # from the end, as the newest is seldom further back than some ticks
        begin = max(first, end - 8)
        found = [times.max() for _, times, _ in arrivals(stream, begin, end) if len(times)]
        if found and max(found) >= begin * stream.tick_us:
            return int(max(found))
        end = begin if not found else end
        if found:
            rest = newest_us(stream, first, begin)
            return int(max(found)) if rest is None else max(int(max(found)), rest)
    return None


def _events(stream: "Workload", first: int, last: int) -> tuple[Times, Times]:
    """Return when the events of some ticks were, and when their tuples arrive."""
    times, come = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    longest_us = stream.lateness.longest_us or 0
    for tick, n in enumerate(stream.counts(first, last).tolist(), first):
        if n:
            random = derive(stream.seed, "times", tick)
            happened = stream.process.offsets(random, n, stream.tick_us) + tick * stream.tick_us
            times.append(happened)
            come.append(happened + np.minimum(stream.lateness.draw(random, n), longest_us))
    return np.concatenate(times), np.concatenate(come)
