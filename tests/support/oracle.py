"""What must come out of a stream, from the definitions alone: it shares no code with the engine it judges.

Tuples are plain rows (dicts) with their time in microseconds, and an answer is a function from the rows of a window to rows. Everything is
computed again for every window, from all of its tuples: slow, and obvious.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum
from typing import Any

import numpy as np
import pyarrow as pa

Row = dict[str, Any]
Ask = Callable[[list[Row]], list[Row]]
Preference = tuple[str, str]
"""("low" | "high" | "diff", column)."""


@dataclass(frozen=True)
class Window:
    """A window that must come out: how many tuples fell into it, and its answer."""

    tuples: int
    rows: list[Row]


def rows_of(table: pa.Table) -> list[Row]:
    """Return the rows of a table, with times in microseconds.

    >>> rows_of(pa.table({"ts": pa.array([7], pa.timestamp("us", "UTC"))}))
    [{'ts': 7}]
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(place, field.name, table[field.name].cast(pa.timestamp("us", field.type.tz)).cast(pa.int64()))
    return table.to_pylist()


def windows_of(tuples: Iterable[Row] | pa.Table, length_us: int, slide_us: int, ask: Ask, time: str = "ts") -> dict[int, Window]:
    """Return every window by its start, from the first that holds a tuple to the last, empty ones between them included.

    A window begins at every multiple of the slide since 1970 and is half-open: `start <= time < start + length`.

    >>> found = windows_of([{"ts": 5}, {"ts": 31}], 10, 10, lambda rows: rows)
    >>> {start: window.tuples for start, window in found.items()}
    {0: 1, 10: 0, 20: 0, 30: 1}
    """
    rows = sorted(rows_of(tuples) if isinstance(tuples, pa.Table) else tuples, key=lambda row: row[time])
    if not rows:
        return {}
    times = [row[time] for row in rows]
    first = times[0] // slide_us * slide_us
    while first - slide_us + length_us > times[0]:
        first -= slide_us
    found = {}
    for start in range(first, times[-1] + 1, slide_us):
        inside = rows[bisect_left(times, start) : bisect_left(times, start + length_us)]
        found[start] = Window(len(inside), ask(inside) if inside else [])
    return found


def accepted(tuples: Iterable[Row], *dropped: Iterable[Row]) -> list[Row]:
    """Return the tuples that must be in windows: all but those in a side output, each of which must have come.

    Which tuples are late depends on where batches end. So a test accepts those that were reported as late, and all others must be there.

    >>> accepted([{"ts": 1}, {"ts": 2}, {"ts": 2}], [{"ts": 2}])
    [{'ts': 1}, {'ts': 2}]
    >>> accepted([{"ts": 1}], [{"ts": 3}])
    Traceback (most recent call last):
    ...
    AssertionError: dropped, but never came: ["[('ts', 3)]"]
    """
    away = multiset(row for side in dropped for row in side)
    left = []
    for row in tuples:
        if away[(key := str(sorted(row.items())))]:
            away[key] -= 1
        else:
            left.append(row)
    if away.total():
        raise AssertionError(f"dropped, but never came: {list(away.elements())}")
    return left


def multiset(rows: Iterable[Row]) -> Counter[str]:
    """Return rows in a form that can be compared, whatever their order and that of their columns."""
    return Counter(str(sorted(row.items())) for row in rows)


def skyline(*preferences: Preference) -> Ask:
    """Return a query for the rows that no other dominates.

    >>> skyline(("low", "a"), ("high", "b"))([{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 2, "b": 2}])
    [{'a': 1, 'b': 1}, {'a': 2, 'b': 2}]
    """
    return skyband(1, *preferences)


def skyband(k: int, *preferences: Preference) -> Ask:
    """Return a query for the rows that fewer than k others dominate."""
    return lambda rows: [row for row, count in zip(rows, _dominates(rows, preferences).sum(axis=0), strict=True) if count < k]


def levels(up_to: int, *preferences: Preference) -> Ask:
    """Return a query for the skyline with level 1, the skyline of the rest with level 2, and so on."""

    def ask(rows: list[Row]) -> list[Row]:
        found: list[Row] = []
        for level in range(1, up_to + 1):
            best = skyline(*preferences)(rows)
            found += [{**row, "level": level} for row in best]
            rows = [row for row in rows if not any(row is other for other in best)]
        return found

    return ask


def k_dominant(k: int, *preferences: Preference) -> Ask:
    """Return a query for the rows that no other beats in any k columns: nowhere worse in k of them, and better in one of those."""
    return lambda rows: [row for row, beaten in zip(rows, _dominates(rows, preferences, k).any(axis=0), strict=True) if not beaten]


