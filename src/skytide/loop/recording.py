"""Observations as a table, one column per field: what an auto-scaler saw can be kept, and replayed to another controller later."""

import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skytide.errors import InvalidInput
from skytide.records import Allocation, MicroBatch, Observation

_LOADS = pa.list_(pa.struct([("worker", pa.string()), ("load", pa.float64())]))
_BATCH = pa.struct([(field.name, pa.int64() if field.name == "tasks" else pa.float64()) for field in fields(MicroBatch)])
_WHOLE = ("workers", "pane_slots", "window_slots")
_PARTS = tuple(field.name for field in fields(Allocation))
_OWN = tuple(field.name for field in fields(Observation) if field.name != "allocation")


def _type(name: str) -> pa.DataType:
    nested = {"loads": _LOADS, "batch": _BATCH, "frequencies_ghz": pa.list_(pa.float64()), "shares_workers": pa.bool_()}
    return nested.get(name) or (pa.int64() if name in _WHOLE else pa.float64())


SCHEMA = pa.schema([(name, _type(name)) for name in ("at_s", "interval_s", *_PARTS, *_OWN[2:])])

_FIRST = ("at_s", "interval_s", "workers")


def to_table(seen: Sequence[Observation]) -> pa.Table:
    """Return observations as a table.

    >>> row = Observation(60, 10, Allocation(2), 900, 800, utilisation=1.1, loads=(("1", 0.5),), frequencies_ghz=(1.2, 3.5))
    >>> from_table(to_table([row])) == [row]
    True
    """
    return pa.Table.from_pylist([_row(observation) for observation in seen], SCHEMA)


def from_table(table: pa.Table) -> list[Observation]:
    """Return the observations of a table; optional columns may be missing, and unknown ones are ignored."""
    needed = ("at_s", "interval_s", "workers", "arrival_rate_hz", "processed_rate_hz", "utilisation")
    for name in needed:
        if name not in table.column_names or table[name].null_count:
            raise InvalidInput(
                value=f"column {name}",
                reason="a recording needs it, in every row",
                remedy=f"give the columns {', '.join(needed)}, as `history().save(path)` of an auto-scaler does",
            )
    names = [name for name in SCHEMA.names if name in table.column_names]
    return [_observation(row) for row in table.select(names).to_pylist()]


def save(seen: Sequence[Observation], path: str | os.PathLike[str]) -> None:
    """Write observations to a Parquet file."""
    pq.write_table(to_table(seen), path)


def is_recording(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is one that `save` wrote, in this version or another."""
    try:
        names = pq.read_schema(path).names
    except (OSError, pa.ArrowInvalid):
        return False
    return names[: len(_FIRST)] == list(_FIRST) and "utilisation" in names


def load(path: str | os.PathLike[str]) -> list[Observation]:
    """Return the observations of a Parquet file."""
    try:
        return from_table(pq.read_table(path))
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInput(
            value=str(path), reason=f"cannot be read as Parquet ({error})", remedy="name a file that a recording was saved to"
        ) from error


def _row(seen: Observation) -> dict[str, Any]:
    row = {name: getattr(seen, name) for name in _OWN}
    row |= {"loads": [{"worker": worker, "load": load} for worker, load in seen.loads], "batch": seen.batch and asdict(seen.batch)}
    return {**row, **asdict(seen.allocation)}


def _observation(row: dict[str, Any]) -> Observation:
    parts = {name: row[name] for name in _PARTS if name in row}
    own = {name: row[name] for name in _OWN if row.get(name) is not None}
    own["loads"] = tuple((pair["worker"], pair["load"]) for pair in own.get("loads", ()))
    if own.get("batch"):
        own["batch"] = MicroBatch(**{name: value for name, value in own["batch"].items() if name in _BATCH.names})
    own["frequencies_ghz"] = tuple(own.get("frequencies_ghz", ()))
    return Observation(allocation=Allocation(**parts), **own)
