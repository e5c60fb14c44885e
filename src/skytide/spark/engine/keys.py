"""The level of keys: one task per slot, which lets tuples in, works on them key by key, and remembers what later ones need.

What is remembered lies in chunks that never change, so a worker that has seen one need not read it again, whoever wrote it; and any slot can
work on a group of keys from the next batch on.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.batch import Piece, RunKeys
from skytide.keyed import Chunk, SlotReport, StoredChunk, gathered, to_merge
from skytide.keyed.bits import bits_of
from skytide.keyed.chunk import Live, all_keys
from skytide.keyed.state import ROWS, STATES, heaviest
from skytide.keyed.work import HASH, Chunks
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import fresh_name
from skytide.spark.engine.cache import cache
from skytide.spark.engine.panes import REPORT
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sinks.base import Stages, stage_rows


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


def chunks_of(task: KeyTask, slot: int, kind: str) -> Chunks:
    """Return the chunks of a kind that a slot remembers of its keys."""
    return _Slot(task, slot).chunks(kind)


class _Slot:
    """The work of one slot."""

    def __init__(self, task: KeyTask, slot: int) -> None:
        self._task, self._slot = task, slot
        assert task.spec.step is not None, "an operator on keys has a step"
        self._work, self._step, self._table = task.instruction, task.spec.step, task.instruction.keyed.table
        cache.keep_only(task.files.uri, task.instruction.keyed.files())
        self._reused = self._read = 0

    def report(self) -> SlotReport:
        began = time.perf_counter()
        work = self._work
        rows, hashes = self._tuples()
        log, states = self.chunks(ROWS), self.chunks(STATES)
        done = self._step.work(rows, hashes, log, states, work.since_us, work.until_us)
        chunks, replaced = [], [work.keyed.of_slot(self._slot, ROWS)[place].file for place in done.expired]
        for kind, added, before in ((ROWS, done.rows, log), (STATES, done.states, states)):
            if added is not None:
                stored = work.keyed.of_slot(self._slot, kind)
                merged = to_merge([chunk.size for chunk in stored], added.nbytes)
                whole = self._together([*before[-merged:], (added, _all)], kind) if merged else added
                replaced += [chunk.file for chunk in stored[len(stored) - merged :]]
                if len(whole):
                    chunks.append(self._written(whole, kind))
        groups = self._table.groups_of(hashes)
        numbers, counts = np.unique(groups, return_counts=True)
        heavy = heaviest(hashes)
        return SlotReport(
            slot=self._slot,
            tuples=len(hashes),
            windows=done.windows,
            kept=done.results.num_rows,
            results=stage_rows(self._task.sink, done.results, work.sequence, self._slot) if done.results.num_rows else None,
            chunks=tuple(chunks),
            replaced=tuple(replaced),
            due_us=done.due_us,
            loads=dict(zip(numbers.tolist(), counts.tolist(), strict=True)),
            heavy={key: count for key, (count, _) in heavy.items()},
            names={key: self._step.name_of(rows, place) for key, (_, place) in heavy.items()},
            chunks_found=self._reused,
            chunks_read=self._read,
            busy_s=time.perf_counter() - began,
        )

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

    def chunks(self, kind: str) -> Chunks:
        return [(self._chunk(stored), self._live(stored)) for stored in self._work.keyed.of_slot(self._slot, kind)]

    def _live(self, stored: StoredChunk) -> Live:
        table, slot = self._table, self._slot

        def live(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
            return np.asarray(stored.live(table.groups_of(hashes)) & (table.slots_of(hashes) == slot))

        return live

    def _chunk(self, stored: StoredChunk) -> Chunk:
        files = self._task.files
        chunk: Chunk | None = cache.find(files.uri, stored.file)
        if chunk is None:
            chunk = Chunk.from_table(files.map_table(stored.file))
            for field in self._step.key if stored.kind == STATES else ():
                if field.name not in chunk.rows.column_names:  # earlier versions stored no keys beside states
                    chunk = replace(chunk, rows=chunk.rows.append_column(field, pa.nulls(chunk.rows.num_rows, field.type)))
            cache.add(files.uri, stored.file, chunk, chunk.hashes.nbytes * 3 if files.is_local else chunk.nbytes)
            self._read += 1
        else:
            self._reused += 1
        return chunk

    def _together(self, chunks: Chunks, kind: str) -> Chunk:
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
