"""The panes of the latest batches, and so what to expect of those of the next one."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

from skytide.routing.owners import MOST_PANES

WEIGHT = 0.5
"""How much the latest batch counts against all before it."""
WORTH_A_PLACE = 0.002
"""Panes with a smaller share of a batch are not expected again."""


class RecentPanes:
    """How many tuples panes had, by how far they are behind the newest one, and how far that moves from batch to batch.

    >>> recent = RecentPanes()
    >>> recent.learn({10: 100, 9: 20})
    >>> recent.learn({12: 60, 11: 40})
    >>> recent.expected(), round(recent.spread, 2)
    ([(13, 30), (14, 80)], 0.0)
    """

    def __init__(self) -> None:
        """Start without any batch."""
        self.newest: int | None = None
        self.spread = 0.0
        """How far the panes of a batch are from what was expected, as a share of them; 0 as long as nothing was."""
        self._step = 1.0
        self._sizes: dict[int, float] = {}
        self._batches = 0

    def learn(self, panes: Mapping[int, int]) -> None:
        """Take in the tuples of each pane of a batch."""
        if not panes:
            return
        newest, total = max(panes), sum(panes.values())
        if self.newest is not None:
            moved = max(0, newest - self.newest)
            self._step = float(moved) if self._batches < 2 else self._step + WEIGHT * (moved - self._step)
        sizes = {newest - pane: tuples for pane, tuples in panes.items() if newest - pane < MOST_PANES}
        if self._batches > 1:
            error = sum((tuples - self._sizes.get(behind, 0.0)) ** 2 for behind, tuples in sizes.items())
            error = sqrt(error / len(sizes)) * len(sizes) / total
            self.spread += WEIGHT * (min(error, 1.0) - self.spread)
        weight = WEIGHT if self._batches else 1.0
        mixed = {
            behind: weight * sizes.get(behind, 0) + (1 - weight) * self._sizes.get(behind, 0.0) for behind in {*sizes, *self._sizes}
        }
        self._sizes = {behind: tuples for behind, tuples in sorted(mixed.items()) if tuples >= WORTH_A_PLACE * total}
        self.newest, self._batches = max(newest, self.newest or newest), self._batches + 1

    def expected(self) -> list[tuple[int, int]]:
        """Return the panes of the next batch, oldest first, each with its tuples; nothing as long as no batch has come."""
        if self.newest is None:
            return []
        newest = self.newest + round(self._step)
        return [(newest - behind, max(1, round(tuples))) for behind, tuples in sorted(self._sizes.items(), reverse=True)]

    def snapshot(self) -> dict[str, Any]:
        """Return the state, as plain values."""
        sizes = [list(self._sizes), list(self._sizes.values())]
        return {"newest": self.newest, "spread": self.spread, "step": self._step, "sizes": sizes, "batches": self._batches}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        self.newest, self.spread, self._step, self._batches = (state[name] for name in ("newest", "spread", "step", "batches"))
        self._sizes = dict(zip(*state["sizes"], strict=True))
