"""A CSV header says which column is where, wherever a range begins; one that says something else is not passed over."""

from pathlib import Path
from typing import Any

import pytest
from fleet_model import Asked, status

ROWS = [(n, f"p{n}") for n in range(30)]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    (tmp_path / "feeds").mkdir()
    (tmp_path / "channel").mkdir()
    places = {"place": str(tmp_path / "feeds"), "channel": str(tmp_path / "channel"), "invalid": str(tmp_path / "invalid")}
    return Asked(tmp_path / "notes", splits=1, format="csv", header=True, **places)


def _file(asked: Asked, name: str) -> Path:
    return Path(asked.settings["place"]) / f"{name}.csv"


def _rows(asked: Asked) -> list[dict[str, Any]]:
    """Return all rows, read in small batches, so that most ranges begin after the header, or within it."""
    start, rows = asked.reader.initialOffset(), []
    asked.reader._capacity.hz = 3
    for _ in range(500):
        end = asked.reader.latestOffset(start, None)  # type: ignore[arg-type]
        if end == start:
            return rows
        rows += [
            row for part in asked.reader.partitions(start, end) for batch in asked.reader.read(part) for row in batch.to_pylist()
        ]
        asked.reader.commit(end)
        start = end
    raise AssertionError("there is no end to it")


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("n,pad", "{n},{pad}"),
        ("pad,n", "{pad},{n}"),
        ("pad,more,n", "{pad},7,{n}"),
        ('\ufeff"pad" , N', "{pad},{n}"),
        ("n,pad\r", "{n},{pad}\r"),
    ],
)
def test_columns_are_where_the_header_says(asked: Asked, header: str, line: str) -> None:
    _file(asked, "a").write_text("\n".join([header, *(line.format(n=n, pad=pad) for n, pad in ROWS), ""]), newline="")
    _file(asked, "plain").write_text("n,pad\n-1,x\n")
    rows = _rows(asked)
    assert [(row["n"], row["pad"]) for row in rows if row["stream"] == "a"] == ROWS
    assert [(row["n"], row["pad"]) for row in rows if row["stream"] == "plain"] == [(-1, "x")]
    assert status(asked)["invalid"] == 0


@pytest.mark.parametrize("header", ["n,padding", "n", "n,pad,pad", "", "1,p1"])
def test_a_header_without_the_columns_makes_broken_records(asked: Asked, header: str) -> None:
    _file(asked, "a").write_text("\n".join([header, *(f"{n},{pad}" for n, pad in ROWS), ""]))
    _file(asked, "plain").write_text("n,pad\n-1,x\n")
    assert [row["stream"] for row in _rows(asked)] == ["plain"]
    asked.reader.latestOffset(asked.reader._latest[0], None)  # type: ignore[arg-type]
    assert status(asked)["invalid"] == len(ROWS)
    reasons = "".join(file.read_text() for file in Path(asked.settings["invalid"]).glob("batch=*/*.jsonl"))
    assert "the header does not name" in reasons


def test_a_header_that_is_still_being_written_waits(asked: Asked) -> None:
    with _file(asked, "a").open("w", buffering=1) as file:
        for text in ("pa", "d,n", "\nx", ",", "1\ny,2", "\n"):
            file.write(text)
            file.flush()
            asked.batch()
    asked.all()
    assert asked.given == {"a": [1, 2]}
