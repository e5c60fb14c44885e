"""The kinds of sinks that docs/streaming.md calls exactly-once, over a real database."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

Rows = list[tuple[str, str]]
Table = Callable[[Any], pa.Table]
"""Returns the rows that a sink gets as a table."""


class Database:
    """A table of rows with the number of their batch, and a table of numbers."""

    def __init__(self, file: Path, table: Table = lambda results: results) -> None:
        """Open or make the database."""
        self._file, self._table = file, table
        with self._open() as db:
            db.execute("CREATE TABLE IF NOT EXISTS windows (batch INTEGER, start TEXT, row TEXT)")
            db.execute("CREATE TABLE IF NOT EXISTS numbers (app TEXT PRIMARY KEY, number INTEGER)")

    def rows(self) -> Rows:
        """Return all rows, in order."""
        with self._open() as db:
            return sorted(db.execute("SELECT start, row FROM windows").fetchall())

    def delete_and_insert(self, results: Any, number: int) -> None:
        """Replace what is there under the number, in one transaction."""
        with self._open() as db:
            db.execute("DELETE FROM windows WHERE batch = ?", (number,))
            self._insert(db, results, number)

    def upsert(self, results: Any, number: int) -> None:
        """Insert or replace by window and row."""
        with self._open() as db:
            db.execute("CREATE UNIQUE INDEX IF NOT EXISTS one ON windows (start, row)")
            self._insert(db, results, number, "OR REPLACE ")

    def remember_largest(self, results: Any, number: int) -> None:
        """Append, unless there has been a number as large."""
        self._append_once(results, number, "largest")

    def append_as_delta(self, results: Any, number: int) -> None:
        """Append with the application and version of a transaction, which Delta ignores if it has seen them."""
        self._append_once(results, number, "txnAppId")

    def overwrite(self, results: Any, number: int) -> None:
        """Overwrite the file of the number."""
        folder = self._file.with_suffix(".files")
        folder.mkdir(exist_ok=True)
        (folder / f"batch={number}").write_text("\n".join("\t".join(row) for row in self._rows(results)))
        with self._open() as db:  # for `rows` only
            db.execute("DELETE FROM windows")
            for file in folder.iterdir():
                lines = [line.split("\t") for line in file.read_text().splitlines()]
                db.executemany("INSERT INTO windows VALUES (0, ?, ?)", lines)

    def append(self, results: Any, number: int) -> None:
        """Append whatever comes: a batch that is repeated is there twice."""
        with self._open() as db:
            self._insert(db, results, number)

    def _append_once(self, results: Any, number: int, app: str) -> None:
        with self._open() as db:
            (largest,) = db.execute("SELECT max(number) FROM numbers WHERE app = ?", (app,)).fetchone()
            if largest is None or number > largest:
                self._insert(db, results, number)
                db.execute("INSERT OR REPLACE INTO numbers VALUES (?, ?)", (app, number))

    def _insert(self, db: sqlite3.Connection, results: Any, number: int, how: str = "") -> None:
        db.executemany(f"INSERT {how}INTO windows VALUES ({number}, ?, ?)", self._rows(results))

    def _rows(self, results: Any) -> Rows:
        return [(str(row.get("window_start")), str(sorted(row.items()))) for row in self._table(results).to_pylist()]

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, isolation_level="IMMEDIATE")
        db.execute("PRAGMA synchronous = OFF")  # a test survives no power failure
        return db


KINDS = ("overwrite", "delete_and_insert", "upsert", "remember_largest", "append_as_delta")
