"""Pieces of panes: reading some parts of them, and merging several into one."""

import json
import threading
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skytide.batch import MergePieces, Piece
from skytide.batch.spreading import PARTS
from skytide.kernels import Indices
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import fresh_name
from skytide.spark.engine.parts import ALL_PARTS, batches_of, counted, cut_out, in_parts, numbers_of
from skytide.spark.engine.spec import QuerySpec

OPEN_FILES = 64


@dataclass(frozen=True)
class MergeTask:
    """Merges pieces of panes."""

    spec: QuerySpec
    files: Files
    instruction: MergePieces

    def run(self, some: tuple[int, int]) -> tuple[Piece, ...]:
        """Do some of the merges, from one to before another, write what they keep to one file, and return where each lies."""
        first, last = some
        name = fresh_name("panes", self.instruction.sequence)
        merged: list[Piece] = []
        batches: list[pa.RecordBatch] = []
        merges, pieces = self.instruction.merges[first:last], Pieces(self.files, self.spec)
        tables = [self.spec.query.merge(pa.concat_tables([pieces.read(piece) for piece in merge.pieces])) for merge in merges]
        for merge, kept, table in zip(merges, tables, in_parts(tables, self.spec.parted_by), strict=True):
            mine = batches_of(table)
            tier = 1 + max(piece.tier for piece in merge.pieces)
            merged.append(Piece(name, len(batches), len(mine), kept.num_rows, tier))
            batches += mine
            schema = table.schema
        self.files.write_batches(name, schema, batches)
        return tuple(merged)

    def reported(self, some: tuple[int, int]) -> str:
        """Do some of the merges in a task, and return the pieces, and how long it took, as a text."""
        began = time.perf_counter()
        pieces = [list(vars(piece).values()) for piece in self.run(some)]
        return json.dumps([pieces, time.perf_counter() - began])


class Pieces:
    """Reads pieces. A file usually has those of many panes: each thread opens it once."""

    def __init__(self, files: Files, spec: QuerySpec) -> None:
        """Open nothing yet."""
        self._files, self._spec, self._opened = files, spec, threading.local()
        self._counted: list[Indices] = []

    @property
    def of_parts(self) -> Indices:
        """How many rows of each part were read, where they are many."""
        return np.asarray(np.sum([np.zeros(PARTS, np.int64), *self._counted], axis=0))

    def read(self, piece: Piece, some: int = ALL_PARTS) -> pa.Table:
        """Return the rows of some parts of a piece."""
        reader = self._reader(piece.file)
        batches = [reader.get_batch(number) for number in numbers_of(reader.schema, piece.at, piece.batches, some)]
        table = pa.Table.from_batches(batches, reader.schema if batches else self._spec.query.kept_schema(self._spec.columns))
        self._counted.append(counted(table, some))
        return cut_out(table, some, self._spec.parted_by)

    def _reader(self, name: str) -> pa.ipc.RecordBatchFileReader:
        opened = vars(self._opened)
        reader = opened.pop(name, None) or self._files.seek_batches(name)
        opened[name] = reader
        if len(opened) > OPEN_FILES:
            del opened[next(iter(opened))]
        return reader
