"""What is known of each stream: counts become rates, rates become a level and a trend, and jumps are noticed.

Rows are in the order of names, whatever order the streams are given in: so sums and ties come out the same.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.admission.declared import Declared
from skytide.admission.records import Bools, Counts, Floats, State
from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.forecasting import Holt

COLUMNS: dict[str, tuple[type, float]] = {
    "split": (np.int32, -1),
    "latest": (np.int64, 0),  # tuples so far
    "base": (np.int64, 0),  # tuples until the last observation, which was at since_s
    "since_s": (np.float64, np.nan),
    "suspended": (np.bool_, False),
    "seen": (np.int32, 0),  # observations
    "rate": (np.float64, 0.0),
    "level": (np.float64, 0.0),
    "trend": (np.float64, 0.0),
    "lowest": (np.float64, np.inf),
    "highest": (np.float64, 0.0),
    "is_high": (np.bool_, False),  # above the middle of its range since turned_s
    "turned_s": (np.float64, np.nan),
}
"""Each column with its type and its value for an unknown stream."""
LEARNED = tuple(name for name in COLUMNS if name not in ("latest", "base", "since_s", "suspended"))
"""The columns that outlive a process; what came while none was there is a backlog, and no rate."""


class Streams:
    """All streams, as columns."""

    split: Any
    latest: Any
    base: Any
    since_s: Any
    suspended: Any
    seen: Any
    rate: Any
    level: Any
    trend: Any
    lowest: Any
    highest: Any
    is_high: Any
    turned_s: Any

    def __init__(self, resume: State | None = None) -> None:
        """Start with no stream, or with those of a snapshot."""
        self.names: tuple[str, ...] = tuple((resume or {}).get("names", ()))
        self.order = np.arange(len(self.names))
        self._given = self.names
        for name, (dtype, value) in COLUMNS.items():
            setattr(self, name, np.full(len(self.names), value, dtype) if resume is None else np.array(resume[name], dtype))

    def snapshot(self) -> State:
        """Return all columns, and the names of their rows."""
        return {"names": self.names, **{name: getattr(self, name).copy() for name in COLUMNS}}

    def learned(self) -> dict[str, NDArray[Any]]:
        """Return what outlives a process, in the order of the names that were given last."""
        back = np.argsort(self.order)
        return {name: getattr(self, name)[back] for name in LEARNED}

    def align(self, given: tuple[str, ...]) -> None:
        """Add new streams and forget those that left; `order` has the place of each row among the given names."""
        if given is self._given or given == self._given:
            self._given = given
            return
        if not all(isinstance(name, str) for name in given):
            other = next(name for name in given if not isinstance(name, str))
            raise refused("the name of a stream", other, "not a text", "name streams by texts")
        order = sorted(range(len(given)), key=given.__getitem__)
        names = tuple([given[at] for at in order])
        if len(set(names)) < len(names):
            twice = next(name for name, after in pairwise(names) if name == after)
            raise InvalidInput(value=f"the stream {twice!r}", reason="it is named twice", remedy="give each stream its own name")
        self._given, self.order = given, np.array(order, np.intp)
        if names == self.names:
            return
        rows = dict(zip(self.names, range(len(self.names)), strict=True))
        source = np.fromiter((rows.get(name, -1) for name in names), np.intp, len(names))
        kept = source >= 0
        for name, (dtype, value) in COLUMNS.items():
            column: NDArray[Any] = np.full(len(names), value, dtype)
            column[kept] = getattr(self, name)[source[kept]]
            setattr(self, name, column)
        self.names = names

    def take(self, now_s: float, arrived: Counts, active: Bools) -> None:
        """Take in counts. Streams that restarted, or are or were suspended, are counted from here on: what came meanwhile is backlog, not rate."""
        again = arrived < self.latest
        if again.any():  # another stream with the same name: it only keeps the split
            for name, (_, value) in COLUMNS.items():
                if name != "split":
                    getattr(self, name)[again] = value
        start = np.isnan(self.since_s) | ~active | self.suspended | (self.since_s > now_s)
        self.base = np.where(start, arrived, self.base)
        self.since_s = np.where(start, now_s, self.since_s)
        self.latest, self.suspended = arrived, ~active

    def observe(self, now_s: float, min_s: float, holt: Holt, declared: Declared) -> None:
        """End the period for the streams that have been there for at least `min_s`."""
        elapsed = now_s - self.since_s
        due = elapsed >= min_s
        rate = np.where(due, (self.latest - self.base) / np.where(due, elapsed, 1.0), self.rate)
        level, trend = holt.step(rate, self.level, self.trend, self.seen)
        self.rate = rate
        self.level, self.trend = np.where(due, level, self.level), np.where(due, trend, self.trend)
        self.lowest = np.where(due, np.minimum(self.lowest, rate), self.lowest)
        self.highest = np.where(due, np.maximum(self.highest, rate), self.highest)
        turned = declared.turned(self, now_s, elapsed, due)
        self.turned_s[turned.rows], self.is_high[turned.rows] = turned.at_s, turned.is_high
        self.base, self.since_s = np.where(due, self.latest, self.base), np.where(due, now_s, self.since_s)
        self.seen += due

    def typical_hz(self) -> float:
        """Return the mean rate of the observed streams, which is expected of the others (P1 §2.4)."""
        rates: Floats = self.rate[self.seen > 0]
        return float(rates.mean()) if len(rates) else 0.0


def resumed(names: tuple[str, ...], learned: Mapping[str, NDArray[Any]]) -> State:
    """Return a snapshot with what `learned` returned for these streams, and with nothing else known of them."""
    order = sorted(range(len(names)), key=names.__getitem__)
    columns: State = {name: np.full(len(names), value, dtype) for name, (dtype, value) in COLUMNS.items()}
    return (
        {"names": tuple(names[at] for at in order)} | columns | {name: learned[name][order] for name in LEARNED if name in learned}
    )
