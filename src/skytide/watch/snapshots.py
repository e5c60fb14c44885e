"""Snapshots of what runs: the records that pages and metrics are made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from skytide.loop.cycle import Cycle
from skytide.records import QueryState, ScalerStatus, ScalingEvent, Status, WindowRow
from skytide.records.fleet import FleetStatus, SplitStatus

OVER: tuple[QueryState, ...] = ("stopped", "failed")
"""The states after which nothing more comes."""


@dataclass(frozen=True)
class Points:
    """The result of the latest window, where rows are compared by two columns."""

    columns: tuple[str, str]
    rows: tuple[tuple[float, float], ...]
    undrawn: int = 0
    """Rows in which one of the two is NULL or not finite."""


@dataclass(frozen=True)
class QuerySnapshot:
    """A continuous query at one moment."""

    at_s: float
    status: Status
    windows: tuple[WindowRow, ...] = ()
    """The latest windows that came out, oldest first."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Where the time of all batches went so far, by step."""
    trigger_s: float | None = None
    state: QueryState = "running"
    why: str = ""
    points: Points | None = None


@dataclass(frozen=True)
class ScalerAbout:
    """How an auto-scaler was set up."""

    controller: str
    limits: str
    maximum: int
    interval_s: float


@dataclass(frozen=True)
class ScalerSnapshot:
    """An auto-scaler at one moment."""

    at_s: float
    about: ScalerAbout
    status: ScalerStatus
    cycles: tuple[Cycle, ...] = ()
    """The latest cycles, oldest first."""
    events: tuple[ScalingEvent, ...] = ()


@dataclass(frozen=True)
class StreamRow:
    """A stream of a fleet."""

    name: str
    split: int
    rate_hz: float
    expected_hz: float
    buffered: int
    suspended: bool = False
    missing: bool = False


@dataclass(frozen=True)
class FleetSnapshot:
    """A fleet at one moment."""

    at_s: float
    status: FleetStatus
    splits: tuple[SplitStatus, ...] = ()
    streams: tuple[StreamRow, ...] = ()
    """Those with the highest rates, and those that are suspended or missing; not all."""
    over: bool = False
    """Whether the query that reads it has ended."""


@dataclass(frozen=True)
class Subject:
    """Something to watch."""

    id: str
    kind: Literal["query", "scaler", "fleet"]
    name: str
    about: str
    """What it does, in one line."""
    snapshot: Callable[[], Any]
    """Returns a snapshot of its kind; if it fails, the next one may succeed."""
    actions: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    """What people may ask of it."""
