"""Looks at what runs on Spark, for pages and metrics."""

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skytide.queries.preference_query import PreferenceQuery
from skytide.records.fleet import FleetStatus
from skytide.spark.api.wording import short
from skytide.spark.clock import time_of_day
from skytide.watch.looks import OVER, FleetLook, Points, QueryLook, ScalerAbout, ScalerLook, StreamRow, Subject

if TYPE_CHECKING:
    from skytide.spark.api.run import Run
    from skytide.spark.engine.engine import Engine
    from skytide.spark.fleet import Fleet
    from skytide.spark.scaling import Scaler

MAX_POINTS = 2_000
EVENTS = 50
STREAMS = 20
ID_SHOWN = 8  # characters


def query_subject(run: "Run", engine: "Engine") -> Subject:
    """Return a continuous query as something to look at."""
    query, asked = run.query, engine.plan.identity()
    latest = _LatestPoints(engine)

    def look() -> QueryLook:
        status = run.status()
        return QueryLook(
            at_s=time_of_day(),
            status=status,
            windows=tuple(run.windows()),
            seconds=run.seconds(),
            trigger_s=engine.plan.rules.trigger_s,
            state=status.state,
            why=status.failure,
            points=latest.read(),
        )

    about = f"{short(asked['query'])} over windows of {asked['windows']}"
    return Subject(str(query.id), "query", query.name or f"query {str(query.id)[:ID_SHOWN]}", about, look)


class _LatestPoints:
    """The rows of the latest window, if two columns are compared; read again only when something came out."""

    def __init__(self, engine: "Engine") -> None:
        self._engine, self._columns = engine, _two_columns(engine)
        self._sequence, self._points = -1, None  # type: tuple[int, Points | None]

    def read(self) -> Points | None:
        if self._columns is None or self._engine.latest_output is None:
            return None
        sequence, output = self._engine.latest_output
        few = bool(output.rows) and output.rows[-1].kept <= MAX_POINTS
        if sequence != self._sequence and output.results and few:
            with contextlib.suppress(
                Exception
            ):  # files of earlier batches may be gone; how the query is doing is shown without a picture, too
                self._points = _points(self._table(sequence, output.results), self._columns)
                self._sequence = sequence
        return self._points

    def _table(self, sequence: int, names: tuple[str, ...]) -> pa.Table:
        sink = self._engine.sinks.parquet
        if sink is None:
            return pa.concat_tables([self._engine.plan.store.files.read_table(name) for name in names])
        published = [f"batch={sequence}/part-{part:05}.parquet" for part in range(len(names))]
        return pa.concat_tables([pq.read_table(pa.BufferReader(sink.files.read(name))) for name in published])


def _two_columns(engine: "Engine") -> tuple[str, str] | None:
    query = engine.plan.query
    if not isinstance(query, PreferenceQuery) or engine.plan.step is not None:
        return None
    compared = [str(attribute.what) for attribute in query.preference.attributes() if attribute.kind != "diff"]
    if len(compared) != 2 or set(compared) & set(engine.plan.helpers):
        return None
    drawn = all(_is_number(engine.plan.columns.field(name).type) for name in compared)
    return (compared[0], compared[1]) if drawn else None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _points(results: pa.Table, columns: tuple[str, str]) -> Points:
    last = results["window_start"].to_pylist()
    newest = max(last, default=None)
    rows = results.filter(pa.array([start == newest for start in last])).select(columns)
    first, second = (rows[name].cast(pa.float64()).to_numpy() for name in columns)
    finite = np.isfinite(first) & np.isfinite(second)
    drawn = zip(first[finite].tolist(), second[finite].tolist(), strict=True)
    return Points(columns, tuple(sorted(drawn)), int((~finite).sum()))


def scaler_subject(scaler: "Scaler", query: Any, about: ScalerAbout) -> Subject:
    """Return an auto-scaler as something to look at, pause and resume."""

    def look() -> ScalerLook:
        return ScalerLook(time_of_day(), about, scaler.status(), tuple(scaler.cycles()), tuple(scaler.events()[-EVENTS:]))

    name = query.name or f"query {str(query.id)[:ID_SHOWN]}"
    does = f"{about.controller} every {about.interval_s:g} s: {about.limits}"
    return Subject(f"scaler-{query.id}", "scaler", name, does, look, {"pause": scaler.pause, "resume": scaler.resume})


def fleet_subject(fleet: "Fleet", run: "Run | None" = None) -> Subject:
    """Return a fleet as something to look at; if it is shown with a query that reads it, it ends with that."""

    latest = FleetLook(0.0, FleetStatus())

    def look() -> FleetLook:
        nonlocal latest
        over = run is not None and run.status().state in OVER  # asked first: then what is seen is the last
        status = fleet.status()
        if status != latest.status:  # the streams may be many
            latest = FleetLook(time_of_day(), status, tuple(fleet.splits()), streams_shown(fleet.streams()))
        return replace(latest, at_s=time_of_day(), over=over)

    return Subject(f"fleet-{fleet.settings.board}", "fleet", f"fleet {fleet.settings.place}", fleet.settings.schema, look)


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
