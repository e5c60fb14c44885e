"""Which split reads which stream: Algorithm 1 of P1 §2.2, once per period; new streams are placed at once.

No stream moves without need. A stream moves only if its split is overloaded, or if its split is given up because all streams together
need at least one split fewer, with a margin. (`Par` moves all streams, as a baseline for the other strategies.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.admission.declared import Declared
from skytide.admission.packing import ROUNDING, Splits, given_up, leaving
from skytide.admission.profile import Profile
from skytide.admission.records import Assignment, Bools, Counts, Floats, Numbers, Sample, State
from skytide.admission.strategies import Drfm, Outlook, Strategy
from skytide.admission.streams import Streams, resumed
from skytide.errors.checks import check_bool, check_integer, check_number, check_type
from skytide.forecasting import Holt, ahead

LATENCY_WEIGHT = 0.5  # weight of the newest sample in the average latency of a split
GOAL = 0.9  # share of the fill level: a split is given up only if the others are then not fuller than this on average


@dataclass(frozen=True)
class Admission:
    """How streams are assigned to splits, each of which reads `capacity_hz` tuples per second.

    A split is overloaded if the average of its queue-based latency is above `bound_s` (SPEC A5, P1 §2.5), and, with `early`, as soon as
    more than its capacity is expected (as in P1's figure 5): then more streams are redirected, and fewer are late. Rates are observed once
    per `period_s`, and forecasts look `ahead` periods ahead. Splits are filled up to `fill` of their capacity, P1's "certain capacity
    level": the rest keeps small changes from moving streams.

    >>> planner = Admission(capacity_hz=100).build()
    >>> counts = np.zeros(3, np.int64)
    >>> sample = Sample(0.0, ("a", "b", "c"), counts, counts, np.zeros(3, np.bool_))
    >>> planner.plan(sample, {"a": Profile(max_hz=60), "b": Profile(max_hz=50), "c": Profile(max_hz=35)}).splits
    array([0, 1, 0], dtype=int32)
    """

    strategy: Strategy = field(default_factory=Drfm)
    capacity_hz: float = 200_000.0
    bound_s: float = 5.0
    period_s: float = 5.0
    ahead: int = 3
    max_splits: int | None = None
    early: bool = True
    fill: float = 0.95
    holt: Holt = field(default_factory=Holt)

    def __post_init__(self) -> None:
        """Refuse what cannot be planned with."""
        check_type("strategy", self.strategy, Strategy, reason="not a strategy", remedy="choose one, as Drfm()")
        check_type("holt", self.holt, Holt, reason="not Holt's method", remedy="give its weights, as Holt(level=0.5, trend=0.1)")
        check_number("capacity_hz", self.capacity_hz, above=0, meaning="tuples per second, more than 0")
        check_number("bound_s", self.bound_s, above=0, meaning="seconds, more than 0")
        check_number("period_s", self.period_s, above=0, meaning="seconds, more than 0")
        check_number("fill", self.fill, above=0, up_to=1, meaning="a share of the capacity, above 0 and up to 1")
        check_integer("ahead", self.ahead, 1)
        check_bool("early", self.early)
        if self.max_splits is not None:
            check_integer("max_splits", self.max_splits, 1)

    def build(self, resume: State | None = None) -> "Planner":
        """Return a planner, or one that continues from a snapshot."""
        return Planner(self, resume)

    def resume(self, names: tuple[str, ...], learned: Mapping[str, NDArray[Any]]) -> "Planner":
        """Return a planner that continues with what `Planner.learned` returned for these streams; counts begin anew."""
        return self.build(
            {"streams": resumed(names, learned), "observed_s": None, "latency_s": {}, "open": np.unique(learned["split"])}
        )


class Planner:
    """Turns samples into assignments of streams to splits."""

    def __init__(self, config: Admission, resume: State | None = None) -> None:
        """Start with no stream, or continue from a snapshot."""
        self._config = config
        self._streams = Streams(resume["streams"] if resume else None)
        self._declared = Declared()
        self._observed_s: float | None = resume["observed_s"] if resume else None
        self._latency_s: dict[int, float] = {int(k): float(v) for k, v in (resume["latency_s"] if resume else {}).items()}
        self._open: tuple[int, ...] = tuple(map(int, resume["open"])) if resume else ()
        if config.max_splits is not None and len(self._open) > config.max_splits:  # fewer are allowed now
            self._streams.split[self._streams.split > self._open[config.max_splits - 1]] = -1

    def snapshot(self) -> State:
        """Return all that was learned: plain values, and arrays with one element per stream, along with the names of the streams."""
        return {
            "streams": self._streams.snapshot(),
            "observed_s": self._observed_s,
            "latency_s": dict(self._latency_s),
            "open": self._open,
        }

    def learned(self) -> dict[str, NDArray[Any]]:
        """Return what was learned of each stream and outlives a process, in the order of the latest sample."""
        return self._streams.learned()

    def plan(self, sample: Sample, profiles: Mapping[str, Profile], capacity_hz: float | None = None) -> Assignment:
        """Return which split reads each stream from now on; `capacity_hz` is the measured capacity of a split, if there is one."""
        if capacity_hz is None:
            capacity_hz = self._config.capacity_hz
        check_number("capacity_hz", capacity_hz, above=0, meaning="tuples per second, more than 0")
        streams, strategy = self._streams, self._config.strategy
        streams.align(sample.names)
        arrived, waiting = (column[streams.order].astype(np.int64) for column in (sample.arrived, sample.waiting))
        active = ~sample.suspended[streams.order]
        self._declare(profiles)
        streams.take(sample.now_s, arrived, active)
        period_over = self._observe(sample.now_s)
        outlook = self._outlook(sample.now_s)
        expected = np.where(active, strategy.expected_hz(outlook), 0.0)
        work = expected + np.where(active, self._to_work_off(expected[0], waiting), 0.0)
        before = streams.split.copy()
        if period_over:
            self._sample_latency(before, np.where(active, waiting, 0), capacity_hz)
        if period_over and strategy.repacks:
            streams.split[active] = -1
        self._assign(period_over, expected, work, strategy.urgency(outlook), active, capacity_hz)
        if period_over and not strategy.repacks:
            self._give_up(work, active, capacity_hz)
        return self._answer(before, outlook, expected, active)

    def _declare(self, profiles: Mapping[str, Profile]) -> None:
        if not self._config.strategy.declared:
            return
        before = self._declared
        if before.names is not self._streams.names or before.profiles != profiles:
            self._declared = Declared(self._streams.names, profiles)

    def _observe(self, now_s: float) -> bool:
        """End the period if it is time, and return whether it ended."""
        period_s = self._config.period_s
        if self._observed_s is None or now_s < self._observed_s:  # the first time, or the clock was set back
            self._observed_s = now_s
        if now_s - self._observed_s < period_s * (1 - ROUNDING):
            return False
        self._observed_s = now_s
        self._streams.observe(now_s, period_s / 2, self._config.holt, self._declared)
        return True

    def _outlook(self, now_s: float) -> Outlook:
        streams, k = self._streams, self._config.ahead
        seen, typical_hz = streams.seen > 0, streams.typical_hz()
        rate, after_1, after_k = (
            np.where(seen, np.maximum(observed_hz, 0.0), typical_hz)
            for observed_hz in (streams.rate, ahead(streams.level, streams.trend, 1), ahead(streams.level, streams.trend, k))
        )
        period_s = self._config.period_s
        declared = self._declared.expected_hz(streams, now_s, k * period_s, after_k, late_s=period_s)
        return Outlook(seen, rate, after_1, after_k, declared)

    def _to_work_off(self, expected: Floats, waiting: Counts) -> Floats:
        """Return the rates that reduce the backlog of each stream to the latency bound within the time that the planner looks ahead."""
        config = self._config
        return np.maximum(waiting - config.bound_s * expected, 0.0) / (config.ahead * config.period_s)

    def _sample_latency(self, split: Numbers, waiting: Counts, capacity_hz: float) -> None:
        placed = split >= 0
        waits = np.bincount(split[placed], waiting[placed])
        for number in self._open:
            newest = float(waits[number]) / capacity_hz if number < len(waits) else 0.0
            older = self._latency_s.get(number, newest)
            self._latency_s[number] = LATENCY_WEIGHT * newest + (1 - LATENCY_WEIGHT) * older

    def _late(self, number: int) -> bool:
        return self._latency_s.get(number, 0.0) > self._config.bound_s

    def _loads(self, sizes: Floats) -> dict[int, float]:
        """Return the highest load of each split over the given times."""
        placed = np.flatnonzero(self._streams.split >= 0)
        split = self._streams.split[placed]
        most = np.max([np.bincount(split, size[placed]) for size in sizes], axis=0).tolist()
        return {number: most[number] for number in np.unique(split).tolist()}

    def _assign(
        self, period_over: bool, expected: Floats, work: Floats, urgency: Floats, movable: Bools, capacity_hz: float
    ) -> None:
        """Place the streams without a split, and those that leave an overloaded one."""
        split, limit_hz = self._streams.split, capacity_hz * (1 + ROUNDING) if self._config.early else inf
        full = [number for number, load in self._loads(expected).items() if load > limit_hz or self._late(number)]
        homeless = np.flatnonzero(split < 0)
        if period_over and full:
            homeless = np.concatenate([homeless, leaving(split, work, urgency, movable, full, capacity_hz)])
        if not len(homeless):
            return
        homeless, largest = np.sort(homeless), work.max(axis=0)
        homeless = homeless[np.argsort(-largest[homeless], kind="stable")]
        loads = self._loads(work)
        splits = Splits(loads, set(loads) - set(full), self._config.fill * capacity_hz, self._config.max_splits)
        split[homeless] = splits.place(largest[homeless].tolist(), split[homeless].tolist())

    def _give_up(self, sizes: Floats, movable: Bools, capacity_hz: float) -> None:
        """Empty splits that are no longer needed, unless one was opened just now."""
        split = self._streams.split
        if set(np.unique(split).tolist()) - set(self._open):
            return
        settled = [number for number in self._open if not self._late(number)]
        fill_hz = self._config.fill * capacity_hz
        self._streams.split = given_up(split, sizes, movable, settled, fill_hz, GOAL * fill_hz)

    def _answer(self, before: Numbers, outlook: Outlook, expected: Floats, active: Bools) -> Assignment:
        streams, order = self._streams, self._streams.order
        numbers = tuple(np.unique(streams.split).tolist())
        closed = tuple(sorted(set(self._open) - set(numbers)))
        self._open = numbers
        self._latency_s = {number: value for number, value in self._latency_s.items() if number in set(numbers)}
        redirected = np.sort(order[(before >= 0) & (before != streams.split)])
        later = np.where(np.isnan(outlook.declared_hz), outlook.later_hz, outlook.declared_hz)
        columns = np.empty((5, len(order)))
        columns[:, order] = streams.split, outlook.rate_hz, expected[0], expected[-1], outlook.seen
        return Assignment(
            splits=columns[0].astype(np.int32),
            redirected=redirected,
            open=numbers,
            closed=closed,
            rate_hz=columns[1],
            next_hz=columns[2],
            expected_hz=columns[3],
            load_hz=np.array(list(self._loads(expected).values()), np.float64),
            total_expected_hz=float(later[active].sum()),
            observed=columns[4].astype(np.bool_),
        )
