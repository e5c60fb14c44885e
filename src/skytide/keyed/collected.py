"""Collects results that come one by one into one table."""

from typing import Any

import numpy as np
import pyarrow as pa

from skytide.errors import SkytideError
from skytide.keyed.chunk import Numbers
from skytide.keyed.operator import Rows


class Collected:
    """Collects tables or dicts of columns, all with the expected columns; one table for each would cost more than most operators do."""

    def __init__(self, who: str, schema: pa.Schema, ignored: tuple[str, ...] = ()) -> None:
        """Expect the columns of a schema; `ignored` ones may come too."""
        self._who, self._schema, self._ignored = who, schema, ignored
        self._names = frozenset(schema.names)
        self._columns: dict[str, list[Any]] = {name: [] for name in schema.names}
        self._counts: list[int] = []

    def add(self, rows: Rows) -> None:
        """Add the rows of the next key or window."""
        names = rows.column_names if isinstance(rows, pa.Table) else rows
        if len(names) != len(self._names) or not self._names.issuperset(names):
            mine = [name for name in names if name not in self._ignored]
            if sorted(mine) != sorted(self._names):
                raise SkytideError(
                    f"process of {self._who} returned the columns {', '.join(mine)} instead of {', '.join(self._schema.names)}"
                )
        counts = set()
        for name, column in self._columns.items():
            values = rows[name]
            column.append(values)
            counts.add(len(values))
        if len(counts) > 1:
            raise SkytideError(f"process of {self._who} returned columns of different lengths")
        self._counts.append(counts.pop() if counts else 0)

    def table(self) -> tuple[pa.Table, Numbers]:
        """Return all rows, and how many each key or window had."""
        try:
            columns = [_joined(self._columns[field.name], field.type) for field in self._schema]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SkytideError(f"process of {self._who} returned columns of the wrong types: {error}") from error
        return pa.Table.from_arrays(columns, schema=self._schema), np.array(self._counts, np.int64)


def _joined(parts: list[Any], type_: pa.DataType) -> pa.ChunkedArray:
    """Return one column made of many short ones."""
    if parts and all(type(part) is np.ndarray and part.ndim == 1 for part in parts):  # masked arrays are joined by Arrow, as NULLs
        return pa.chunked_array([pa.array(np.concatenate(parts)).cast(type_)], type_)
    if any(isinstance(part, pa.Array | pa.ChunkedArray | np.ndarray) for part in parts):
        arrays = [part if isinstance(part, pa.Array | pa.ChunkedArray) else pa.array(part) for part in parts]
        chunks = [chunk for part in arrays for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
        return (
            pa.chunked_array([chunk.cast(type_) for chunk in chunks], type_).combine_chunks()
            if chunks
            else pa.chunked_array([], type_)
        )
    return pa.chunked_array([pa.array([value for part in parts for value in part], type_)], type_)
