"""Snapshots of what runs on Spark, for pages and metrics."""

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skytide.queries.preference_query import PreferenceQuery
from skytide.spark.clock import time_of_day
from skytide.spark.query.wording import short
from skytide.watch.snapshots import Points, QuerySnapshot, ScalerAbout, ScalerSnapshot, Subject

if TYPE_CHECKING:
    from skytide.spark.engine.engine import Engine
    from skytide.spark.query.run import Run
    from skytide.spark.scaling import Scaler

MAX_POINTS = 2_000
EVENTS = 50
ID_SHOWN = 8  # characters


def query_subject(run: "Run", engine: "Engine") -> Subject:
    """Return a continuous query as something to watch."""
    query, asked = run.query, engine.plan.identity()
    latest = _LatestPoints(engine)

    def snapshot() -> QuerySnapshot:
        status = run.status()
        return QuerySnapshot(
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
    return Subject(str(query.id), "query", query.name or f"query {str(query.id)[:ID_SHOWN]}", about, snapshot)


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


def _is_number(column_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(column_type) or pa.types.is_floating(column_type) or pa.types.is_decimal(column_type))


def _points(results: pa.Table, columns: tuple[str, str]) -> Points:
    last = results["window_start"].to_pylist()
    newest = max(last, default=None)
    rows = results.filter(pa.array([start == newest for start in last])).select(columns)
    first, second = (rows[name].cast(pa.float64()).to_numpy() for name in columns)
    finite = np.isfinite(first) & np.isfinite(second)
    drawn = zip(first[finite].tolist(), second[finite].tolist(), strict=True)
    return Points(columns, tuple(sorted(drawn)), int((~finite).sum()))


def scaler_subject(scaler: "Scaler", query: Any, about: ScalerAbout) -> Subject:
    """Return an auto-scaler as something to watch, pause and resume."""

    def snapshot() -> ScalerSnapshot:
        return ScalerSnapshot(time_of_day(), about, scaler.status(), tuple(scaler.cycles()), tuple(scaler.events()[-EVENTS:]))

    name = query.name or f"query {str(query.id)[:ID_SHOWN]}"
    does = f"{about.controller} every {about.interval_s:g} s: {about.limits}"
    return Subject(f"scaler-{query.id}", "scaler", name, does, snapshot, {"pause": scaler.pause, "resume": scaler.resume})
