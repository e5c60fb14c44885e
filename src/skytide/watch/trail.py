"""Points over time in bounded memory: the latest as they came, older ones more and more coarsely."""

from collections.abc import Mapping

Point = Mapping[str, float | None]
FINE = 1_200  # the latest points that are all kept


class Trail:
    """Points, oldest first. When there are too many, pairs of the older half become one point with the higher of both values: a burst stays visible.

    >>> trail = Trail(fine=2)
    >>> for second in range(1, 6):
    ...     changed = trail.add({"t": second, "rate": 9 if second == 2 else 1})
    >>> changed, trail.columns()
    (True, {'t': [2, 3, 4, 5], 'rate': [9, 1, 1, 1]})
    """

    def __init__(self, fine: int = FINE) -> None:
        """Start without points."""
        self._fine = fine
        self._points: list[Point] = []

    def add(self, point: Point) -> bool:
        """Add a point, and return whether older ones were merged."""
        self._points.append(point)
        if len(self._points) <= 2 * self._fine:
            return False
        old, new = self._points[: self._fine], self._points[self._fine :]
        self._points = [_together(*old[at : at + 2]) for at in range(0, len(old), 2)] + new
        return True

    def columns(self) -> dict[str, list[float | None]]:
        """Return the points as a list for each field."""
        names = dict.fromkeys(["t", *(name for point in self._points for name in point)])
        return {name: [point.get(name) for point in self._points] for name in names}

    def values(self, name: str, since_s: float = 0.0) -> list[float]:
        """Return the known values of a field since some time."""
        return [value for point in self._points if (point["t"] or 0) >= since_s and (value := point.get(name)) is not None]

    @property
    def latest(self) -> Point | None:
        """The latest point."""
        return self._points[-1] if self._points else None


def _together(first: Point, second: Point | None = None) -> Point:
    if second is None:
        return first
    names = dict.fromkeys((*first, *second))
    return {name: _higher(first.get(name), second.get(name)) for name in names}


def _higher(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)
