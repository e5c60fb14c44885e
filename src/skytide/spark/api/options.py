"""The arguments of a start: two groups of them as objects, and the checks of all of them in one place."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal, TypeVar

from pyspark.sql import DataFrame

from skytide.batch import Pace
from skytide.errors import InvalidInput
from skytide.errors.checks import check_bool, check_integer, check_text, check_type, refused
from skytide.errors.limits import MAX_SLOTS
from skytide.routing import Splitting, strategy_of
from skytide.spark.api.checks import check_copied
from skytide.spark.api.folders import check_folders
from skytide.spark.checkpoint import place_of
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sinks.base import OnSpark, SideSink, Sink, SinkFunction
from skytide.spark.sinks.registry import side_sink_of, sink_of
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Duration, Windows, duration_us

AVAILABLE_NOW, AUTO = "availableNow", "auto"
Trigger = Literal["auto", "availableNow"] | Duration
SplittingName = Literal["auto", "IN_PLACE", "PB_RR", "TB_RR", "RATE", "AS", "AS_PID", "EVEN", "KEYS"]
UNREAD = "the fleet's invalid"
BATCH = "batch"  # the column that readers make of the folders of batches, which would hide another of that name
Group = TypeVar("Group", "Sides", "Parallelism")


@dataclass(frozen=True)
class Sides:
    """Sinks for what does not belong to the results: each is a sink, a function of (rows, sequence), or the path of a Parquet folder."""

    late: SideSink | None = None
    """Gets the tuples that were dropped."""
    windows: SideSink | None = None
    """Gets a row per window, or for each batch with results of an operator on keys."""
    invalid: SideSink | None = None
    """Gets the tuples that belong to no window."""


@dataclass(frozen=True)
class Parallelism:
    """How many tasks work at the same time, and how tuples get to them."""

    splitting: SplittingName | Splitting | None = None
    """How tuples get to the slots of the pane level (default: "auto")."""
    pane_slots: int | None = None
    """The tasks of the pane level; with "auto" the most of them."""
    window_slots: int | None = None
    """The most tasks of the window level at once, used as far as that pays (default: as many as there are cores)."""
    slots: int | None = None
    """The tasks that work on keys (default: one per core); without keys, those of the pane level."""


def one_form(argument: str, group: Group | None, single: Group) -> Group:
    """Return a group of arguments that was given as an object or one by one, but not both."""
    if group is None:
        return single
    check_type(
        argument,
        group,
        type(single),
        reason=f"not a skytide.{type(single).__name__}",
        remedy=f"pass skytide.{type(single).__name__}(...)",
    )
    given = [field.name for field in fields(single) if getattr(single, field.name) is not None]
    if given:
        reason = f"{given[0]} is given beside it"
        raise InvalidInput(
            value=f"{argument}={type(single).__name__}(...)", reason=reason, remedy=f"put {given[0]} into it, or leave it out"
        )
    return group


@dataclass(frozen=True)
class Timing:
    """When batches begin."""

    pace: Pace | None
    """What lets batches begin right after windows have ended, if that is wanted."""
    interval_us: int | None
    """The time between batches; None if everything that is there is read once."""

    @staticmethod
    def of(trigger: Any, flush: Any, windows: Windows) -> "Timing":
        """Return when batches begin; refuse a trigger that makes no sense."""
        remedy = 'pass an interval such as "500 ms", or "auto" or "availableNow"'
        check_type("trigger", trigger, (str, timedelta), reason="not a trigger", remedy=remedy)
        check_bool("flush", flush)
        if flush and trigger != AVAILABLE_NOW:
            reason = "an endless stream has no last window"
            raise InvalidInput(value="flush=True", reason=reason, remedy='use trigger="availableNow"')
        if trigger == AUTO:
            pace = Pace(windows)
            return Timing(pace, pace.interval_us)
        return Timing(None, None if trigger == AVAILABLE_NOW else duration_us(trigger, "trigger"))

    @property
    def unaligned_us(self) -> int | None:
        """The time between batches of a source that does not know when windows end."""
        return self.pace.unaligned_us if self.pace else self.interval_us


def checked_parallelism(given: Parallelism, spec: QuerySpec) -> Parallelism:
    """Refuse slots and splittings that make no sense; return those of the query's levels."""
    for name in ("pane_slots", "window_slots", "slots"):
        check_slots(name, getattr(given, name))
    if spec.step is None:
        splitting = None if given.splitting is None else strategy_of(given.splitting)
        if splitting is not None and splitting.key_routing() and not spec.query.routed_by():
            reason, remedy = "the query has no keys", 'give it some, as in aggregate("count(*)", keys="symbol"), or choose "RATE"'
            raise InvalidInput(value=f"splitting={splitting.name!r}", reason=reason, remedy=remedy)
        if given.slots is not None and given.pane_slots is not None:
            remedy = "leave one of the two out, which are the same without keys"
            raise refused("slots", given.slots, f"pane_slots={given.pane_slots} is given beside it", remedy)
        return replace(given, splitting=splitting, pane_slots=given.pane_slots or given.slots)
    for name in ("splitting", "pane_slots", "window_slots"):
        if getattr(given, name) is not None:
            reason = "an operator on keys has its tuples where their keys are"
            raise refused(name, getattr(given, name), reason, "leave it out, and pass slots=... for the tasks that work on keys")
    return given


