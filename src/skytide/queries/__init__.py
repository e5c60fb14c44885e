"""What is asked: preferences, and queries with what they keep of a pane and what they answer for a window."""

from skytide.queries.aggregate import Aggregate, Measure
from skytide.queries.columns import Nulls
from skytide.queries.dominant import KDominant, TopDelta
from skytide.queries.parse import parse_preferences
from skytide.queries.preference_query import PreferenceQuery
from skytide.queries.preferences import Preference, combine, diff, high, low
from skytide.queries.query import Query
from skytide.queries.skyline import Levels, Skyband, Skyline
from skytide.queries.sliding import Incremental, Recompute, Sliding, sliding_memory
from skytide.queries.top_k import TopK

__all__ = [
    "Aggregate",
    "Incremental",
    "KDominant",
    "Levels",
    "Measure",
    "Nulls",
    "Preference",
    "PreferenceQuery",
    "Query",
    "Recompute",
    "Skyband",
    "Skyline",
    "Sliding",
    "TopDelta",
    "TopK",
    "combine",
    "diff",
    "high",
    "low",
    "parse_preferences",
    "sliding_memory",
]
