"""What a continuous query is: said once, and handed on as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from skytide.batch import BatchRules, Keying
from skytide.keyed import KeyedStep, Tagged, TimeWindows
from skytide.lateness import Slack
from skytide.queries import Identity, Query
from skytide.queries.query import independent_groups
from skytide.spark.checkpoint import Store
from skytide.spark.engine.identity import check_same, check_versions, order_of, texts_of
from skytide.windows import Windows

BOUNDS = ("window_start", "window_end")


@dataclass(frozen=True)
class QuerySpec:
    """A continuous query: set at its start, the same for every batch."""

    query: Query
    time: str
    columns: pa.Schema
    """The columns of the tuples, as the query reads them."""
    windows: Windows
    slack: Slack
    helpers: tuple[str, ...] = ()
    """Columns that hold expressions, and do not go to the sink."""
    step: KeyedStep | None = None
    """What is done with the tuples of each key, if this is an operator on keys."""
    identity: Identity | None = None
    """The query as it was written, if expressions have become columns since."""
    late_wanted: bool = False
    """Whether late tuples are kept for a sink."""
    invalid_wanted: bool = False
    """Whether tuples that belong to no window are."""

    @cached_property
    def known_as(self) -> Identity:
        """The query as it was written."""
        return self.identity or self.query.identity()

    @cached_property
    def parted_by(self) -> tuple[str, ...]:
        """The columns by which the state is divided into parts: rows that differ there are independent of each other."""
        groups = () if self.step else independent_groups(self.query.of_groups() or self.query)
        kept = self.query.kept_schema(self.columns) if groups else pa.schema([])
        plain = all(name in kept.names and not pa.types.is_nested(kept.field(name).type) for name in groups)
        return groups if plain else ()

    @property
    def time_type(self) -> pa.DataType:
        """The type of the tuples' times, which the bounds of windows have, too."""
        return self.columns.field(self.time).type

    @property
    def rows(self) -> pa.Schema:
        """The columns of tuples, as they came."""
        return pa.schema([field for field in self.columns if field.name not in self.helpers])

    @property
    def results(self) -> pa.Schema:
        """The columns of the results."""
        return self.step.results if self.step else result_columns(self.query, self.columns, self.time_type, self.helpers)

    def texts(self) -> dict[str, str]:
        """Return what must not change between two starts with one checkpoint, as texts."""
        return texts_of(self.known_as, self.windows, self.step, self.time, self.columns, self.results)

    def continued(self, store: Store) -> QuerySpec:
        """Return the query with aggregates in the order in which a store has them; refuse the state of another query."""
        latest, now = store.latest(), self.texts()
        operator = self.step.operator if self.step else None
        upgrades = operator is not None and hasattr(operator.own, "upgrade")
        check_same(latest.identity, now, store.folder, upgrades=upgrades)
        if operator is not None and latest.keyed is not None and not upgrades:
            check_versions(operator, latest.keyed, store)
        order = order_of(latest.identity, now)
        return self if order is None else replace(self, query=self.query.arranged(order), identity=self.known_as.arranged(order))

    def seeded(self, seed: int) -> QuerySpec:
        """Return the query with the seed of a checkpoint for the hashes of keys, if it has keys to hash."""
        return replace(self, query=replace(self.query, seed=seed)) if isinstance(self.query, Tagged) else self

    def rules(self, *, key_slots: int = 1, seed: int = 0, **more: Any) -> BatchRules:
        """Return what its batches decide by; `key_slots` are those of an operator on keys."""
        of_time = self.step.windows if self.step else None
        windows = of_time.windows if isinstance(of_time, TimeWindows) else None
        keying = Keying(key_slots, windows=windows, seed=seed) if self.step else None
        return BatchRules(
            **{"can_spread": self.query.skyline_inside() is not None, "has_groups": bool(self.parted_by), "keying": keying, **more},
            windows=self.windows,
            slack=self.slack,
        )


def result_columns(query: Query, rows: pa.Schema, time_type: pa.DataType, helpers: tuple[str, ...] = ()) -> pa.Schema:
    """Return the columns of the results: the window's bounds, then the answer's, without helpers."""
    answer = [field for field in query.schema(rows) if field.name not in helpers]
    return pa.schema([*(pa.field(name, time_type) for name in BOUNDS), *answer])
