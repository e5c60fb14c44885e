"""The same work with Spark's own keyed state: transformWithStateInPandas and applyInPandasWithState, as their documentation shows them.

The last quotes of a key are one binary value, which is faster than a list; windows are fitted by the same compiled loop, so only what is
around it differs.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from skytide_lab.trading import AlgoTrader

SLIDE = 25
STATE = "total bigint, tail binary"


def step(work: str, length: int, key: str, state: tuple[int, bytes], rows: pd.DataFrame) -> tuple[tuple[int, bytes], pd.DataFrame]:
    """Return the state after the next quotes of a key, and the results."""
    total, tail = state
    rows = rows.sort_values(["ts", "price"])
    new = np.column_stack([rows["ts"].to_numpy().astype("datetime64[us]").astype(np.int64), rows["price"].to_numpy()])
    if work == "totals":
        sums = np.frombuffer(tail) if tail else np.zeros(2)
        sums = np.array([sums[0] + len(new), sums[1] + new[:, 1].sum()])
        return (total, sums.tobytes()), pd.DataFrame({"symbol": [key], "total": [new[:, 1].sum()], "so_far": [sums[1]]})
    whole = np.concatenate([np.frombuffer(tail).reshape(-1, 2), new])
    before = total - (len(whole) - len(new))
    total += len(new)
    first = max(-(-(total - len(new) - length + 1) // SLIDE), 0)
    starts = np.arange(first, (total - length) // SLIDE + 1) * SLIDE if total >= length else np.empty(0, np.int64)
    begins = (starts - before).astype(np.int64)
    table = pa.table({"ts": pa.array(whole[:, 0].astype(np.int64), pa.timestamp("us")), "price": whole[:, 1]})
    if work == "fit":
        found = AlgoTrader().process_windows(table, begins, begins + length)[0].to_pandas()[["predicted"]]
    else:
        found = pd.DataFrame({"mean": [whole[begin : begin + length, 1].mean() for begin in begins]})
    found.insert(0, "row_start", starts)
    found.insert(0, "symbol", key)
    return (total, whole[-(length - 1) :].tobytes()), found


SCHEMAS = {
    "fit": "symbol string, row_start bigint, predicted double",
    "mean": "symbol string, row_start bigint, mean double",
    "totals": "symbol string, total double, so_far double",
}


class Processor(StatefulProcessor):
    """The work, for transformWithStateInPandas."""

    def __init__(self, work: str, length: int) -> None:
        self.work, self.length = work, length

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.value = handle.getValueState("value", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        known = self.value.get() if self.value.exists() else (0, b"")
        state, found = step(self.work, self.length, key[0], (known[0], bytes(known[1])), pd.concat(list(rows)))
        self.value.update(state)
        yield found

    def close(self) -> None:
        pass


def transform_with_state(quotes: DataFrame, work: str, length: int) -> DataFrame:
    """Return the results by transformWithStateInPandas."""
    return quotes.groupBy("symbol").transformWithStateInPandas(
        Processor(work, length), outputStructType=SCHEMAS[work], outputMode="Append", timeMode="None"
    )


def apply_with_state(quotes: DataFrame, work: str, length: int) -> DataFrame:
    """Return the results by applyInPandasWithState."""

    def run(key: Any, rows: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        known = state.get if state.exists else (0, b"")
        after, found = step(work, length, key[0], (known[0], bytes(known[1])), pd.concat(list(rows)))
        state.update(after)
        yield found

    return quotes.groupBy("symbol").applyInPandasWithState(run, SCHEMAS[work], STATE, "append", GroupStateTimeout.NoTimeout)
