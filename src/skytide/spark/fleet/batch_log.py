"""A log of what each batch lets in, which Spark's log of offsets only refers to: thousands of positions would bloat it.

An entry is written before Spark knows of it, under a name of its own, and never changes: a repeated batch reads the same ranges, whatever
has changed meanwhile. Without a folder for the log, the text of an offset holds the entry itself.
"""

import base64
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import fresh_name, sequence_of
from skytide.spark.fleet.feeds import Range
from skytide.spark.fleet.states import StreamStates, positions_from_columns, positions_to_columns

FOLDER = "notes"
COUNTS, LEARNED = b"counts", "learned_"
KEPT = 24
"""How many entries before the latest one are kept: as many as Spark, or a checkpoint that goes back, may need."""
SWEEP_EVERY = 16  # batches

Offset = dict[str, Any]
"""Where a fleet stands: "sequence" counts the batches so far, "tuples" about what was let in, and "note" is where the batch's entry is."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """What a split reads, as columns: so it travels to its task quickly, however many streams there are."""

    names: tuple[str, ...]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    identity: NDArray[np.int64]
    head: NDArray[np.int64]
    tails: NDArray[np.int64]
    place: int
    was_behind: NDArray[np.bool_]
    is_behind: NDArray[np.bool_]
    left_out: str = ""
    """A stream of which something is kept waiting, and nothing is let in: one split of a batch names one, if there are any."""

    def to_ranges(self) -> tuple[Range, ...]:
        """Return the ranges one by one."""
        positions = (map(tuple, self.begin.tolist()), map(tuple, self.end.tolist()))
        checks = (self.identity.tolist(), self.head.tolist(), map(tuple, self.tails.tolist()), [self.place] * len(self.names))
        return tuple(map(Range, self.names, *positions, *checks, self.was_behind.tolist(), self.is_behind.tolist()))


@dataclass(frozen=True, eq=False)
class BatchEntry:
    """What a batch lets in: where streams stand after it, where they stood before, and whether something of them was waiting."""

    states: StreamStates
    begin: NDArray[np.int64]
    begin_tail: NDArray[np.int64]
    was_behind: NDArray[np.bool_]
    counts: Mapping[str, int] = field(default_factory=dict)
    """How often something was odd until then, by reason."""
    learned: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What the planner has learned of each stream; only forecasts depend on it."""

    def splits(self) -> dict[int, "Ranges"]:
        """Return what each split reads."""
        moved = (self.begin != self.states.at).any(axis=1)
        rows = np.flatnonzero(moved)
        rows = rows[np.argsort(self.states.split[rows], kind="stable")]
        left_out = np.flatnonzero(self.states.behind & ~moved)
        if not len(rows) and not len(left_out):
            return {}
        numbers, starts = np.unique(self.states.split[rows], return_index=True)
        parts = zip(numbers.tolist() or [0], np.split(rows, starts[1:]), strict=True)
        splits = {number: self._ranges(part) for number, part in parts}
        if len(left_out):
            first = min(splits)
            splits[first] = replace(splits[first], left_out=self.states.names[left_out[0]])
        return splits

    def _ranges(self, rows: NDArray[np.int64]) -> "Ranges":
        states = self.states
        return Ranges(
            names=tuple(map(states.names.__getitem__, rows.tolist())),
            begin=self.begin[rows],
            end=states.at[rows],
            identity=states.identity[rows],
            head=states.head[rows],
            tails=np.column_stack([self.begin_tail[rows], states.tail[rows]]),
            place=states.place,
            was_behind=self.was_behind[rows],
            is_behind=states.behind[rows],
        )

    def packed(self, learned: bool = True) -> bytes:
        """Return the entry as bytes, with what was learned or without, which is shorter."""
        table = self.states.to_table()
        more = positions_to_columns("begin", self.begin) | {"begin_tail": self.begin_tail, "was_behind": self.was_behind}
        if learned:
            more |= {f"{LEARNED}{name}": values for name, values in self.learned.items()}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), COUNTS: json.dumps(self.counts)})
        for name, values in more.items():
            table = table.append_column(name, pa.array(values))
        data = pa.BufferOutputStream()
        with pa.ipc.new_stream(data, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(table)
        return bytes(data.getvalue())

    @staticmethod
    def unpacked(data: bytes) -> "BatchEntry":
        """Return the entry from what `packed` returned."""
        table = pa.ipc.open_stream(data).read_all()
        states, begin = StreamStates.from_table(table), positions_from_columns("begin", table)
        tail = np.array(table["begin_tail"]) if "begin_tail" in table.column_names else np.zeros_like(states.tail)
        counts = json.loads((table.schema.metadata or {}).get(COUNTS, b"{}"))
        learned = {name.removeprefix(LEARNED): np.array(table[name]) for name in table.column_names if name.startswith(LEARNED)}
        return BatchEntry(states, begin, tail, np.array(table["was_behind"]), counts, learned)


NO_BATCH = BatchEntry(StreamStates(), StreamStates().at, StreamStates().tail, StreamStates().behind)


class BatchLog(ABC):
    """Where the entries of batches are kept."""

    @abstractmethod
    def put(self, sequence: int, entry: BatchEntry) -> Offset:
        """Write an entry, and return the part of an offset that refers to it."""

    @abstractmethod
    def get(self, offset: Offset) -> BatchEntry:
        """Return the entry of an offset."""

    def forget(self, sequence: int) -> None:
        """Remove what is no longer needed after this many batches."""


class InlineBatchLog(BatchLog):
    """Entries in the text of the offsets."""

    def put(self, sequence: int, entry: BatchEntry) -> Offset:
        """Return the entry, packed for the offset."""
        return {"note": base64.b64encode(zlib.compress(entry.packed(learned=False), 1)).decode()}

    def get(self, offset: Offset) -> BatchEntry:
        """Return the entry that the offset holds."""
        return BatchEntry.unpacked(zlib.decompress(base64.b64decode(offset["note"])))


class FileBatchLog(BatchLog):
    """Entries in files."""

    def __init__(self, files: Files) -> None:
        """Write below a folder."""
        self._files = files
        self._forgotten = 0

    def put(self, sequence: int, entry: BatchEntry) -> Offset:
        """Write a file, and return its name once it is on the disk."""
        name = fresh_name(FOLDER, sequence)
        self._files.put(name, entry.packed())
        self._files.settle([FOLDER])
        return {"note": name}

    def get(self, offset: Offset) -> BatchEntry:
        """Return the entry in the file."""
        return BatchEntry.unpacked(self._files.read(offset["note"]))

    def forget(self, sequence: int) -> None:
        """Remove old files now and then."""
        if sequence - self._forgotten < SWEEP_EVERY:
            return
        self._forgotten = sequence
        for name in self._files.names(FOLDER):
            number = sequence_of(name)
            if number is not None and number < sequence - KEPT:
                self._files.delete(name)
