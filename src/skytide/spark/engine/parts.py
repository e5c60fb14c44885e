"""Files with what was kept of panes and blocks, and their parts: rows of different groups lie side by side, those of a part together.

The part of a row is a number below 256, by a hash of its group. Where a file has many rows, they are sorted by part, so that a slot
reads its own and touches no other; where it has few, whoever needs some parts looks at all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from skytide.batch import Run
from skytide.batch.spreading import PARTS
from skytide.kernels import Indices
from skytide.keyed import base_groups, hashes_of
from skytide.keyed.bits import between, bits, bits_of, ranges
from skytide.queries.blocks import Place, Segment
from skytide.spark.checkpoint import Files
from skytide.spark.engine.cache import cache

PART = "__skytide_part"
INDEX = b"skytide.segments"
"""The metadata in which a file notes its segments: level, number, first record batch, number of batches, rows and tuples of each."""
SORTED_ROWS = 4096  # from here on it pays to sort rows by part, and to read some of them alone
DIVIDED = (2, 4, 8, 16)
"""Into so many record batches large tables are divided by parts."""
ALL_PARTS = between(0, PARTS)
"""Parts are a bit each."""
FIRST_PART = between(0, 1)
"""The part whose file notes the panes of all."""


def parts_of(rows: pa.Table, groups: tuple[str, ...]) -> Indices:
    """Return the part of each row.

    >>> parts_of(pa.table({"g": ["x", "y", "x"]}), ("g",)).tolist()
    [72, 130, 72]
    """
    return base_groups(hashes_of(rows, groups)).astype(np.uint8)


def in_parts(tables: Sequence[pa.Table], groups: tuple[str, ...]) -> list[pa.Table]:
    """Return tables that go to one file, sorted by part if they have groups and one of them is large."""
    if not groups or max((table.num_rows for table in tables), default=0) < SORTED_ROWS:
        return list(tables)
    return [_sorted(table, groups) for table in tables]


def _sorted(table: pa.Table, groups: tuple[str, ...]) -> pa.Table:
    parts = parts_of(table, groups)
    order = np.argsort(parts, kind="stable")
    return table.take(pa.array(order)).append_column(PART, pa.array(parts[order]))


def counted(table: pa.Table, some: int) -> Indices:
    """Return the rows of each of some parts in a table that is sorted by part; in others, nothing."""
    if PART not in table.column_names:
        return np.zeros(PARTS, np.int64)
    return np.where(bits(some, PARTS), np.bincount(table[PART].to_numpy(), minlength=PARTS), 0)


def batches_of(table: pa.Table) -> list[pa.RecordBatch]:
    """Return a table of `in_parts` as the record batches in which it is stored: if they are 2, 4, 8 or 16, each has as many parts."""
    whole: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    if PART not in table.column_names or not whole:
        return whole
    if len(whole) > 1:  # texts of some gigabytes: one batch too many says that they are not divided by parts
        return [*whole, *(whole[-1].slice(0, 0) for _ in range(len(whole) in DIVIDED))]
    count = 1 << min(len(DIVIDED), max(0, (table.num_rows // SORTED_ROWS).bit_length() - 1))
    ends = np.searchsorted(whole[0].column(PART).to_numpy(), np.arange(count + 1) * (PARTS // count))
    return [whole[0].slice(start, end - start) for start, end in pairwise(ends.tolist())]


def numbers_of(schema: pa.Schema, at: int, batches: int, some: int) -> Sequence[int]:
    """Return which record batches of a piece may have rows of some parts."""
    if PART not in schema.names or batches not in DIVIDED:
        return range(at, at + batches)
    size = PARTS // batches
    return [at + number for number in range(batches) if some & between(number * size, (number + 1) * size)]


def cut_out(table: pa.Table, some: int, groups: tuple[str, ...]) -> pa.Table:
    """Return the rows of some parts."""
    if PART in table.column_names:
        if some != ALL_PARTS:
            ends = np.searchsorted(table[PART].to_numpy(), ranges(some)).tolist()
            slices = [table.slice(first, last - first) for first, last in ends]
            table = slices[0] if len(slices) == 1 else pa.concat_tables(slices)
        return table.drop_columns([PART])
    if some == ALL_PARTS or not groups or not table.num_rows:
        return table
    return table.filter(pa.array(bits(some, PARTS)[parts_of(table, groups)]))


def divided(some: int, count: int) -> list[int]:
    """Return parts in so many lots, those side by side in one.

    >>> [bin(lot) for lot in divided(0b1101100, 2)]
    ['0b1100', '0b1100000']
    """
    return [bits_of(lot) for lot in np.array_split(np.flatnonzero(bits(some, PARTS)), count)]


def first_of(some: int) -> int:
    """Return the first of some parts."""
    return (some & -some).bit_length() - 1


def share(rows: int, some: int) -> tuple[int, int]:
    """Return which of some rows without groups belong to consecutive parts, by their places: the first of them, and how many.

    >>> share(10, between(0, 128)), share(10, between(128, 256)), share(1, between(0, 128)), share(1, between(128, 256))
    ((0, 5), (5, 5), (0, 0), (0, 1))
    """
    first, last = rows * first_of(some) // PARTS, rows * some.bit_length() // PARTS
    return first, last - first


@dataclass(frozen=True)
class Opened:
    """A file that is open, with its index."""

    reader: pa.ipc.RecordBatchFileReader

    @cached_property
    def index(self) -> Indices:
        """Its segments, one in each row."""
        return np.frombuffer((self.reader.schema.metadata or {}).get(INDEX, b""), np.int64).reshape(-1, 6)

    @cached_property
    def panes(self) -> Indices:
        """Its panes, each with the number of its tuples."""
        return np.asarray(self.index[self.index[:, 0] == 0][:, [1, 5]])

    @cached_property
    def places(self) -> dict[Place, list[tuple[int, int]]]:
        """The record batches of each segment: the first, and how many."""
        places: dict[Place, list[tuple[int, int]]] = {}
        for level, number, at, batches, *_ in self.index.tolist():
            places.setdefault(Place(level, number), []).append((at, batches))
        return places

    def read(self, at: int, batches: int, some: int = ALL_PARTS) -> pa.Table:
        """Return some of its record batches, of those that together are in parts the ones with some parts."""
        read = [self.reader.get_batch(number) for number in numbers_of(self.reader.schema, at, batches, some)]
        return pa.Table.from_batches(read, self.reader.schema).replace_schema_metadata(None)


def opened(files: Files, name: str) -> Opened:
    """Return a file that is open, from memory if it is there."""

    def read() -> tuple[Opened, int]:
        reader, nbytes = files.open_batches(name)
        return Opened(reader), nbytes

    return cache.get(files.uri, name, read)


class Remembered:
    """What runs remember of some parts of the groups; the port that windows are answered through."""

    def __init__(self, files: Files, runs: Sequence[Run], some: int, groups: tuple[str, ...]) -> None:
        """Look at runs, oldest first; files are opened when something of them is needed, as there may be thousands."""
        self._files, self._runs, self._some, self._groups = files, runs, some, groups
        self._found: dict[Place, list[pa.Table] | None] = {}

    @cached_property
    def counts(self) -> tuple[Indices, Indices]:
        """The panes with tuples, in order, and how many each has."""
        noted = [opened(self._files, name).panes for run in self._runs for name in run.files_of(FIRST_PART)]
        every = np.concatenate([np.empty((0, 2), np.int64), *noted])
        panes, places = np.unique(every[:, 0], return_index=True)
        return panes, every[places, 1]

    @property
    def panes(self) -> Indices:
        """The panes with tuples."""
        return self.counts[0]

    def kept(self, place: Place) -> list[pa.Table] | None:
        """Return what was kept of a pane or block; None if it is not remembered."""
        if place not in self._found:
            self._found[place] = self.read(place)
        return self._found[place]

    def read(self, place: Place) -> list[pa.Table] | None:
        """Return the same, and do not hold it."""
        first, last = place.panes.start, place.panes.stop - 1
        for run in self._runs:
            if run.first <= first and last <= run.last:
                files = [opened(self._files, name) for name in run.files_of(self._some)]
                found = [(file, at) for file in files for at in file.places.get(place, ())]
                if found:
                    return [cut_out(file.read(*at, self._some), self._some, self._groups) for file, at in found if at[1]]
        return None

    def latest(self, runs: int, needed: int) -> dict[Place, tuple[int, int]]:
        """Return the segments of the latest runs that hold a pane from `needed` on, with their rows, of all parts, and their tuples."""
        noted: dict[Place, tuple[int, int]] = {}
        for name in (name for run in self._runs[len(self._runs) - runs :] for name in run.files_of(self._some)):
            for level, number, _, _, rows, tuples in opened(self._files, name).index.tolist():
                place = Place(level, number)
                if place.panes.stop > needed:
                    noted[place] = (rows + noted.get(place, (0, 0))[0], tuples)
        return dict(sorted(noted.items()))


def write_segments(
    files: Files,
    name: str,
    segments: Iterable[Segment],
    most_rows: int,
    tuples: Mapping[int, int],
    some: int,
    groups: tuple[str, ...],
) -> Run | None:
    """Write what was kept of panes and blocks, none of which has more than some rows, to a file, and return it as a run; None if there are none.

    The tuples of panes are noted, too. Segments are looked at one by one: a run may have ten thousand small ones.
    """
    index: list[list[int]] = []
    batches: list[pa.RecordBatch] = []
    panes: list[range] = []
    for place, kept in segments:
        table = _sorted(kept, groups) if groups and most_rows >= SORTED_ROWS else kept
        mine, schema = batches_of(table), table.schema
        count = tuples.get(place.number, 0) if place.level == 0 else 0
        index.append([*place, len(batches), len(mine), table.num_rows, count])
        batches += mine
        panes.append(place.panes)
    if not panes:
        return None
    files.write_batches(name, schema.with_metadata({INDEX: np.array(index, np.int64).tobytes()}), batches)
    rows = sum(batch.num_rows for batch in batches)
    return Run(min(mine.start for mine in panes), max(mine.stop for mine in panes) - 1, 0, (name,), rows, (some,))
