"""The rows that can still be in an answer of a skyline, in files that never change: a base, and what each slide changed.

A row that is remembered can only die: a younger one dominates it, or its pane leaves. So a slide writes the rows that it adds, and notes
which rows of earlier files died; now and then everything that is left is written to a new base.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skytide.batch import Run
from skytide.batch.spreading import PARTS
from skytide.batch.state import FAR
from skytide.kernels import Indices
from skytide.queries.incremental import NEW, PLACE
from skytide.queries.memory import PANE
from skytide.spark.checkpoint import Files
from skytide.spark.engine.cache import cache
from skytide.spark.engine.parts import counted, cut_out, in_parts, opened, share

COUNTS = b"skytide.tuples"
"""The metadata in which a file notes how many tuples panes had."""
FIRST = b"skytide.first"
"""The metadata in which a file notes the first pane that is not forgotten."""
DEAD = b"skytide.dead."
"""The metadata, with the name of an earlier file, in which a file notes which of its rows were dominated."""
ROW_BITS = 40  # of a place: the others are the number of the file


@dataclass(frozen=True)
class Candidates:
    """Rows that are remembered, each with its place in some files, and how many tuples each pane had."""

    rows: pa.Table
    panes: Indices
    tuples: Indices
    files: tuple[str, ...]
    of_parts: Indices
    """The rows of each part, where they are many."""

    @staticmethod
    def read(files: Files, runs: Sequence[Run], some: int, groups: tuple[str, ...], empty: pa.Table) -> "Candidates":
        """Return those of some parts of the groups."""
        names = tuple(name for run in runs for name in (run.files_of(some) if groups else run.files))
        cache.keep_only(files.uri, {name for run in runs for name in run.files})
        stored = [opened(files, name) for name in names]
        notes = [file.reader.schema.metadata or {} for file in stored]
        first = max((int(noted.get(FIRST, b"0")) for noted in notes if FIRST in noted), default=None)
        dead: dict[bytes, list[bytes]] = {}
        for key, rows_of in (item for noted in notes for item in noted.items() if item[0].startswith(DEAD)):
            dead.setdefault(key, []).append(rows_of)
        rows, of_parts = [empty], np.zeros(PARTS, np.int64)
        for number, (name, file) in enumerate(zip(names, stored, strict=True)):
            table = file.read(0, file.reader.num_record_batches)
            of_parts += counted(table, some)
            mine = cut_out(table.append_column(PLACE, pa.array(np.arange(table.num_rows))), some, groups)
            if not groups:
                mine = mine.slice(*share(table.num_rows, some))
            places = mine[PLACE].to_numpy()
            alive = np.ones(table.num_rows, bool)
            alive[np.frombuffer(b"".join(dead.get(DEAD + name.encode(), ())), np.int64)] = False
            stays = alive[places] if first is None else alive[places] & (mine[PANE].to_numpy() >= first)
            numbered = mine.set_column(mine.num_columns - 1, PLACE, pa.array(places + (number << ROW_BITS)))
            rows.append(numbered.filter(pa.array(stays)))
        noted_panes = [np.frombuffer(noted.get(COUNTS, b""), np.int64).reshape(2, -1) for noted in notes]
        panes, tuples = np.concatenate([np.empty((2, 0), np.int64), *noted_panes], axis=1)
        panes, at = np.unique(panes, return_index=True)
        return Candidates(pa.concat_tables(rows).combine_chunks(), panes, tuples[at], names, of_parts)

    def write(
        self,
        files: Files,
        name: str,
        after: pa.Table,
        tuples: Mapping[int, int],
        first: int,
        some: int,
        groups: tuple[str, ...],
        *,
        whole: bool,
    ) -> Run:
        """Write a file that makes these candidates those after a slide, or is the new base, and return it as a run."""
        noted = dict(tuples)
        dead: dict[bytes, bytes] = {}
        if whole:
            noted = dict(zip(self.panes.tolist(), self.tuples.tolist(), strict=True)) | noted
            rows = after
        else:
            places = after[PLACE].to_numpy()
            rows = after.filter(pa.array(places == NEW))
            stayed = self.rows[PLACE].to_numpy()[self.rows[PANE].to_numpy() >= first]
            died = np.delete(stayed, np.searchsorted(stayed, places[places != NEW]))  # rows stay in order
            for number in np.unique(died >> ROW_BITS).tolist():
                mine = died[died >> ROW_BITS == number]
                dead[DEAD + self.files[number].encode()] = (mine & ((1 << ROW_BITS) - 1)).tobytes()
        counts = np.array(sorted(item for item in noted.items() if item[0] >= first), np.int64).reshape(-1, 2)
        table = in_parts([rows.drop_columns([PLACE])], groups)[0]
        notes = {COUNTS: np.ascontiguousarray(counts.T).tobytes(), FIRST: str(first).encode(), **dead}
        files.write_table(name, table.replace_schema_metadata(notes))
        return Run(-FAR, FAR, 0, (name,), table.num_rows, (some,) if groups else ())
