"""What is observed of an application with several queries."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skytide.records.scaling import Observation


@dataclass(frozen=True)
class ApplicationObservation(Observation):
    """All queries of an application together, over one interval.

    Rates and backlogs add up. The utilisation is that of the query that is nearest to its limit, with what executors do for the others.
    """

    queries: Mapping[str, Observation | None] = field(default_factory=dict)
    """What was observed of each query that runs, among the others; None: nothing new since the last interval."""
