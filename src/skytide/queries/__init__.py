"""Preferences and queries: what a query keeps of a pane, and how it answers a window."""

from skytide.queries.aggregate import Aggregate
from skytide.queries.blocks import Blocks
from skytide.queries.columns import Nulls
from skytide.queries.dominant import KDominant, TopDelta
from skytide.queries.identity import Identity
from skytide.queries.incremental import Incremental
from skytide.queries.measure import Measure, collect
from skytide.queries.memory import Answers, Panes
from skytide.queries.mergeable import Mergeable
from skytide.queries.over import Over
from skytide.queries.parse import parse_preferences
from skytide.queries.preference_query import PreferenceQuery
from skytide.queries.preferences import PREFERENCES, Expression, Preference, combine, diff, high, low
from skytide.queries.query import Query
from skytide.queries.queryable import QUERIES, Queryable
from skytide.queries.sketches import Distinct, Quantile
from skytide.queries.skyline import Levels, Skyband, Skyline
from skytide.queries.top_k import TopK

__all__ = [
    "PREFERENCES",
    "QUERIES",
    "Aggregate",
    "Answers",
    "Blocks",
    "Distinct",
    "Expression",
    "Identity",
    "Incremental",
    "KDominant",
    "Levels",
    "Measure",
    "Mergeable",
    "Nulls",
    "Over",
    "Panes",
    "Preference",
    "PreferenceQuery",
    "Quantile",
    "Query",
    "Queryable",
    "Skyband",
    "Skyline",
    "TopDelta",
    "TopK",
    "collect",
    "combine",
    "diff",
    "high",
    "low",
    "parse_preferences",
]
