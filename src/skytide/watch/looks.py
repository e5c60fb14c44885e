"""What one look at something that runs tells: records that pages and metrics are made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skytide.records import Status, WindowRow

OVER = ("stopped", "failed")
"""The states after which nothing comes any more."""


@dataclass(frozen=True)
class Points:
    """The result of the latest window, where rows are compared by two columns."""

    columns: tuple[str, str]
    rows: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class QueryLook:
    """A continuous query at a time."""

    at_s: float
    status: Status
    windows: tuple[WindowRow, ...] = ()
    """The latest that came out, oldest first."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Where the time of all batches went so far, by step."""
    trigger_s: float | None = None
    state: str = "running"
    """starting, running, idle, stopping, stopped or failed."""
    why: str = ""
    points: Points | None = None


@dataclass(frozen=True)
class Subject:
    """Something to look at."""

    id: str
    kind: str
    """"query", "scaler" or "fleet"."""
    name: str
    about: str
    """What it does, in a line."""
    look: Callable[[], Any]
    """Return a look of its kind; may fail when what it looks at is gone."""
    actions: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    """What people may ask of it."""
