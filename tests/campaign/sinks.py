"""The sinks that docs/sinks.md calls exactly-once, built in or as users would write them, and how to read their output."""

import datetime
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from support.oracle import Row, rows_of

HOOKED = ("overwrite", "replace", "upsert", "largest", "delta")
"""Functions, which report each moment of a call."""
KINDS = ("parquet", "json", "transactions", *HOOKED)
STAMPS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""Without this, Spark's JSON has milliseconds only."""
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
TIMES = ("ts", "window_start", "window_end", "arrival")
Hook = Callable[[str], None]
"""Told of each moment of a call: "before", "inside", "after"."""


def sink(kind: str, target: Path, name: str, keys: tuple[str, ...], hook: Hook) -> Any:
    """Return what to pass to `start` for the output `name`: a path for a built-in sink, otherwise a function."""
    if kind not in HOOKED:
        return str(target / name)

    def write(results: Any, batch_id: int) -> None:
        hook("before")
        if kind == "overwrite":
            hook("inside")
            results.write.mode("overwrite").parquet(f"{target}/{name}/batch={batch_id}")
        else:
            with closing(sqlite3.connect(target / "target.db", isolation_level=None, timeout=60)) as database:
                database.execute("PRAGMA synchronous = OFF")  # processes are killed here, not machines
                _write(database, kind, name, rows_of(results.toArrow()), batch_id, keys, hook)
        hook("after")

    return write


def _write(
    database: sqlite3.Connection,
    kind: str,
    name: str,
    rows: list[Row],
    batch_id: int,
    keys: tuple[str, ...],
    hook: Hook,
    application: str = "",
) -> None:
    """Write rows in one transaction, in one of the ways that survive a repeated batch."""
    unique = ", UNIQUE (window_start, key)" if kind == "upsert" else ""
    database.execute("BEGIN IMMEDIATE")
    database.execute(f"CREATE TABLE IF NOT EXISTS {name} (batch, window_start, key, row{unique})")
    database.execute("CREATE TABLE IF NOT EXISTS versions (application PRIMARY KEY, version)")
    known = database.execute("SELECT version FROM versions WHERE application = ?", (application or name,)).fetchone()
    largest = database.execute(f"SELECT max(batch) FROM {name}").fetchone()[0]
    if (kind == "delta" and known and batch_id <= known[0]) or (kind == "largest" and largest is not None and batch_id <= largest):
        database.execute("ROLLBACK")
        return
    if kind == "replace":
        database.execute(f"DELETE FROM {name} WHERE batch = ?", (batch_id,))
    keyed = [(batch_id, row.get("window_start", 0), json.dumps([row[key] for key in keys]), json.dumps(row)) for row in rows]
    conflict = " ON CONFLICT (window_start, key) DO UPDATE SET batch = excluded.batch, row = excluded.row" if unique else ""
    database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?){conflict}", keyed)
    database.execute(
        "INSERT INTO versions VALUES (?, ?) ON CONFLICT (application) DO UPDATE SET version = excluded.version",
        (application or name, batch_id),
    )
    hook("inside")
    database.execute("COMMIT")


def written(kind: str, target: Path, name: str) -> list[Row]:
    """Return all rows of an output, each with the number of its batch."""
    if kind in ("parquet", "overwrite") or (kind not in HOOKED and name != "results"):
        return [
            {"batch": number, **row}
            for number, file in _files(target / name, "parquet")
            for row in rows_of(pq.ParquetFile(file).read())
        ]
    if kind == "json":
        lines = [(number, line) for number, file in _files(target / name, "json") for line in file.read_text().splitlines()]
        return [{"batch": number, **_with_times(json.loads(line))} for number, line in lines]
    if not (target / "target.db").exists():
        return []
    with closing(sqlite3.connect(target / "target.db")) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone():
            return []
        return [{"batch": batch, **json.loads(row)} for batch, row in database.execute(f"SELECT batch, row FROM {name}")]


def _files(folder: Path, extension: str) -> list[tuple[int, Path]]:
    """Return the files of each batch, with its number."""
    return [
        (int(batch.name[6:]), file) for batch in sorted(folder.glob("batch=*")) for file in sorted(batch.glob(f"*.{extension}"))
    ]


def _with_times(row: Row) -> Row:
    """Return a row of JSON with its times in microseconds."""
    second = datetime.timedelta(seconds=1)
    return {
        name: (datetime.datetime.fromisoformat(value) - EPOCH) // (second / 1_000_000)
        if name in TIMES and value is not None
        else value
        for name, value in row.items()
    }


class Transactions(DataSource):
    """A format that applies no transaction twice, as Delta: it remembers the latest version of each application."""

    @classmethod
    def name(cls) -> str:
        """Return what it is called in `start`."""
        return "transactions"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return what writes one batch."""
        return _Transaction(self.options["path"], self.options["txnAppId"], int(self.options["txnVersion"]))


class _Rows(WriterCommitMessage):
    """What a task has written."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows


class _Transaction(DataSourceArrowWriter):
    """Gathers the rows of all tasks, and commits them with the version."""

    def __init__(self, path: str, application: str, version: int) -> None:
        self.path, self.application, self.version = path, application, version

    def write(self, iterator: Any) -> WriterCommitMessage:
        return _Rows([row for batch in iterator for row in rows_of(pa.Table.from_batches([batch]))])

    def commit(self, messages: list[Any]) -> None:
        rows = [row for message in messages if message for row in message.rows]
        with closing(sqlite3.connect(Path(self.path).parent / "target.db", isolation_level=None, timeout=60)) as database:
            database.execute("PRAGMA synchronous = OFF")
            _write(database, "delta", "results", rows, self.version, (), lambda moment: None, self.application)

    def abort(self, messages: list[Any]) -> None:
        pass
