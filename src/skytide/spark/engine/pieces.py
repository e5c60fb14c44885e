"""Pieces of panes: reading some parts of them, and merging several into one."""

import json
import time
from dataclasses import dataclass

import pyarrow as pa

from skytide.batch import MergePieces, Piece
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import fresh_name
from skytide.spark.engine.parts import ALL_PARTS, Cut, batches_of, cut_out, in_parts, numbers_of
from skytide.spark.engine.spec import QuerySpec


@dataclass(frozen=True)
class MergeTask:
    """Merges pieces of panes."""

    spec: QuerySpec
    files: Files
    instruction: MergePieces

    def run(self, cut: tuple[int, int]) -> tuple[Piece, ...]:
        """Do some of the merges, write what they keep to one file, and return where each lies."""
        first, last = cut
        name = fresh_name("panes", self.instruction.sequence)
        merged: list[Piece] = []
        batches: list[pa.RecordBatch] = []
        merges = self.instruction.merges[first:last]
        tables = [
            self.spec.query.merge(pa.concat_tables([read_piece(self.files, piece, ALL_PARTS, self.spec) for piece in merge.pieces]))
            for merge in merges
        ]
        for merge, kept, table in zip(merges, tables, in_parts(tables, self.spec.parted_by), strict=True):
            mine = batches_of(table)
            tier = 1 + max(piece.tier for piece in merge.pieces)
            merged.append(Piece(name, len(batches), len(mine), kept.num_rows, tier))
            batches += mine
            schema = table.schema
        self.files.write_batches(name, schema, batches)
        return tuple(merged)

    def reported(self, cut: tuple[int, int]) -> str:
        """Do some of the merges in a task, and return the pieces, and how long it took, as a text."""
        began = time.perf_counter()
        pieces = [list(vars(piece).values()) for piece in self.run(cut)]
        return json.dumps([pieces, time.perf_counter() - began])


def read_piece(files: Files, piece: Piece, cut: Cut, spec: QuerySpec) -> pa.Table:
    """Return the rows of some parts of a piece."""
    reader = files.seek_batches(piece.file)
    batches = [reader.get_batch(number) for number in numbers_of(reader.schema, piece.at, piece.batches, cut)]
    table = pa.Table.from_batches(batches, reader.schema if batches else spec.query.kept_schema(spec.columns))
    return cut_out(table, cut, spec.parted_by)
