"""Snapshots of what runs on Spark, for pages and metrics."""

from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from skytide.records.fleet import FleetStatus
from skytide.spark.clock import time_of_day
from skytide.watch.snapshots import OVER, FleetSnapshot, ScalerAbout, ScalerSnapshot, StreamRow, Subject

EVENTS = 50
STREAMS = 20
ID_SHOWN = 8  # characters


class Watchable(Protocol):
    """What there is to see of something that runs."""

    def status(self) -> Any: ...


class ScalerHandle(Watchable, Protocol):
    """What there is to see of an auto-scaler, and what can be done about it."""

    def cycles(self) -> Any: ...
    def events(self) -> Any: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class FleetHandle(Watchable, Protocol):
    """What there is to see of a fleet."""

    settings: Any

    def splits(self) -> Any: ...
    def streams(self) -> pa.Table: ...


def scaler_subject(scaler: ScalerHandle, query: Any, about: ScalerAbout) -> Subject:
    """Return an auto-scaler as something to watch, pause and resume."""

    def snapshot() -> ScalerSnapshot:
        return ScalerSnapshot(time_of_day(), about, scaler.status(), tuple(scaler.cycles()), tuple(scaler.events()[-EVENTS:]))

    name = query.name or f"query {str(query.id)[:ID_SHOWN]}"
    does = f"{about.controller} every {about.interval_s:g} s: {about.limits}"
    return Subject(f"scaler-{query.id}", "scaler", name, does, snapshot, {"pause": scaler.pause, "resume": scaler.resume})


def fleet_subject(fleet: FleetHandle, run: Watchable | None = None) -> Subject:
    """Return a fleet as something to watch; if it is shown with a query that reads it, it ends with that."""

    latest = FleetSnapshot(0.0, FleetStatus())

    def snapshot() -> FleetSnapshot:
        nonlocal latest
        over = run is not None and run.status().state in OVER  # asked first: then what is seen is the last
        status = fleet.status()
        if status != latest.status:  # the streams may be many
            latest = FleetSnapshot(time_of_day(), status, tuple(fleet.splits()), streams_shown(fleet.streams()))
        return replace(latest, at_s=time_of_day(), over=over)

    return Subject(f"fleet-{fleet.settings.board}", "fleet", f"fleet {fleet.settings.place}", fleet.settings.schema, snapshot)


def streams_shown(streams: pa.Table) -> tuple[StreamRow, ...]:
    """Return the streams with the highest rates, and some of those that are not read.

    >>> names = pa.table({"stream": ["a", "b", "c"], "split": [0, 0, 1], "rate_hz": [1.0, 9.0, 0.0], "expected_hz": [1.0, 9.0, 0.0],
    ...     "buffered": [0, 5, 2], "suspended": [False, False, True], "missing": [False, False, False]})
    >>> [row.name for row in streams_shown(names)]
    ['b', 'a', 'c']
    """
    away = pc.or_(streams["suspended"], streams["missing"])
    fastest = streams.filter(pc.invert(away)).sort_by([("rate_hz", "descending"), ("stream", "ascending")])[:STREAMS]
    rows = pa.concat_tables([fastest, streams.filter(away)[:STREAMS]]).rename_columns({"stream": "name"}).to_pylist()
    return tuple(StreamRow(**row) for row in rows)
