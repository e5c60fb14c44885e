"""A user's own aggregates, for tests."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from skytide import Mergeable


@dataclass(frozen=True)
class Span(Mergeable[tuple[float, float]]):
    """The distance between the smallest and the largest value."""

    def start(self) -> tuple[float, float]:
        return float("inf"), float("-inf")

    def add(self, state: tuple[float, float], values: pa.Array) -> tuple[float, float]:
        return self.merge(state, (pc.min(values).as_py(), pc.max(values).as_py()))

    def merge(self, state: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
        return min(state[0], other[0]), max(state[1], other[1])

    def finish(self, state: tuple[float, float]) -> float | None:
        return None if state[0] > state[1] else float(state[1] - state[0])

    def kind(self, values: pa.DataType) -> pa.DataType:
        return pa.float64()


@dataclass(frozen=True)
class Latest(Mergeable[list[object]]):
    """A guilty specimen: the value that was merged last, which depends on how rows were divided."""

    def start(self) -> list[object]:
        return []

    def add(self, state: list[object], values: pa.Array) -> list[object]:
        return [values[-1].as_py()]

    def merge(self, state: list[object], other: list[object]) -> list[object]:
        return other or state

    def finish(self, state: list[object]) -> object:
        return state[0] if state else None

    def kind(self, values: pa.DataType) -> pa.DataType:
        return values
