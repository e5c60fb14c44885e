"""Files whose records are lines.

A record belongs to the range that contains its newline. So a range may end anywhere, nobody has to look for the last complete record, and
one that is still being written waits.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from skytide.spark.fleet.book import Book
from skytide.spark.fleet.feeds.feed import TRUNCATED, Range, Records, Skipped
from skytide.spark.fleet.feeds.folder import Folder, NotThereError
from skytide.spark.fleet.formats import Csv, JsonLines, LineFormat

CHUNK_BYTES = 8 << 20
"""How much is parsed at once."""
SAMPLED, SAMPLE_BYTES = 32, 16_384  # files, and bytes of each
FASTER = 64  # by which the step of a search grows


@dataclass(frozen=True)
class LinesFolder(Folder):
    """Files of lines; with a `header`, the first line of each names the columns."""

    header: bool = False

    parser: ClassVar[type[LineFormat]]

    def sampled(self, book: Book) -> "LinesFolder":
        """Return the same folder, with the mean length of a record in some of its files."""
        texts = [self._first_bytes(name, SAMPLE_BYTES) or b"" for name in book.names[:: max(1, len(book.names) // SAMPLED)]]
        lines = sum(text.count(b"\n") for text in texts)
        return replace(self, record_bytes=sum(text.rfind(b"\n") + 1 for text in texts) / lines) if lines else self

    def read(self, ranges: Sequence[Range]) -> Iterator[Records]:
        """Yield the records of ranges; those of many small files are parsed together."""
        parser = self.parser(self.schema)
        parts: list[tuple[int, bytes]] = []
        skipped: list[Skipped] = []
        size = 0
        for number, wanted in enumerate(ranges):
            try:
                for lines in self._lines(wanted):
                    parts.append((number, lines))
                    size += len(lines)
                    if size >= CHUNK_BYTES:
                        yield _records(parser, parts, skipped)
                        parts, skipped, size = [], [], 0
            except NotThereError as error:
                skipped.append(Skipped(wanted.stream, str(error)))
        if parts or skipped:
            yield _records(parser, parts, skipped)

    def _lines(self, wanted: Range) -> Iterator[bytes]:
        """Yield the lines whose newlines are in a range, some at a time."""
        at, end = wanted.begin[0], wanted.end[0]
        with self._opened(wanted) as file:
            begun = _begun_line(file, at)
            heading = self.header and at < CHUNK_BYTES and b"\n" not in os.pread(file, at, 0)  # a range may end within it
            while at < end:
                data = os.pread(file, min(CHUNK_BYTES, end - at), at)
                if not data:
                    raise NotThereError(TRUNCATED)
                at += len(data)
                last = data.rfind(b"\n") + 1
                if not last:
                    begun += data
                    continue
                lines, begun = begun + data[:last], data[last:]
                if heading:
                    lines, heading = lines[lines.find(b"\n") + 1 :], False
                yield lines


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


def _records(parser: LineFormat, parts: list[tuple[int, bytes]], skipped: list[Skipped]) -> Records:
    read = parser.parse(parts)
    return Records(read.rows, read.parts, read.broken, tuple(skipped))


@dataclass(frozen=True)
class JsonFolder(LinesFolder):
    """Files of JSON lines."""

    extension = "jsonl"
    parser = JsonLines


@dataclass(frozen=True)
class CsvFolder(LinesFolder):
    """CSV files."""

    extension = "csv"
    parser = Csv