def check_slots(name: str, slots: Any) -> None:
    """Refuse what is not a number of slots; None means that it is not given."""
    if slots is not None:
        check_integer(name, slots, 1, MAX_SLOTS)


def check_name(df: DataFrame, name: Any) -> None:
    """Refuse a name that is none, or that a query has already."""
    if name is not None:
        check_text("name", name, "best_hotels")
        if any(query.name == name for query in df.sparkSession.streams.active):
            raise refused("name", name, "a query of that name runs already", "choose another, or stop that one first")


def sinks_of(
    sink: Sink | SinkFunction | str,
    path: str | os.PathLike[str] | None,
    options: Mapping[str, str] | None,
    sides: Sides,
    on: OnSpark,
) -> Sinks:
    """Return the sinks that a start asks for, ready for its session; nothing is written."""
    results = sink_of(sink, path, on.spark, options)
    late, windows, invalid = (side_sink_of(getattr(sides, name), name) for name in ("late", "windows", "invalid"))
    for name, side in (("late", late), ("windows", windows), ("invalid", invalid)):
        if side is not None and sum(side is other for other in (results, late, windows, invalid)) > 1:
            reason = "the same object is the sink of something else, and its rows would be taken for those"
            raise InvalidInput(value=f"{name}={type(side).__name__}(...)", reason=reason, remedy="make another one for it")
    if results.stages_itself:
        check_copied("start", results)
    return Sinks(results, late, windows or results.windows_beside(), invalid).mapped(
        lambda role, made: made.on(on, "path" if role == "results" else role)
    )


def check_places(sinks: Sinks, spec: QuerySpec, checkpoint: Any, unread: str, on: OnSpark) -> None:
    """Refuse folders that would get in each other's way, and columns that would be hidden there, before anything is written."""
    arguments = {("path" if role == "results" else role): sink.uri for role, sink in sinks.by_role().items()}
    arguments |= {UNREAD: unread, "checkpoint": place_of(on.spark, checkpoint, "checkpoint").uri}
    columns = {"results": spec.results.names, "late": spec.rows.names, "invalid": spec.rows.names}
    for role, names in columns.items():
        sink = sinks.by_role().get(role)
        for column in (name for name in names if sink is not None and sink.owned is not None and name.lower() == BATCH):
            raise InvalidInput(
                value=f"column {column}",
                reason=f"the folder of {'sink' if role == 'results' else role} keeps its batches in folders of that name, which would hide it",
                remedy="rename it, a column before skytide.stream and a result with AS or in its operator, or pass a function as the sink",
            )
    check_folders({argument: uri for argument, uri in arguments.items() if uri})
