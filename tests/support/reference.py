"""Slow, obvious twins of the fast paths: straight from the definitions, row by row."""

from operator import le, lt
from typing import Any

import numpy as np

from skytide.queries.preferences import Attribute, Pareto, Preference, Prioritised

Row = dict[str, Any]


def dominates(a: Any, b: Any) -> bool:
    return all(map(le, a, b)) and any(map(lt, a, b))


def rows_of(points: Any) -> list[tuple[Any, ...]]:
    """Return points as tuples of Python's own numbers, which are compared quickly."""
    return [tuple(point) for point in (points.tolist() if isinstance(points, np.ndarray) else points)]


def skyline(points: Any) -> list[bool]:
    rows = rows_of(points)
    return [not any(dominates(other, row) for other in rows) for row in rows]


def skyline_in_plane(points: list[list[float]]) -> list[bool]:
    """Return the skyline of many points with two columns: a point is best if it is the lowest of its x, and lower than all with a smaller x."""
    lowest: dict[float, float] = {}
    for x, y in points:
        lowest[x] = min(y, lowest.get(x, y))
    before, bound = {}, float("inf")
    for x in sorted(lowest):
        before[x], bound = bound, min(bound, lowest[x])
    return [y == lowest[x] and y < before[x] for x, y in points]


def dominators(points: Any) -> list[int]:
    rows = rows_of(points)
    return [sum(dominates(other, row) for other in rows) for row in rows]


def levels(points: Any) -> list[int]:
    rows = rows_of(points)
    found = [0] * len(rows)
    left, level = set(range(len(rows))), 0
    while left:
        level += 1
        best = {i for i in left if not any(dominates(rows[j], rows[i]) for j in left)}
        for i in best:
            found[i] = level
        left -= best
    return found


def k_dominates(a: Any, b: Any, k: int) -> bool:
    """Return whether there are k columns in which a is nowhere worse, and better in one of them."""
    no_worse = sum(x <= y for x, y in zip(a, b, strict=True))
    return no_worse >= k and any(x < y for x, y in zip(a, b, strict=True))


def smallest_k(points: Any) -> list[int]:
    """Return the smallest k at which a point is in the k-dominant skyline; d + 1 for one that is not in the skyline."""
    rows = rows_of(points)
    d = len(rows[0]) if rows else 0
    return [next((k for k in range(1, d + 1) if not any(k_dominates(other, row, k) for other in rows)), d + 1) for row in rows]


def better(preference: Preference, a: Row, b: Row) -> bool:
    """Return whether row a is better than row b: the definition of each kind of preference, followed literally."""
    if isinstance(preference, Attribute):
        x, y = a[preference.what], b[preference.what]
        return {"low": x < y, "high": x > y, "diff": False}[preference.kind]
    if isinstance(preference, Pareto):
        no_worse = all(better(part, a, b) or equal(part, a, b) for part in preference.parts)
        return no_worse and any(better(part, a, b) for part in preference.parts)
    assert isinstance(preference, Prioritised)
    first, rest = preference.parts[0], preference.parts[1:]
    following = Prioritised(rest) if len(rest) > 1 else rest[0]
    return better(first, a, b) or (equal(first, a, b) and better(following, a, b))


def equal(preference: Preference, a: Row, b: Row) -> bool:
    return all(a[attribute.what] == b[attribute.what] for attribute in preference.attributes())


def best_rows(preference: Preference, rows: list[Row]) -> list[Row]:
    return [row for row in rows if not any(better(preference, other, row) for other in rows)]
