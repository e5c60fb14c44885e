"""Files whose records are lines.

A record belongs to the range that contains its newline. So a range may end anywhere, nobody has to look for the last complete record, and
one that is still being written waits.
"""

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skytide.spark.fleet.feeds.feed import TRUNCATED, Range, Records, Skipped
from skytide.spark.fleet.feeds.folder import Folder, RangeLostError
from skytide.spark.fleet.formats import Csv, JsonLines, LineFormat

Columns = tuple[str, ...]

CHUNK_BYTES = 8 << 20
"""How much is parsed at once."""
FASTER = 64  # by which the step of a search grows
MAX_HEADER_BYTES = 65_536


@dataclass(frozen=True)
class LinesFolder(Folder):
    """Files of lines."""

    parser: ClassVar[type[LineFormat]]

    def _length_in(self, data: bytes) -> float:
        lines = data.count(b"\n")
        return (data.rfind(b"\n") + 1) / lines if lines else 0.0

    def read(self, ranges: Sequence[Range]) -> Iterator[Records]:
        """Yield the records of ranges; those of many small files are parsed together."""
        parts: list[tuple[int, Columns, bytes]] = []
        skipped: list[Skipped] = []
        size = 0
        for number, wanted in enumerate(ranges):
            try:
                for columns, lines in self._lines(wanted):
                    parts.append((number, columns, lines))
                    size += len(lines)
                    if size >= CHUNK_BYTES:
                        yield self._records(parts, skipped)
                        parts, skipped, size = [], [], 0
            except RangeLostError as error:
                skipped.append(Skipped(wanted.stream, str(error)))
        if parts or skipped:
            yield self._records(parts, skipped)

    def _records(self, parts: list[tuple[int, Columns, bytes]], skipped: list[Skipped]) -> Records:
        """Return lines as records, parsed together if their columns are the same."""
        alike: dict[Columns, list[tuple[int, bytes]]] = {}
        for number, columns, lines in parts:
            alike.setdefault(columns, []).append((number, lines))
        parsed = [self._parser(columns).parse(some) for columns, some in alike.items()]
        rows = pa.concat_tables([self.schema.empty_table(), *(part.rows for part in parsed)])
        numbers = np.concatenate([np.zeros(0, np.int64), *(part.parts for part in parsed)])
        return Records(rows, numbers, tuple(broken for part in parsed for broken in part.broken), tuple(skipped))

    def _parser(self, columns: Columns) -> LineFormat:
        return self.parser(self.schema)

    def _columns(self, file: int) -> tuple[Columns, int]:
        """Return the columns of an open file as it names them itself, if it does, and where its records begin."""
        return (), 0

    def _lines(self, wanted: Range) -> Iterator[tuple[Columns, bytes]]:
        """Yield the lines whose newlines are in a range, some at a time, with the columns of the file."""
        with self._opened(wanted) as file:
            columns, first = self._columns(file)
            at, end = max(wanted.begin[0], first), wanted.end[0]
            begun = _begun_line(file, at) if at < end else b""
            while at < end:
                data = os.pread(file, min(CHUNK_BYTES, end - at), at)
                if not data:
                    raise RangeLostError(TRUNCATED)
                at += len(data)
                last = data.rfind(b"\n") + 1
                if not last:
                    begun += data
                    continue
                lines, begun = begun + data[:last], data[last:]
                yield columns, lines


def _begun_line(file: int, at: int) -> bytes:
    """Return what is between the last newline before a place and that place."""
    begun = b""
    step = 1
    while at > 0:
        begin = max(0, at - step)
        data = os.pread(file, at - begin, begin)
        newline = data.rfind(b"\n")
        if newline >= 0:
            return data[newline + 1 :] + begun
        begun, at, step = data + begun, begin, min(step * FASTER, CHUNK_BYTES)
    return begun


@dataclass(frozen=True)
class JsonFolder(LinesFolder):
    """Files of JSON lines."""

    extension = "jsonl"
    parser = JsonLines


@dataclass(frozen=True)
class CsvFolder(LinesFolder):
    """CSV files; with a `header`, the first line of each names its columns, in any order."""

    header: bool = False

    extension = "csv"
    parser = Csv

    def _parser(self, columns: Columns) -> LineFormat:
        return Csv(self.schema, columns)

    def _columns(self, file: int) -> tuple[Columns, int]:
        if not self.header:
            return (), 0
        data = os.pread(file, MAX_HEADER_BYTES, 0)
        length = data.find(b"\n") + 1
        if not length and len(data) < MAX_HEADER_BYTES:
            return (), MAX_HEADER_BYTES  # it is still being written
        text = data[: length or MAX_HEADER_BYTES].decode("utf-8-sig", "replace")
        names = next(csv.reader([text]), []) or [""]
        by_folded_name = {name.casefold(): name for name in self.schema.names}
        return tuple(
            name if name in self.schema.names else by_folded_name.get(name.casefold(), name) for name in map(str.strip, names)
        ), length
