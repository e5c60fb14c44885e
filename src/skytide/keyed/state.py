"""Where the memory of keys is stored, and which slot has which keys, as a value. Slots report what a batch changes in it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.keyed.bits import as_bits, bits
from skytide.keyed.table import RoutingTable, base_group

ROWS, STATES = "rows", "states"
"""The kinds of chunks: remembered rows, and states of operators."""
KEYS_REPORTED = 8
"""The number of most frequent keys that a slot reports."""


@dataclass(frozen=True)
class StoredChunk:
    """A chunk in a file. It is valid for some groups of keys; what it holds of others has been merged into later chunks."""

    file: str
    kind: str
    groups: int
    """The groups it is valid for, one bit per group."""
    size: int
    """In bytes."""

    def live(self, groups: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for which of some groups it is valid."""
        return bits(self.groups, int(groups.max(initial=0)) + 1)[groups]


@dataclass(frozen=True)
class KeyedState:
    """The state of keys between two batches."""

    table: RoutingTable
    chunks: tuple[StoredChunk, ...] = ()
    """Oldest first."""
    until_us: int | None = None
    """Tuples up to this time have been admitted."""
    due_us: int | None = None
    """When the next window with tuples ends, if windows end by time."""
    rebalancer: dict[str, Any] = field(default_factory=dict)
    moved: int = 0
    """How many groups have moved to another slot so far."""
    seed: int = 0
    """The seed of the hashes of keys; 0 is none, as in checkpoints of earlier versions."""

    def files(self) -> set[str]:
        """Return the names of the files of all chunks."""
        return {chunk.file for chunk in self.chunks}

    def of_slot(self, slot: int, kind: str) -> list[StoredChunk]:
        """Return the chunks of a kind that are valid for keys of a slot, oldest first."""
        mine = self.table.mask(slot)
        return [chunk for chunk in self.chunks if chunk.kind == kind and chunk.groups & mine]

    def after(self, reports: "Sequence[SlotReport]", until_us: int) -> "KeyedState":
        """Return the state after a batch."""
        chunks = list(self.chunks)
        for report in reports:
            mine, replaced = self.table.mask(report.slot), set(report.replaced)
            chunks = [replace(chunk, groups=chunk.groups & ~mine) if chunk.file in replaced else chunk for chunk in chunks]
        chunks = [chunk for chunk in chunks if chunk.groups] + [chunk for report in reports for chunk in report.chunks]
        due = min((report.due_us for report in reports if report.due_us is not None), default=None)
        return replace(self, chunks=tuple(chunks), until_us=until_us, due_us=due)

    def routed(self, table: RoutingTable, moved: int) -> "KeyedState":
        """Return the state with another table: parts of a divided group, and a key that gets a group of its own, are in the chunks of the former group."""
        before = self.table.divided(table.base)
        new = [(base_group(key, table.base), len(before.slots) + at) for at, key in enumerate(table.own[len(before.own) :])]
        chunks = self.chunks
        if table.base > self.table.base:
            chunks = tuple(replace(chunk, groups=_divided(chunk.groups, self.table, table.base)) for chunk in chunks)
        for base, group in new:
            chunks = tuple(replace(chunk, groups=chunk.groups | (chunk.groups >> base & 1) << group) for chunk in chunks)
        return replace(self, table=table, chunks=chunks, moved=self.moved + moved)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        chunks = [[chunk.file, chunk.kind, f"{chunk.groups:x}", chunk.size] for chunk in self.chunks]
        return {**vars(self), "table": self.table.to_json(), "chunks": chunks}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "KeyedState":
        """Return the state for a result of `to_json`."""
        chunks = tuple(StoredChunk(file, kind, int(groups, 16), size) for file, kind, groups, size in values["chunks"])
        return KeyedState(**{**values, "table": RoutingTable.from_json(values["table"]), "chunks": chunks})


@dataclass(frozen=True)
class SlotReport:
    """What a slot did with a batch."""

    slot: int
    tuples: int = 0
    windows: int = 0
    kept: int = 0
    """Rows of results."""
    results: str | None = None
    """The file with the results."""
    chunks: tuple[StoredChunk, ...] = ()
    replaced: tuple[str, ...] = ()
    """Chunks whose keys of this slot are now in the new chunks, or needed by no later window."""
    due_us: int | None = None
    busy_s: float = 0.0
    loads: dict[int, int] = field(default_factory=dict)
    """Tuples of each group."""
    spent: dict[int, float] = field(default_factory=dict)
    """How long the operator worked on the keys of each group, as far as that was measured."""
    heavy: dict[int, int] = field(default_factory=dict)
    """Tuples of the most frequent keys, and of those that took longest, by their hashes."""
    heavy_s: dict[int, float] = field(default_factory=dict)
    """How long the operator worked on these keys."""
    names: dict[int, str] = field(default_factory=dict)
    """The names of these keys."""
    chunks_found: int = 0
    """Chunks that were already in the memory of the worker."""
    chunks_read: int = 0

    def to_text(self) -> str:
        """Return the report as a text."""
        chunks = [[chunk.file, chunk.kind, f"{chunk.groups:x}", chunk.size] for chunk in self.chunks]
        return json.dumps({**vars(self), "chunks": chunks})

    @staticmethod
    def from_text(text: str) -> "SlotReport":
        """Return the report for a result of `to_text`."""
        fields = json.loads(text)
        fields["chunks"] = tuple(StoredChunk(file, kind, int(groups, 16), size) for file, kind, groups, size in fields["chunks"])
        fields["replaced"] = tuple(fields["replaced"])
        for name in ("loads", "spent", "heavy", "heavy_s", "names"):
            fields[name] = {int(number): value for number, value in fields[name].items()}
        return SlotReport(**fields)


def heaviest(hashes: NDArray[np.uint64]) -> dict[int, tuple[int, int]]:
    """Return the keys that came most often: how often, and where the first of their tuples is."""
    keys, places, counts = np.unique(hashes, return_index=True, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:KEYS_REPORTED]
    return {int(keys[n]): (int(counts[n]), int(places[n])) for n in most.tolist()}


def _divided(mask: int, table: RoutingTable, groups: int) -> int:
    """Return some groups of a table as groups of the table that is divided into more.

    >>> _divided(0b101 | 1 << 256, RoutingTable((0,) * 257, own=(7,)), 512) == 0b110011 | 1 << 512
    True
    """
    which = bits(mask, len(table.slots))
    return as_bits(np.concatenate([np.repeat(which[: table.base], groups // table.base), which[table.base :]]))
