"""What the bytes of a stream mean: JSON lines, CSV, Arrow. Many streams are parsed at once; a broken record costs only itself."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
from numpy.typing import NDArray

from skytide.errors import InvalidInput

NEWLINE, OPENING, CLOSING = b"\n{}"
FEW_LINES = 16
"""Up to this many are tried one by one."""
MAX_SHOWN = 4_096
"""The characters of a broken record that are kept."""
MESSAGE_MARK = b"\xff\xff\xff\xff"
"""How a message of an Arrow stream begins; after it comes its length, in as many bytes."""
MESSAGE_HEAD = 8
"""The bytes of both."""


@dataclass(frozen=True)
class Broken:
    """A record that cannot be read."""

    part: int
    """The number of the part it was in."""
    reason: str
    record: str
    """Its text, or the beginning of it."""


@dataclass(frozen=True)
class Parsed:
    """Rows of several parts, with the number of the part that each row came from."""

    rows: pa.Table
    parts: NDArray[np.int64]
    broken: tuple[Broken, ...] = ()


@dataclass(frozen=True)
class Part:
    """Whole records of one stream, as bytes that end with a newline; none is blank."""

    number: int
    data: bytes
    lines: int


class LineFormat(ABC):
    """A format whose records are lines."""

    name: ClassVar[str]

    def __init__(self, schema: pa.Schema) -> None:
        """Read these columns."""
        self.schema = schema

    def parse(self, parts: Sequence[tuple[int, bytes]]) -> Parsed:
        """Return the rows of whole lines of several streams, in order, and the lines that cannot be read."""
        whole = [part for number, data in parts if (part := _without_blanks(number, data)).lines]
        rows: list[tuple[pa.Table, Sequence[Part]]] = []
        broken: list[Broken] = []
        if whole:
            self._add(whole, rows, broken)
        tables = [table for table, _ in rows]
        numbers = [np.repeat([p.number for p in group], [p.lines for p in group]) for _, group in rows]
        return Parsed(
            pa.concat_tables(tables) if tables else self.schema.empty_table(),
            np.concatenate(numbers) if numbers else np.zeros(0, np.int64),
            tuple(broken),
        )

    def _add(self, parts: Sequence[Part], rows: list[tuple[pa.Table, Sequence[Part]]], broken: list[Broken]) -> None:
        """Parse everything at once; if that fails, find the records to blame by halves."""
        try:
            rows.append((self._table(b"".join(part.data for part in parts), sum(part.lines for part in parts)), parts))
            return
        except (pa.ArrowException, UnicodeDecodeError, _Other) as error:
            reason = str(error).splitlines()[0]
        if len(parts) == 1 and parts[0].lines == 1:
            if parts[0].data.strip():
                broken.append(Broken(parts[0].number, reason, _shown(parts[0].data)))
            return
        for half in _halves(parts):
            self._add(half, rows, broken)

    def _table(self, data: bytes, lines: int) -> pa.Table:
        table = self._parse(data, lines)
        if table.num_rows != lines:
            raise _Other("not one record")
        for column in table.columns:
            if pa.types.is_string(column.type):
                column.validate(full=True)  # refuses bytes that are not text
        return table

    @abstractmethod
    def _parse(self, data: bytes, lines: int) -> pa.Table:
        """Return the rows of lines."""


class _Other(ValueError):
    """Something that the parser accepts, but that is not a record."""


class JsonLines(LineFormat):
    """One object per line. Fields that are not in the schema are ignored, and missing ones are NULL.

    >>> read = JsonLines(pa.schema([("x", pa.float64())])).parse([(0, b'{"x": 1.5}\\n{"x": oops}\\n'), (1, b'{"x": 2}\\n')])
    >>> read.rows["x"].to_pylist(), read.parts.tolist(), read.broken[0].record
    ([1.5, 2.0], [0, 1], '{"x": oops}')
    """

    name = "jsonl"

    def _parse(self, data: bytes, lines: int) -> pa.Table:
        view = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(view == NEWLINE)
        starts = np.append(0, ends[:-1] + 1)
        if (view[starts] != OPENING).any() or (view[ends - 1] != CLOSING).any():
            if lines > 1:
                raise _Other("not all objects")
            data = _object(data)
        options = pa_json.ParseOptions(explicit_schema=_readable(self.schema), unexpected_field_behavior="ignore")
        reading = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        return pa_json.read_json(pa.BufferReader(data), parse_options=options, read_options=reading).cast(self.schema)


class Csv(LineFormat):
    """Fields separated by commas, in the order of the schema or of `columns`, which a header names; a record is one line, even within quotes. An empty field is NULL.

    >>> schema = pa.schema([("id", pa.string()), ("x", pa.int64())])
    >>> Csv(schema).parse([(7, b'"a, b",1\\nc,\\n')]).rows.to_pylist()
    [{'id': 'a, b', 'x': 1}, {'id': 'c', 'x': None}]
    >>> Csv(schema, ("x", "more", "id")).parse([(7, b"1,,a\\n")]).rows.to_pylist()
    [{'id': 'a', 'x': 1}]
    >>> Csv(schema, ("id", "y")).parse([(7, b"a,1\\n")]).broken
    (Broken(part=7, reason='the header does not name x once: id, y', record='a,1'),)
    """

    name = "csv"

    def __init__(self, schema: pa.Schema, columns: Sequence[str] = ()) -> None:
        """Read the columns of the schema."""
        super().__init__(schema)
        self._columns = tuple(columns)
        wrong = [name for name in schema.names if self._columns.count(name) != 1] if columns else []
        self._wrong = (
            f"the header does not name {' and '.join(wrong)} once: {', '.join(self._columns)}"[:MAX_SHOWN] if wrong else ""
        )

    def parse(self, parts: Sequence[tuple[int, bytes]]) -> Parsed:
        """Return the rows of lines; if the header does not name the columns, none can be read."""
        if not self._wrong:
            return super().parse(parts)
        lines = [(number, line) for number, data in parts for line in _without_blanks(number, data).data.splitlines()]
        broken = tuple(Broken(number, self._wrong, _shown(line)) for number, line in lines)
        return Parsed(self.schema.empty_table(), np.zeros(0, np.int64), broken)

    def _dialect(self) -> pa_csv.ParseOptions:
        return pa_csv.ParseOptions(ignore_empty_lines=False)

    def _parse(self, data: bytes, lines: int) -> pa.Table:
        try:
            return self._read(data, self.schema)
        except pa.ArrowInvalid as error:
            if "zone offset" not in str(error):
                raise
            return self._read(data, _without_zones(self.schema)).cast(self.schema)  # a time that names no zone is UTC

    def _read(self, data: bytes, schema: pa.Schema) -> pa.Table:
        return pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(
                column_names=self._columns or schema.names, use_threads=False, block_size=len(data) + 1
            ),
            parse_options=self._dialect(),
            convert_options=pa_csv.ConvertOptions(
                column_types=schema,
                include_columns=schema.names,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )


class Cells(Csv):
    """Values that another program has put in the order of the schema, separated by a character that no text has.

    Characters with a meaning of their own are written as a backslash and a letter, and so is an empty text, which is not NULL.
    """

    name = "fields"
    SEPARATOR, ESCAPES = "\x1f", {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\x1f": "\\u", "": "\\e"}

    def _dialect(self) -> pa_csv.ParseOptions:
        return pa_csv.ParseOptions(delimiter=self.SEPARATOR, quote_char=False, ignore_empty_lines=False)

    def _parse(self, data: bytes, lines: int) -> pa.Table:
        table = super()._parse(data, lines)
        if b"\\" not in data:
            return table
        for at, column in enumerate(table.columns):
            if pa.types.is_string(column.type):
                plain = pa.array([None if text is None else _unescaped(text) for text in column.to_pylist()], column.type)
                table = table.set_column(at, table.schema.field(at), plain)
        return table


_ESCAPED = re.compile(r"\\(.)")
_MEANING = {escape[1]: text for text, escape in Cells.ESCAPES.items()}


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda escape: _MEANING.get(escape[1], escape[0]), text)


def arrow_message_length(data: bytes) -> int | None:
    """Return the length of the message that begins with some bytes: 0 at the end of a stream, None if its head is incomplete.

    >>> sink = pa.BufferOutputStream()
    >>> with pa.ipc.new_stream(sink, pa.schema([("x", pa.int64())])) as writer:
    ...     writer.write_batch(pa.record_batch({"x": [1, 2, 3]}))
    >>> data = sink.getvalue().to_pybytes()
    >>> schema = arrow_message_length(data)
    >>> batch = arrow_message_length(data[schema:])
    >>> arrow_message_length(data[schema + batch :]), len(data) - schema - batch
    (0, 8)
    """
    if len(data) < MESSAGE_HEAD:
        return None
    if not data.startswith(MESSAGE_MARK):
        raise ValueError("no message begins here")
    length = int.from_bytes(data[len(MESSAGE_MARK) : MESSAGE_HEAD], "little")
    if length == 0:
        return 0
    end = MESSAGE_HEAD + length
    return end + _body_length(data[MESSAGE_HEAD:end]) if len(data) >= end else None


def _body_length(message: bytes) -> int:
    """Return how long the body of a message is: the fourth field of a flat buffer's table."""
    table = int.from_bytes(message[:4], "little")
    vtable = table - int.from_bytes(message[table : table + 4], "little", signed=True)
    size = int.from_bytes(message[vtable : vtable + 2], "little")
    if size < 12:
        return 0
    offset = int.from_bytes(message[vtable + 10 : vtable + 12], "little")
    return int.from_bytes(message[table + offset : table + offset + 8], "little", signed=True) if offset else 0


