"""Files that hold an Arrow stream each, as `pyarrow.ipc.new_stream` writes them: the records are the rows of its batches."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.spark.fleet.feeds.feed import Positions, Range, Records, Skipped
from skytide.spark.fleet.feeds.folder import Folder, RangeLostError
from skytide.spark.fleet.formats import MESSAGE_HEAD, MESSAGE_MARK, Broken, arrow_message_length
from skytide.spark.fleet.states import StreamStates

TEXT_BYTES = 16
"""The assumed length of a value whose type has no fixed one."""


@dataclass(frozen=True)
class ArrowFolder(Folder):
    """Files of Arrow streams. A range ends with a message, and an incomplete message waits."""

    extension = "arrow"

    def _usual_length(self) -> float:
        """Return the length of a row according to the schema."""
        widths = [column.type.bit_width / 8 if pa.types.is_primitive(column.type) else TEXT_BYTES for column in self.schema]
        return max(1.0, float(sum(widths)))

    def read(self, ranges: Sequence[Range]) -> Iterator[Records]:
        """Yield the records of ranges, one by one."""
        for number, wanted in enumerate(ranges):
            try:
                with self._opened(wanted) as file:
                    yield self._rows(file, number, wanted)
            except RangeLostError as error:
                yield Records(self.schema.empty_table(), np.zeros(0, np.int64), (), (Skipped(wanted.stream, str(error)),))

    def _rows(self, file: int, number: int, wanted: Range) -> Records:
        """Return the rows of a range: of its messages, and of that with the schema, which the file begins with."""
        nothing = self.schema.empty_table(), np.zeros(0, np.int64)
        try:
            schema = next(_ends(file, 0, wanted.end[0]), wanted.end[0])
            begin = max(wanted.begin[0], schema)
            data = os.pread(file, schema, 0) + os.pread(file, wanted.end[0] - begin, begin)
            rows = pa.ipc.open_stream(pa.BufferReader(data)).read_all()
        except (pa.ArrowException, ValueError) as error:
            return Records(*nothing, (Broken(number, f"not an Arrow stream: {str(error).splitlines()[0]}", ""),))
        try:
            return Records(rows.select(self.schema.names).cast(self.schema), np.full(rows.num_rows, number))
        except (pa.ArrowException, KeyError) as error:
            reason = f"another schema: {str(error).splitlines()[0]}"
            return Records(*nothing, tuple(Broken(number, reason, str(row)) for row in rows.to_pylist()))

    def _begin(self, states: StreamStates, rows: list[int], at: Positions) -> list[int]:
        """Move positions back to the last complete message."""
        unreadable = []
        for row in rows:
            last = self._last_end(states.names[row], 0, int(at[row, 0]), limited=False)
            if last is None:
                unreadable.append(row)
            else:
                at[row, 0] = last
        return unreadable

    def _whole_records(self, states: StreamStates, ends: Positions, rows: NDArray[np.int64] | None = None) -> None:
        """Move ends back to the last complete message; a limit shorter than a message lets one in."""
        limited = rows is not None
        for row in (np.flatnonzero(ends[:, 0] > states.at[:, 0]) if rows is None else rows).tolist():
            begin, end = int(states.at[row, 0]), int(ends[row, 0])
            if end > begin:
                last = self._last_end(states.names[row], begin, end, limited)
                ends[row, 0] = begin if last is None else last

    def _last_end(self, name: str, begin: int, end: int, limited: bool) -> int | None:
        """Return where the last complete message before an end ends; None if the file cannot be read now."""
        last = begin
        try:
            number = os.open(self._path(name), os.O_RDONLY)
        except OSError:
            return None
        try:
            size = os.fstat(number).st_size
            for message_end in _ends(number, begin, size):
                if message_end > end and not (limited and last == begin):
                    break
                last = message_end
        except OSError:
            return None
        except ValueError:  # what is not an Arrow stream is let in as a whole: the task reports what is wrong with it
            return end if last == begin else last
        finally:
            os.close(number)
        return last


def _ends(file: int, at: int, size: int) -> Iterator[int]:
    """Yield where complete messages end, from a place where one begins."""
    while at < size:
        head = os.pread(file, MESSAGE_HEAD, at)
        more = int.from_bytes(head[len(MESSAGE_MARK) :], "little") if len(head) == MESSAGE_HEAD else 0
        length = arrow_message_length(head + os.pread(file, more, at + MESSAGE_HEAD))
        if not length or at + length > size:
            return
        at += length
        yield at
