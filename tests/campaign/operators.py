"""Operators on keys whose results tell every tuple that is missing, twice or out of order."""

from typing import Any

import numpy as np
import pyarrow as pa


class Numbered:
    """Counts the windows of a key, and returns the tuples of each."""

    def open(self, key: Any) -> Any:
        """Start with no windows."""
        return np.zeros(1, np.int64)

    def process(self, state: Any, rows: pa.Table) -> Any:
        """Count one more window."""
        return state + 1, {"number": [int(state[0])], "ids": [rows["id"].to_pylist()]}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the results."""
        return pa.schema([("number", pa.int64()), ("ids", pa.list_(pa.int64()))])


class Running:
    """Numbers the tuples of a key, and adds up a column."""

    def open(self, key: Any) -> Any:
        """Start with nothing."""
        return np.zeros(2, np.int64)

    def process(self, state: Any, rows: pa.Table) -> Any:
        """Continue with some more tuples."""
        totals = state[1] + np.cumsum(rows["c"].to_numpy())
        numbers = state[0] + np.arange(len(totals))
        after = np.array([state[0] + len(totals), totals[-1] if len(totals) else state[1]], np.int64)
        return after, {"number": numbers, "id": rows["id"], "total": totals}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the results."""
        return pa.schema([("number", pa.int64()), ("id", pa.int64()), ("total", pa.int64())])
