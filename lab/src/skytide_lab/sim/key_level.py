"""The level of keys in virtual time: the table says which slot has which tuples, and their work costs time instead of being done."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.batch import Piece, RunKeys
from skytide.errors.checks import check_integer, check_number
from skytide.keyed import RoutingTable, SlotReport, hashes_of
from skytide.keyed.state import heaviest
from skytide.workloads.identity import derive

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class ZipfKeys:
    """The keys of a stream: numbers from 0 on, of which number n comes 1 / (n + 1)^exponent times as often as the first.

    >>> ZipfKeys(3).of_tick(7, 5).tolist() == ZipfKeys(3).of_tick(7, 5).tolist()
    True
    """

    count: int
    exponent: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse no keys at all, and keys that all come equally often or the later ones more often."""
        check_integer("count", self.count, 1)
        check_number("exponent", self.exponent, above=0, meaning="a number above 0")

    def of_tick(self, tick: int, n: int) -> Numbers:
        """Return the keys of the tuples of a tick."""
        return derive(self.seed, "keys", tick).choice(self.count, n, p=self._shares)

    def hashes(self, tick: int, n: int) -> Hashes:
        """Return the hashes of these keys, as Spark's tasks compute them."""
        return self._hashes[self.of_tick(tick, n)]

    def name_of(self, key: int) -> str:
        """Return the name of the key with a hash."""
        return str(self._names[key])

    @cached_property
    def _shares(self) -> NDArray[np.float64]:
        weights = np.power(np.arange(1.0, self.count + 1), -self.exponent)
        return np.asarray(weights / weights.sum(), np.float64)

    @cached_property
    def _hashes(self) -> Hashes:
        return hashes_of(pa.table({"key": np.arange(self.count)}), ("key",))

    @cached_property
    def _names(self) -> dict[int, int]:
        return {key: number for number, key in enumerate(self._hashes.tolist())}


@dataclass
class KeyLevel:
    """The tuples of panes that wait to be let in, by the hashes of their keys, and what slots report of those that are."""

    keys: ZipfKeys
    task_s: float
    """Time of a task without tuples."""
    tuple_s: float
    """Additional time per tuple."""
    _waiting: dict[str, list[Hashes]] = field(default_factory=dict, init=False)

    def keep(self, file: str, panes: Sequence[Hashes]) -> None:
        """Remember the tuples of the panes that a task of the pane level wrote to a file."""
        self._waiting[file] = list(panes)

    def run(self, work: RunKeys) -> tuple[SlotReport, ...]:
        """Return the reports of the slots, one task each, for the tuples that are let in."""
        table, hashes = work.keyed.table, self.let_in(work.pieces)
        slots = table.slots_of(hashes)
        return tuple(self._report(slot, table, hashes[slots == slot]) for slot in range(table.count))

    def let_in(self, pieces: Sequence[Piece]) -> Hashes:
        """Return the keys of the tuples of some pieces, one after the other."""
        return np.concatenate([np.empty(0, np.uint64), *(self._waiting[piece.file][piece.at] for piece in pieces)])

    def forget(self, files: set[str]) -> None:
        """Forget the tuples of all other files: no pane that is open has any of theirs."""
        self._waiting = {file: panes for file, panes in self._waiting.items() if file in files}

    def _report(self, slot: int, table: RoutingTable, hashes: Hashes) -> SlotReport:
        groups, counts = np.unique(table.groups_of(hashes), return_counts=True)
        heavy = {key: count for key, (count, _) in heaviest(hashes).items()}
        return SlotReport(
            slot=slot,
            tuples=len(hashes),
            loads=dict(zip(groups.tolist(), counts.tolist(), strict=True)),
            heavy=heavy,
            names={key: self.keys.name_of(key) for key in heavy},
            busy_s=self.task_s + len(hashes) * self.tuple_s,
        )
