"""Windows from panes: the memory of closed panes, and the answer of each window."""

from skytide.queries.incremental import ALIVE, Incremental
from skytide.queries.memory import PANE, Answers, Panes, Sliding
from skytide.queries.query import Query
from skytide.queries.recompute import Recompute

__all__ = ["ALIVE", "PANE", "Answers", "Incremental", "Panes", "Recompute", "Sliding", "sliding_memory"]


def sliding_memory(query: Query, threads: int = 1) -> Sliding:
    """Return the cheapest memory for a query, which may use so many threads."""
    return Recompute(query) if query.skyline_inside() is None else Incremental(query, threads)
