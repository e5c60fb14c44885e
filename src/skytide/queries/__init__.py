"""What is asked: preferences, and queries with what they keep of a pane and what they answer for a window."""

from skytide.queries.columns import Nulls
from skytide.queries.dominant import KDominant, TopDelta
from skytide.queries.parse import parse_preferences
from skytide.queries.preference_query import PreferenceQuery
from skytide.queries.preferences import Preference, combine, diff, high, low
from skytide.queries.query import Query
from skytide.queries.skyline import Levels, Skyband, Skyline
from skytide.queries.top_k import TopK

__all__ = [
    "KDominant",
    "Levels",
    "Nulls",
    "Preference",
    "PreferenceQuery",
    "Query",
    "Skyband",
    "Skyline",
    "TopDelta",
    "TopK",
    "combine",
    "diff",
    "high",
    "low",
    "parse_preferences",
]