def top_k(k: int, *by: Preference) -> Ask:
    """Return a query for the k best rows, by the first column first, and those that tie with the last of them.

    >>> top_k(2, ("high", "a"))([{"a": 7}, {"a": 9}, {"a": 8}, {"a": 8}])
    [{'a': 9}, {'a': 8}, {'a': 8}]
    """

    def score(row: Row) -> tuple[Any, ...]:
        return tuple(row[column] if kind == "low" else -row[column] for kind, column in by)

    def ask(rows: list[Row]) -> list[Row]:
        ordered = sorted(rows, key=score)
        return [row for row in ordered if len(ordered) <= k or score(row) <= score(ordered[k - 1])]

    return ask


def aggregate(measures: Sequence[tuple[str, str, str]], keys: Sequence[str] = (), time: str = "ts") -> Ask:
    """Return a query for aggregates (function, column, name), as SQL defines them, by keys.

    >>> aggregate([("sum", "a", "total"), ("last", "a", "latest")])([{"ts": 2, "a": 5}, {"ts": 1, "a": 7}, {"ts": 3, "a": None}])
    [{'total': 12, 'latest': 5}]
    """

    def ask(rows: list[Row]) -> list[Row]:
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
        return [
            dict(zip(keys, group, strict=True))
            | {name: _measure(function, column, mine, time) for function, column, name in measures}
            for group, mine in groups.items()
        ]

    return ask


def of_each_key(ask: Ask, keys: Sequence[str], time: str = "ts", order: Sequence[str] = ()) -> Ask:
    """Return a query for what another one answers for the tuples of each key; the keys are columns of it.

    Tuples are in order of time, then of the columns of `order`, in which NULL comes first, then of id.

    >>> of_each_key(running("a"), ["g"])([{"ts": 2, "id": 1, "a": 5, "g": "x"}, {"ts": 1, "id": 2, "a": 7, "g": "x"}])
    [{'g': 'x', 'number': 0, 'id': 2, 'total': 7}, {'g': 'x', 'number': 1, 'id': 1, 'total': 12}]
    """

    def place(row: Row) -> tuple[Any, ...]:
        return row[time], *((row[name] is not None, row[name] or 0) for name in order), row["id"]

    def answer(rows: list[Row]) -> list[Row]:
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in sorted(rows, key=place):
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
        return [{**dict(zip(keys, key, strict=True)), **found} for key, mine in groups.items() for found in ask(mine)]

    return answer


def numbered_by_count(length: int, slide: int, time: str = "ts") -> Ask:
    """Return a query for the windows of `length` rows, one every `slide`, each with its number and its ids."""
    return lambda rows: [
        {
            "row_start": begin,
            "row_end": begin + length,
            "window_start": rows[begin][time],
            "window_end": rows[begin + length - 1][time],
            "number": number,
            "ids": [row["id"] for row in rows[begin : begin + length]],
        }
        for number, begin in enumerate(range(0, len(rows) - length + 1, slide))
    ]


def numbered_by_time(length_us: int, slide_us: int, time: str = "ts") -> Ask:
    """Return a query for the windows of time that have rows, each with its number and its ids."""

    def ask(rows: list[Row]) -> list[Row]:
        windows = windows_of(rows, length_us, slide_us, lambda inside: inside, time)
        filled = [(start, window.rows) for start, window in windows.items() if window.tuples]
        return [
            {"window_start": start, "window_end": start + length_us, "number": number, "ids": [row["id"] for row in inside]}
            for number, (start, inside) in enumerate(filled)
        ]

    return ask


def running(column: str) -> Ask:
    """Return a query for each row, with its number and the sum of a column so far."""

    def ask(rows: list[Row]) -> list[Row]:
        totals = accumulate(row[column] for row in rows)
        return [
            {"number": number, "id": row["id"], "total": total}
            for number, (row, total) in enumerate(zip(rows, totals, strict=True))
        ]

    return ask


def _measure(function: str, column: str, rows: list[Row], time: str) -> Any:
    if column == "*":
        return len(rows)
    timed = [(row[time], row[column]) for row in rows if row[column] is not None]
    values = [value for _, value in timed]
    if function == "count":
        return len(values)
    if not values:
        return None
    whole = all(isinstance(value, int) for value in values)
    total = sum(values) if whole else fsum(values)
    return {
        "sum": total,
        "avg": total / len(values),
        "min": min(values),
        "max": max(values),
        "first": min(timed)[1],  # of several at one time the smallest value, so that it does not depend on their order
        "last": max(timed)[1],
    }[function]


def _dominates(rows: list[Row], preferences: Sequence[Preference], k: int | None = None) -> np.ndarray:
    """Return a matrix: whether row i dominates row j (in some k columns, if given), within groups of equal "diff" columns."""
    compared = [(kind, column) for kind, column in preferences if kind != "diff"]
    points = [np.array([row[column] if kind == "low" else -row[column] for row in rows]) for kind, column in compared]
    no_worse = sum((x[:, None] <= x[None, :]).astype(int) for x in points)
    better = sum((x[:, None] < x[None, :]).astype(int) for x in points)
    found = (no_worse >= (len(compared) if k is None else k)) & (better > 0)
    for kind, column in preferences:
        if kind == "diff":
            found &= np.array([[one[column] == other[column] for other in rows] for one in rows])
    return np.asarray(found)
