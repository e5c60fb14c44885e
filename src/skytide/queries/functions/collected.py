"""Sketches and a user's own aggregates: what is kept are states, as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skytide.queries.functions.function import AggregateFunction, Parts, Reduction
from skytide.queries.groups import Groups
from skytide.queries.mergeable import Mergeable

if TYPE_CHECKING:
    from skytide.queries.measure import Measure


@dataclass(frozen=True)
class Collected(AggregateFunction):
    """The function that a mergeable aggregate is."""

    mergeable: Mergeable[Any]
    name: str

    parts = ("state",)
    keeps_type = True

    def check(self, measure: Measure, values: pa.DataType) -> None:
        """Refuse what the aggregate refuses."""
        self.mergeable.kind(values)

    def of_values(self, values: pa.ChunkedArray | None, times: pa.ChunkedArray | None, groups: Groups) -> Reduction:
        """Add values to states."""
        states = self.mergeable.states_of(values, groups)
        return Reduction(keep=lambda _: {"state": states})

    def of_parts(self, parts: Parts, values: pa.DataType | None, groups: Groups) -> Reduction:
        """Merge states."""
        states = self.mergeable.merged(parts["state"], groups)
        return Reduction(keep=lambda _: {"state": states})

    def result(self, parts: Parts, values: pa.DataType | None, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the result of each state."""
        return self.mergeable.results(parts["state"], values)
