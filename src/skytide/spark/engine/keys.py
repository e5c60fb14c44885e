"""The level of keys: one task per slot, which lets tuples in, works on them key by key, and remembers what later ones need.

What is remembered lies in chunks that never change, so a worker that has seen one need not read it again, whoever wrote it; and any slot can
work on a group of keys from the next batch on.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.batch import Piece, RunKeys
from skytide.keyed import Chunk, SlotReport, Spent, StoredChunk, Worked, gathered, to_merge
from skytide.keyed.bits import bits, bits_of
from skytide.keyed.chunk import Live, all_keys
from skytide.keyed.state import ROWS, STATES, heaviest
from skytide.keyed.work import HASH
from skytide.keyed.work import Chunks as WithLive
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import fresh_name
from skytide.spark.engine.cache import cache
from skytide.spark.engine.chunks import Chunks
from skytide.spark.engine.panes import REPORT
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sinks.base import Stages, stage_rows

KINDS = (ROWS, STATES)


@dataclass(frozen=True)
class KeyTask:
    """What the tasks of a batch need to know."""

    spec: QuerySpec
    files: Files
    instruction: RunKeys
    sink: Stages
    """Where results are staged."""

    @property
    def slots(self) -> int:
        """How many tasks there are."""
        return self.instruction.keyed.table.count

    def run(self, slot: int) -> Iterator[pa.RecordBatch]:
        """Do the work of a slot, and yield its report."""
        yield pa.RecordBatch.from_arrays([pa.array([_Slot(self, slot).report().to_text()])], schema=REPORT)


def chunks_of(task: KeyTask, slot: int, kind: str) -> WithLive:
    """Return the chunks of a kind that a slot remembers of its keys."""
    return _Slot(task, slot).chunks(kind)


class _Slot:
    """The work of one slot."""

    def __init__(self, task: KeyTask, slot: int) -> None:
        self._task, self._slot = task, slot
        assert task.spec.step is not None, "an operator on keys has a step"
        self._work, self._step, self._table = task.instruction, task.spec.step, task.instruction.keyed.table
        cache.keep_only(task.files.uri, task.instruction.keyed.files(), since=task.instruction.sequence)
        self._remembered = {kind: task.instruction.keyed.of_slot(slot, kind) for kind in KINDS}

    def report(self) -> SlotReport:
        began = time.perf_counter()
        work = self._work
        with self._chunks_of(self._remembered.values()) as chunks:
            rows, hashes = self._tuples()
            parts, expired = self._worked(rows, hashes, chunks)
            written, replaced = [], sorted(expired)
            for kind, changes in ((ROWS, [part.rows for part in parts]), (STATES, [part.states for part in parts])):
                added = [change for change in changes if change is not None]
                stored = self._remembered[kind]
                merged = to_merge([chunk.size for chunk in stored], sum(chunk.nbytes for chunk in added)) if added else 0
                before = stored[len(stored) - merged :]
                both = [*self._with_live(before, chunks), *((chunk, _all) for chunk in added)]
                replaced += [chunk.file for chunk in before]
                written += [
                    self._written(whole, kind) for whole in ([self._together(both, kind)] if merged else added) if len(whole)
                ]
        results = pa.concat_tables([part.results for part in parts])
        return SlotReport(
            slot=self._slot,
            tuples=len(hashes),
            windows=sum(part.windows for part in parts),
            kept=results.num_rows,
            results=stage_rows(self._task.sink, results, work.sequence, self._slot) if results.num_rows else None,
            chunks=tuple(written),
            replaced=tuple(replaced),
            due_us=min((part.due_us for part in parts if part.due_us is not None), default=None),
            chunks_found=chunks.found,
            chunks_read=chunks.read,
            **self._loads(rows, hashes, Spent.together([part.spent for part in parts])),
            busy_s=time.perf_counter() - began,
        )

    def _worked(self, rows: pa.Table, hashes: NDArray[np.uint64], chunks: Chunks) -> tuple[list[Worked], set[str]]:
        """Return what became of the tuples, in parts without a key in common, and the files that no later window needs.

        Groups whose chunks are there wait for nothing: those that have come from other slots follow when their chunks have been read (P2, R4).
        """
        stored = [chunk for kind in KINDS for chunk in self._remembered[kind]]
        coming = reduce(or_, (chunk.groups for chunk in stored if not chunks.is_there(chunk)), 0) & self._table.mask(self._slot)
        there = self._table.mask(self._slot) & ~coming
        if not coming or not any(chunk.groups & there for chunk in stored):
            done, expired = self._worked_on(-1, rows, hashes, chunks)
            return [done], expired
        first = bits(there, len(self._table.slots))[self._table.groups_of(hashes)]
        parts = [
            self._worked_on(groups, rows.filter(pa.array(mine)), hashes[mine], chunks)
            for groups, mine in ((there, first), (coming, ~first))
        ]
        return [done for done, _ in parts], {file for _, files in parts for file in files}

    def _worked_on(self, groups: int, rows: pa.Table, hashes: NDArray[np.uint64], chunks: Chunks) -> tuple[Worked, set[str]]:
        """Return what became of the tuples of some groups, a bit each."""
        of_kind = {kind: [chunk for chunk in self._remembered[kind] if chunk.groups & groups] for kind in KINDS}
        log, states = (self._with_live(of_kind[kind], chunks, groups) for kind in KINDS)
        done = self._step.work(rows, hashes, log, states, self._work.since_us, self._work.until_us)
        return done, {of_kind[ROWS][place].file for place in done.expired}

    def _loads(self, rows: pa.Table, hashes: NDArray[np.uint64], spent: Spent | None) -> dict[str, Any]:
        """Return what the rebalancer wants to know."""
        numbers, counts = np.unique(self._table.groups_of(hashes), return_counts=True)
        places = {key: place for key, (_, place) in heaviest(hashes).items()}
        if spent is not None:
            places |= {key: int(np.argmax(hashes == key)) for key in spent.slowest() if (hashes == key).any()}
        of_groups = np.bincount(self._table.groups_of(spent.hashes), spent.seconds) if spent else np.zeros(0)
        return {
            "loads": dict(zip(numbers.tolist(), counts.tolist(), strict=True)),
            "spent": {group: round(float(of_groups[group]), 6) for group in np.flatnonzero(of_groups).tolist()},
            "heavy": {key: int((hashes == key).sum()) for key in places},
            "heavy_s": {key: round(spent.of(key), 6) for key in places} if spent else {},
            "names": {key: self._step.name_of(rows, place) for key, place in places.items()},
        }

    def _tuples(self) -> tuple[pa.Table, NDArray[np.uint64]]:
        """Return those of the tuples that were let in whose keys belong to this slot, and their hashes."""
        empty = self._step.columns.append(pa.field(HASH, pa.int64())).empty_table()
        mine = [empty]
        for file, pieces in _by_file(self._work.pieces).items():
            numbers = [number for piece in pieces for number in range(piece.at, piece.at + piece.batches)]
            rows = pa.Table.from_batches(self._task.files.map_batches(file, numbers), empty.schema)
            if self._task.slots > 1:
                hashes = rows[HASH].to_numpy().view(np.uint64)
                rows = rows.take(pa.array(np.flatnonzero(self._table.slots_of(hashes) == self._slot)))
            mine.append(rows)
        rows = pa.concat_tables(mine)
        return rows.drop_columns([HASH]), rows[HASH].to_numpy().view(np.uint64)

    def chunks(self, kind: str) -> WithLive:
        with self._chunks_of([self._remembered[kind]]) as chunks:
            return self._with_live(self._remembered[kind], chunks)

    def _chunks_of(self, stored: Iterable[Sequence[StoredChunk]]) -> Chunks:
        return Chunks(self._task.files, [chunk for some in stored for chunk in some], self._step.key)

    def _with_live(self, stored: Sequence[StoredChunk], chunks: Chunks, groups: int = -1) -> WithLive:
        return [(chunks.get(chunk), self._live(chunk.groups & groups)) for chunk in stored]

    def _live(self, groups: int) -> Live:
        table, slot = self._table, self._slot
        which = bits(groups, len(table.slots))

        def live(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
            return np.asarray(which[table.groups_of(hashes)] & (table.slots_of(hashes) == slot))

        return live

    def _together(self, chunks: WithLive, kind: str) -> Chunk:
        """Return chunks as one, without what no later window needs."""
        step, keys = self._step, all_keys(chunks, self._step.key)
        if kind == STATES:
            return gathered(chunks, keys, step.key, step.states, 1)
        whole = gathered(chunks, keys, step.key, step.remembered, step.windows.limit if step.windows else None)
        return step.condensed(whole, self._work.until_us)

    def _written(self, chunk: Chunk, kind: str) -> StoredChunk:
        file = fresh_name("keys", self._work.sequence)
        chunk = replace(chunk, rows=chunk.rows.combine_chunks())
        self._task.files.write_table(file, chunk.to_table())
        cache.add(self._task.files.uri, file, chunk, chunk.nbytes)
        return StoredChunk(file, kind, bits_of(self._table.groups_of(chunk.hashes)), chunk.nbytes)


def _by_file(pieces: tuple[Piece, ...]) -> dict[str, list[Piece]]:
    by_file: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_file.setdefault(piece.file, []).append(piece)
    return by_file


def _all(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return np.ones(len(hashes), np.bool_)
