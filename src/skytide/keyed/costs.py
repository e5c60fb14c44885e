"""What keys cost: how often they come times how long a tuple of theirs takes (P2 §3.3: p_k times T_k), which is what slots share."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.keyed.answers import Answer
from skytide.keyed.chunk import Chunk, Numbers
from skytide.keyed.rebalance import Loads
from skytide.keyed.state import KEYS_REPORTED, SlotReport
from skytide.keyed.windows import Cut

Floats = NDArray[np.float64]
PORTIONS = 8
"""In so many calls a query or a user's operator answers the windows of a slot, so that it is seen which keys take long."""
WORTH_S = 0.002
"""If the first of these calls takes less, the others are one call, and what it takes is not told apart."""


@dataclass(frozen=True, eq=False)
class Spent:
    """How long the operator worked on each of some keys."""

    hashes: NDArray[np.uint64]
    """Ascending."""
    seconds: Floats

    def slowest(self) -> list[int]:
        """Return the keys that took longest, by hash."""
        return [int(self.hashes[place]) for place in np.argsort(-self.seconds, kind="stable")[:KEYS_REPORTED].tolist()]

    def of(self, key: int) -> float:
        """Return how long a key took."""
        first, stop = (np.searchsorted(self.hashes, np.uint64(key), side=side) for side in ("left", "right"))
        return float(self.seconds[first:stop].sum())

    @staticmethod
    def together(parts: "Sequence[Spent | None]") -> "Spent | None":
        """Return how long all keys took that are known of, each of which is in one of the parts."""
        known = [part for part in parts if part is not None]
        if not known:
            return None
        hashes = np.concatenate([part.hashes for part in known])
        order = np.argsort(hashes, kind="stable")
        return Spent(hashes[order], np.concatenate([part.seconds for part in known])[order])


def timed_answers(
    answer: Answer, whole: Chunk, cut: Cut, clock_s: Callable[[], float] = time.perf_counter
) -> tuple[pa.Table, Numbers, Spent | None]:
    """Return the answers of windows, how many rows each has, and how long each key took, if that differs and is enough to be measured."""
    if answer.is_even or not len(cut):
        return *answer.windows(whole.rows, cut.begins, cut.ends), None
    bounds = _portions(cut)
    parts = [_part(answer, whole.rows, cut, bounds[0], bounds[1], clock_s)]
    is_told = parts[0].took_s >= WORTH_S
    rest = bounds[1:] if is_told else sorted({bounds[1], len(cut)})
    parts += [_part(answer, whole.rows, cut, first, stop, clock_s) for first, stop in pairwise(rest)]
    answers = pa.concat_tables([part.answers for part in parts], promote_options="permissive")
    seconds = np.concatenate([part.took_s * part.rows / part.rows.sum() for part in parts])
    spent = Spent(whole.hashes, np.bincount(cut.keys, seconds, minlength=len(whole)).astype(np.float64)) if is_told else None
    return answers, np.concatenate([part.counts for part in parts]), spent


@dataclass(frozen=True, eq=False)
class _Part:
    """The answers of some windows, and how long they took together."""

    answers: pa.Table
    counts: Numbers
    rows: Numbers
    """Of each window; one if there are none."""
    took_s: float


def _part(answer: Answer, rows: pa.Table, cut: Cut, first: int, stop: int, clock_s: Callable[[], float]) -> _Part:
    """Answer some of the windows."""
    begins, ends = cut.begins[first:stop], cut.ends[first:stop]
    at = int(begins.min())
    began_s = clock_s()
    answers, counts = answer.windows(rows.slice(at, int(ends.max()) - at), begins - at, ends - at)
    return _Part(answers, counts, np.maximum(ends - begins, 1), clock_s() - began_s)


def _portions(cut: Cut) -> list[int]:
    """Return where portions of the windows begin, and the end: they have about as many rows, and no key is in two."""
    rows = np.cumsum(np.maximum(cut.ends - cut.begins, 1))
    middle = np.searchsorted(rows, rows[-1] * np.arange(1, PORTIONS) / PORTIONS)
    of_keys = np.searchsorted(cut.keys, cut.keys[np.minimum(middle, len(cut) - 1)])
    return sorted({0, *of_keys.tolist(), len(cut)})


def loads_of(reports: Sequence[SlotReport], groups: int) -> Loads:
    """Return what a batch brought to the groups of a table: the time that their keys took, in tuples of the mean cost.

    What slots did for all keys alike counts for each tuple alike, wherever it was done, so a slot that was slow once, as it read files,
    does not seem to have more to do. Where no key is known to cost more than another, loads are tuples.

    >>> cheap, dear = (SlotReport(slot, 60, loads={slot: 60}, spent={slot: s}, busy_s=s + 0.1) for slot, s in [(0, 0.1), (1, 0.9)])
    >>> [round(load, 9) for load in loads_of([cheap, dear], 2).of_groups]
    [20.0, 100.0]
    """
    tuples, spent = np.zeros(groups), np.zeros(groups)
    for report in reports:
        for group, count in report.loads.items():
            tuples[group] += count
        for group, seconds in report.spent.items():
            spent[group] += seconds
    cost = _Cost.of(reports)
    of_groups = (_load(cost, count, seconds) for count, seconds in zip(tuples.tolist(), spent.tolist(), strict=True))
    heaviest = tuple(
        (key, _load(cost, count, report.heavy_s.get(key, 0.0))) for report in reports for key, count in report.heavy.items()
    )
    return Loads(list(of_groups), heaviest)


def slot_loads(reports: Sequence[SlotReport]) -> list[float]:
    """Return the loads of the slots, in the same way."""
    cost = _Cost.of(reports)
    return [_load(cost, report.tuples, sum(report.spent.values())) for report in reports]


@dataclass(frozen=True)
class _Cost:
    """What a tuple costs besides the time that is known of its key, and how many tuples of the mean cost a second has."""

    tuple_s: float
    per_s: float

    @staticmethod
    def of(reports: Sequence[SlotReport]) -> "_Cost | None":
        """Return what a batch shows."""
        tuples, busy_s = sum(report.tuples for report in reports), sum(report.busy_s for report in reports)
        spent_s = sum(sum(report.spent.values()) for report in reports)
        return _Cost(max(0.0, busy_s - spent_s) / max(tuples, 1), tuples / max(busy_s, spent_s)) if spent_s > 0 else None


def _load(cost: _Cost | None, tuples: float, spent_s: float) -> float:
    """Return the load of some tuples, whose keys took some time; without times, all tuples cost the same."""
    return float(tuples) if cost is None else cost.per_s * (cost.tuple_s * tuples + spent_s)
