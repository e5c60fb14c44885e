"""Measures how evenly keys load slots, and how much moves when slots come or go: `python -m benchmarks.rebalance`.

The keys of a stream follow Zipf's law with exponent 1.1. The rebalancer knows what a batch of a million tuples shows: tuples per group,
and the most frequent keys. Its peers are consistent hashing (ring) and the hash modulo the number of slots (mod n). Where slots come or
go, their share "must move". No routing of whole keys brings the most loaded slot below the heaviest key (lowest).
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.timing import Disagreement, show
from skytide.keyed import Loads, Rebalancer, RoutingTable
from skytide.routing import HashRing

Hashes = NDArray[np.uint64]
Slots = NDArray[np.int64]
Floats = NDArray[np.float64]

KEYS = (3_000, 100_000)
EXPONENT, TUPLES, HEAVIEST = 1.1, 1_000_000, 200
STEPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 31, 24, 16, 8, 7, 4, 2)
BALANCED = 1.2


@dataclass(frozen=True, eq=False)
class Stream:
    """Keys, and how many tuples of a batch each has."""

    hashes: Hashes
    counts: Floats

    @staticmethod
    def zipf(keys: int, seed: int = 1) -> "Stream":
        """Return keys by Zipf's law."""
        shares = 1 / np.arange(1, keys + 1) ** EXPONENT
        hashes = np.random.default_rng(seed).integers(0, 2**64, keys, dtype=np.uint64)
        return Stream(hashes, np.rint(shares / shares.sum() * TUPLES))

    def loads(self, table: RoutingTable) -> Loads:
        """Return the loads that a batch shows."""
        heaviest = np.argsort(-self.counts, kind="stable")[:HEAVIEST]
        named = tuple(zip(self.hashes[heaviest].tolist(), self.counts[heaviest].astype(int).tolist(), strict=True))
        return Loads(np.bincount(table.groups_of(self.hashes), self.counts, minlength=len(table.slots)).tolist(), named)

    def lowest(self, slots: int) -> float:
        """Return the smallest possible load of the most loaded slot, relative to the mean: that of the heaviest key."""
        return max(1.0, float(self.counts.max() / self.counts.sum()) * slots)


class _Rebalanced:
    """A table that follows the number of slots."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.logic, self.table = stream, Rebalancer().build(), RoutingTable.even(STEPS[0])

    def __call__(self, slots: int) -> Slots:
        self.table = self.logic.plan(self.table, slots, self.stream.loads(self.table)).table
        return self.table.slots_of(self.stream.hashes)


def routings(stream: Stream) -> dict[str, Callable[[int], Slots]]:
    """Return three functions from the number of slots to the slots of all keys."""
    return {
        "ours": _Rebalanced(stream),
        "ring": lambda slots: HashRing.of(range(slots)).owners(stream.hashes).astype(np.int64),
        "mod n": lambda slots: (stream.hashes % np.uint64(slots)).astype(np.int64),
    }


def run(console: Console, keys: Sequence[int] = KEYS, steps: Sequence[int] = STEPS) -> dict[str, Any]:
    """Change the number of slots step by step, print what moves and how loads are spread, and return the figures."""
    cells = [cell for each in keys for cell in _steps(Stream.zipf(each), steps)]
    names = list(dict.fromkeys(cell["routing"] for cell in cells))
    by = {(cell["keys"], cell["step"], cell["routing"]): cell for cell in cells}
    rows = []
    for count in keys:
        for step, (old, new) in enumerate(pairwise(steps)):
            mine = [by[count, step, name] for name in names]
            moved, highest = [f"{cell['moved']:.0%}" for cell in mine], [f"{cell['highest']:.2f}" for cell in mine]
            least, lowest, beside = f"{mine[0]['least_moved']:.0%}", f"{mine[0]['lowest']:.2f}", f"{mine[0]['others']:.2f}"
            rows.append([f"{count:,}", f"{old} to {new}", least, *moved, lowest, *highest, beside])
    columns = ["keys", "slots", "must move", *names, "lowest", *names, "others"]
    title = "Load that moves, then the highest load of a slot relative to the mean (others: without slots that have a single key)"
    show(console, title, columns, rows)
    _check(cells)
    return {"cells": cells}


def _steps(stream: Stream, steps: Sequence[int]) -> list[dict[str, Any]]:
    cells = []
    for name, slots_of in routings(stream).items():
        before = slots_of(steps[0])
        for step, (old, new) in enumerate(pairwise(steps)):
            now = slots_of(new)
            used = np.bincount(now, stream.counts, minlength=new)
            cells.append(
                {
                    "keys": len(stream.hashes),
                    "step": step,
                    "slots": new,
                    "routing": name,
                    "least_moved": abs(new - old) / max(new, old),
                    "moved": float(stream.counts[now != before].sum() / stream.counts.sum()),
                    "lowest": stream.lowest(new),
                    "highest": float(used.max() / used.mean()),
                    "others": others(stream, now, new),
                }
            )
            before = now
    return cells


def others(stream: Stream, at: Slots, slots: int) -> float:
    """Return the highest load relative to the mean, of the slots that have more than one key."""
    used, keys = np.bincount(at, stream.counts, minlength=slots), np.bincount(at, minlength=slots)
    shared = used[keys != 1]
    return float(shared.max() / shared.mean())


def _check(cells: Sequence[dict[str, Any]]) -> None:
    """Refuse loads that the rebalancer could have made better: 1.2 times the mean where keys allow it, and on slots without heavy keys."""
    for cell in (cell for cell in cells if cell["routing"] == "ours"):
        reached = cell["highest"] <= max(BALANCED, cell["lowest"] * (1 + 1e-9)) and cell["others"] <= BALANCED
        if not reached:
            found = f"{cell['highest']:.2f} times the mean, others {cell['others']:.2f}"
            raise Disagreement(f"{cell['keys']:,} keys on {cell['slots']} slots: {found}")


if __name__ == "__main__":
    try:
        run(Console(width=130, highlight=False))
    except Disagreement as disagreement:
        sys.exit(f"Not balanced: {disagreement}")