def check_readable(schema: pa.Schema) -> None:
    """Refuse columns that a line of text cannot hold."""
    for column in schema:
        column_type = column.type
        plain = (pa.types.is_string, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        if (
            not any(fits(column_type) for fits in plain)
            and not pa.types.is_timestamp(column_type)
            and not pa.types.is_date32(column_type)
        ):
            raise InvalidInput(
                value=f"column {column.name} of type {column_type}",
                reason="streams are read into plain columns only",
                remedy="read it as a string, and parse that in the DataFrame, for instance with from_json",
            )


def _readable(schema: pa.Schema) -> pa.Schema:
    """Return types that the JSON parser reads, and that can be cast to ours."""
    return pa.schema([pa.field(column.name, pa.string() if pa.types.is_date(column.type) else column.type) for column in schema])


def _without_zones(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(c.name, pa.timestamp("us") if pa.types.is_timestamp(c.type) else c.type) for c in schema])


def _object(line: bytes) -> bytes:
    """Return a line that is one object as the parser needs it; on some other values it crashes."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise _Other(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _Other("JSON, but not an object")
    return json.dumps(value).encode() + b"\n"


def _without_blanks(number: int, data: bytes) -> Part:
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    if b"\n\n" in data or data.startswith(b"\n"):
        data = b"".join(line + b"\n" for line in data.split(b"\n") if line)
    return Part(number, data, data.count(b"\n"))


def _halves(parts: Sequence[Part]) -> list[Sequence[Part]]:
    if len(parts) > 1:
        middle = len(parts) // 2
        return [parts[:middle], parts[middle:]]
    lines = [line + b"\n" for line in parts[0].data.split(b"\n")[:-1]]
    step = 1 if len(lines) <= FEW_LINES else (len(lines) + 1) // 2
    return [[Part(parts[0].number, b"".join(some := lines[at : at + step]), len(some))] for at in range(0, len(lines), step)]


def _shown(record: bytes) -> str:
    return record.rstrip(b"\n")[:MAX_SHOWN].decode("utf-8", "replace")
