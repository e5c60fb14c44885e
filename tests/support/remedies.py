"""Queries that end with an error, and go on with their checkpoint after somebody followed the remedy."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from skytide.errors import SkytideError
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows
from support.engine import COLUMNS, InProcess, Outputs, Plan, micros, tuples

WINDOWS = Windows(200, 200)
TIMES = [[[10, 60, 110]], [[160, 210, 260]], [[310, 360, 410]], [[460, 610]], [[620, 810]]]
BAD = (3, 4, 5, 6, 7)  # all of a window, and one of the window before: in two batches
Data = list[list[pa.Table]]
Row = dict[str, Any]


def stream(**bad: Any) -> Data:
    """Return a stream whose rows are told apart by their `id`; some have another value in a column."""

    def part(plain: pa.Table) -> pa.Table:
        ids = plain["id"].to_pylist()
        columns = {"ts": plain["ts"].to_pylist(), "a": [each % 2 for each in ids], "b": [float(each) for each in ids], "id": ids}
        for name, value in bad.items():
            columns[name] = [value if each in BAD else known for each, known in zip(ids, columns[name], strict=True)]
        return pa.table(columns, COLUMNS)

    return [[part(each) for each in batch] for batch in tuples(TIMES)]


def rows_of(data: Data) -> list[Row]:
    return [row | {"ts": micros(row["ts"])} for batch in data for part in batch for row in part.to_pylist()]


def until_it_ends(plan: Plan, out: Outputs, data: Data, match: str, kind: type[Exception] = SkytideError) -> int:
    """Run a query until it ends with an error, and return the batch in which it did."""
    engine, at = Engine(*plan, out.sinks), 0
    with pytest.raises(kind, match=match):
        for at, batch in enumerate(data):
            engine.run_batch(InProcess(), batch, at)
        engine.flush(InProcess())
    plan.store.release()
    assert at > 0  # so there is something to go on from
    return at


def goes_on(plan: Plan, out: Outputs, data: Data, first: int) -> None:
    """Start a query again, with the batch that failed and all after it."""
    engine = Engine(*plan, out.sinks)
    engine.finish_flush(InProcess())
    for number in range(first, len(data)):
        engine.run_batch(InProcess(), data[number], number)
    engine.flush(InProcess())
    plan.store.release()


def by_window(rows: list[Row], answer: Callable[[list[Row]], Any]) -> dict[int, Any]:
    windows: dict[int, list[Row]] = {}
    for row in rows:
        windows.setdefault(row["ts"] // 200 * 200, []).append(row)
    return {start: found for start, mine in sorted(windows.items()) if (found := answer(mine))}


def found_in(out: Outputs, *names: str) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for row in out.results.rows():
        found.setdefault(micros(row["window_start"]), set()).add(tuple(row[name] for name in names))
    return found
