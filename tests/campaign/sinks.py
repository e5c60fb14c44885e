"""The ways of docs/streaming.md to make a sink exactly-once, as users would write them, and how to read their output."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from support.oracle import Row, rows_of

KINDS = ("parquet", "overwrite", "replace", "upsert", "largest", "delta")
Hook = Callable[[str], None]
"""Told of each moment of a call: "before", "inside", "after"."""


def sink(kind: str, target: Path, name: str, keys: tuple[str, ...], hook: Hook) -> Any:
    """Return what to pass to `start` for the output `name`: a path for the built-in sink, otherwise a function."""
    if kind == "parquet":
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
    database: sqlite3.Connection, kind: str, name: str, rows: list[Row], batch_id: int, keys: tuple[str, ...], hook: Hook
) -> None:
    """Write rows in one transaction, in one of the ways that survive a repeated batch."""
    unique = ", UNIQUE (window_start, key)" if kind == "upsert" else ""
    database.execute("BEGIN IMMEDIATE")
    database.execute(f"CREATE TABLE IF NOT EXISTS {name} (batch, window_start, key, row{unique})")
    database.execute("CREATE TABLE IF NOT EXISTS versions (application PRIMARY KEY, version)")
    known = database.execute("SELECT version FROM versions WHERE application = ?", (name,)).fetchone()
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
        "INSERT INTO versions VALUES (?, ?) ON CONFLICT (application) DO UPDATE SET version = excluded.version", (name, batch_id)
    )
    hook("inside")
    database.execute("COMMIT")


def written(kind: str, target: Path, name: str) -> list[Row]:
    """Return all rows of an output, each with the number of its batch."""
    if kind in ("parquet", "overwrite"):
        folders = sorted((target / name).glob("batch=*"))
        files = [(int(folder.name[6:]), file) for folder in folders for file in sorted(folder.glob("*.parquet"))]
        return [{"batch": number, **row} for number, file in files for row in rows_of(pq.ParquetFile(file).read())]
    if not (target / "target.db").exists():
        return []
    with closing(sqlite3.connect(target / "target.db")) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone():
            return []
        return [{"batch": batch, **json.loads(row)} for batch, row in database.execute(f"SELECT batch, row FROM {name}")]
