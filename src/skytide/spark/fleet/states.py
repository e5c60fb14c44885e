"""Where each stream of a fleet stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

WIDTH = 3
"""How many numbers a position has."""
PLACE = b"place"
NOWHERE = -1
"""The split of a stream that has none yet."""


def _numbers(*shape: int) -> NDArray[np.int64]:
    return np.zeros(shape, np.int64)


@dataclass(frozen=True)
class StreamStates:
    """All streams, one row each. It never changes: later states are another object."""

    names: tuple[str, ...] = ()
    at: NDArray[np.int64] = field(default_factory=lambda: _numbers(0, WIDTH))
    """Up to where each stream was let in."""
    identity: NDArray[np.int64] = field(default_factory=lambda: _numbers(0))
    head: NDArray[np.int64] = field(default_factory=lambda: _numbers(0))
    """A checksum of how a stream begins, which shows whether it was replaced; 0 if nothing is known."""
    tail: NDArray[np.int64] = field(default_factory=lambda: _numbers(0))
    """A checksum of what comes right before the position, for the same purpose; 0 if nothing is known."""
    split: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    suspended: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    behind: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Streams of which we kept something waiting."""
    away: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """For how many discoveries a stream has been missing: it keeps its position, as it may come back."""
    record: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """How long a record of a stream is, in the unit of positions; 0 if nothing is known."""
    place: int = 0
    """What distinguishes the folder of the streams from another one of the same name; 0 if nothing is known."""

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each stream."""
        return {name: row for row, name in enumerate(self.names)}

    def joined(self, names: Sequence[str]) -> "StreamStates":
        """Return these streams and more, which are at their very beginning."""
        if not names:
            return self
        more = len(names)
        return StreamStates(
            names=(*self.names, *names),
            at=np.vstack([self.at, _numbers(more, WIDTH)]),
            identity=np.append(self.identity, _numbers(more)),
            head=np.append(self.head, _numbers(more)),
            tail=np.append(self.tail, _numbers(more)),
            split=np.append(self.split, np.full(more, NOWHERE, np.int32)),
            suspended=np.append(self.suspended, np.zeros(more, np.bool_)),
            behind=np.append(self.behind, np.zeros(more, np.bool_)),
            away=np.append(self.away, np.zeros(more, np.int32)),
            record=np.append(self.record, np.zeros(more)),
            place=self.place,
        )

    def keeping(self, rows: NDArray[np.bool_]) -> "StreamStates":
        """Return only some of the streams."""
        if rows.all():
            return self
        names = tuple(name for name, kept in zip(self.names, rows.tolist(), strict=True) if kept)
        columns: dict[str, Any] = {name: values[rows] for name, values in self._columns().items()}
        return StreamStates(names, **columns, place=self.place)

    def with_(self, **values: Any) -> "StreamStates":
        """Return the streams with other values in some columns."""
        states = replace(self, **values)
        if "names" not in values:
            vars(states)["rows"] = self.rows  # which are the same
        return states

    def to_table(self) -> pa.Table:
        """Return the streams as a table."""
        columns = {name: pa.array(values) for name, values in self._columns().items() if name != "at"}
        table = pa.table({"name": pa.array(self.names, pa.string()), **positions_to_columns("at", self.at), **columns})
        return table.replace_schema_metadata({PLACE: str(self.place)})

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in StreamStates.__dataclass_fields__ if name not in ("names", "place")}

    @staticmethod
    def from_table(table: pa.Table) -> "StreamStates":
        """Return the streams of what `to_table` returned; in a table that an older version wrote, some columns are unknown."""
        columns = {name: np.array(table[name]) for name in StreamStates()._columns() if name in table.column_names}
        unknown = {"tail": _numbers(table.num_rows), "record": np.zeros(table.num_rows)}
        place = int((table.schema.metadata or {}).get(PLACE, b"0"))
        at = positions_from_columns("at", table)
        return StreamStates(tuple(table["name"].to_pylist()), at, **unknown | columns, place=place)


def positions_to_columns(name: str, positions: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return positions as columns of a table."""
    return {f"{name}{number}": np.ascontiguousarray(positions[:, number]) for number in range(WIDTH)}


def positions_from_columns(name: str, table: pa.Table) -> NDArray[np.int64]:
    """Return positions from what `positions_to_columns` returned."""
    return np.column_stack([np.array(table[f"{name}{number}"]) for number in range(WIDTH)]).reshape(-1, WIDTH)
