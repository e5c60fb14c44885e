"""Formats of streams: what is read agrees with Python's own json and csv, and a broken record affects no others."""

import csv
import io
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.spark.fleet.formats import Csv, JsonLines, check_readable

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("ok", pa.bool_())])
TIMES = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("day", pa.date32()), ("d", pa.decimal128(10, 2))])

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
objects = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | texts,
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "ok": st.none() | st.booleans(),
        "other": st.none() | texts | st.integers(),
    },
)
JUNK = [
    b"null", b"[1]", b"5", b'"text"', b"{", b"}", b'{"x": oops}', b'{"id": 5}', b'{"n": 1.5}', b'{"n": 99999999999999999999}', b'{"x": "1.5"}',
    b'{"id": "a"} {"id": "b"}', b'{"id": "a"} null', b'{"id":"\xff\xfe"}', b'{"id": "a", "id": "b"}', b"oops", b'{"a":', b'{"x": [1]}', b",", b'{"x": 1e999}',
]  # fmt: skip


def _want(line: bytes) -> dict[str, Any]:
    known = json.loads(line)
    return {name: known.get(name) for name in SCHEMA.names}


@given(st.lists(st.lists(objects, max_size=6), max_size=5))
def test_json_lines_are_what_python_reads(streams: list[list[dict[str, Any]]]) -> None:
    parts = [(number, b"".join(json.dumps(each).encode() + b"\n" for each in objects)) for number, objects in enumerate(streams)]
    read = JsonLines(SCHEMA).parse(parts)
    want = [(number, _want(line)) for number, data in parts for line in data.splitlines()]
    assert list(zip(read.parts.tolist(), read.rows.to_pylist(), strict=True)) == want
    assert not read.broken and read.rows.schema == SCHEMA


@given(st.lists(st.lists(objects.map(lambda o: json.dumps(o).encode()) | st.sampled_from(JUNK), max_size=30), max_size=4))
def test_broken_lines_cost_only_themselves(streams: list[list[bytes]]) -> None:
    read = JsonLines(SCHEMA).parse([(number, b"".join(line + b"\n" for line in lines)) for number, lines in enumerate(streams)])
    good = [(number, _want(line)) for number, lines in enumerate(streams) for line in lines if line not in JUNK]
    bad = [(number, line.decode("utf-8", "replace")) for number, lines in enumerate(streams) for line in lines if line in JUNK]
    assert list(zip(read.parts.tolist(), read.rows.to_pylist(), strict=True)) == good
    assert [(broken.part, broken.record) for broken in read.broken] == bad


def test_blank_lines_and_carriage_returns_are_no_records() -> None:
    read = JsonLines(SCHEMA).parse([(3, b'\n{"n": 1}\r\n\n \n\r\n  {"n": 2}  \n')])
    assert read.rows["n"].to_pylist() == [1, 2] and not read.broken


def test_times_days_and_decimals() -> None:
    lines = [
        '{"ts": "2026-01-31T10:00:00Z", "day": "2026-01-31", "d": 1.25}',
        '{"ts": "2026-01-31 12:00:00.5+02:00", "d": "7"}',
        '{"ts": "2026-01-31 10:00:00"}',
    ]
    read = JsonLines(TIMES).parse([(0, "".join(line + "\n" for line in lines).encode())])
    assert [str(time)[:21] for time in read.rows["ts"].to_pylist()] == [
        "2026-01-31 10:00:00+0", "2026-01-31 10:00:00.5", "2026-01-31 10:00:00+0"
    ]  # fmt: skip
    assert str(read.rows["day"][0]) == "2026-01-31" and str(read.rows["d"][0]) == "1.25" and not read.broken
    read = Csv(TIMES).parse([(0, b"2026-01-31T10:00:00Z,2026-01-31,1.25\n2026-01-31 10:00:00,,\nlater,,\n")])
    assert read.rows.num_rows == 2 and [broken.record for broken in read.broken] == ["later,,"]


rows = st.tuples(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00\n\r"), min_size=1, max_size=8).filter(lambda text: text.strip()),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
BAD_CSV = [b"a,1", b"a,1,2.0,true,more", b"a,x,1.0,true", b'"a,1,1.0,true', b'a,1,1.0,true"x', b"\xff,1,1.0,true", b",,,,,,,"]


def _written(row: tuple[Any, ...]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([row[0], row[1], repr(row[2]), str(row[3]).lower()])
    return text.getvalue().encode()


@given(st.lists(st.lists(rows | st.sampled_from(BAD_CSV), max_size=20), max_size=4))
def test_csv_is_what_python_writes_and_broken_lines_cost_only_themselves(streams: list[list[Any]]) -> None:
    lines = [[line + b"\n" if isinstance(line, bytes) else _written(line) for line in stream] for stream in streams]
    read = Csv(SCHEMA).parse([(number, b"".join(stream)) for number, stream in enumerate(lines)])
    good = [(number, row) for number, stream in enumerate(streams) for row in stream if not isinstance(row, bytes)]
    bad = [number for number, stream in enumerate(streams) for row in stream if isinstance(row, bytes)]
    found = [tuple(row.values()) for row in read.rows.to_pylist()]
    assert list(zip(read.parts.tolist(), found, strict=True)) == good
    assert [broken.part for broken in read.broken] == bad


def test_nothing_is_null_in_csv_and_a_quoted_nothing_is_not() -> None:
    assert Csv(SCHEMA).parse([(0, b'"",,,\n,,,\n')]).rows["id"].to_pylist() == ["", None]


def test_numbers_of_every_size_agree_with_python() -> None:
    values = [0.1, 1e-300, 1e300, 2.5, 123456789.123456789, math.pi]
    read = JsonLines(SCHEMA).parse([(0, "".join(f'{{"x": {value!r}}}\n' for value in values).encode())])
    assert read.rows["x"].to_pylist() == values


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.binary(), pa.null()])
def test_columns_that_no_line_holds_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match="plain columns"):
        check_readable(pa.schema([("a", kind)]))
