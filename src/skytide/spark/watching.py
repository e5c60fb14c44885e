"""Looks at what runs on Spark, for pages and metrics."""

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from skytide.queries.preference_query import PreferenceQuery
from skytide.spark.engine import Engine
from skytide.watch.looks import Points, QueryLook, Subject

if TYPE_CHECKING:
    from skytide.spark.run import Run

MOST_POINTS = 2_000


def query_subject(run: "Run", engine: Engine) -> Subject:
    """Return a continuous query as something to look at."""
    query, asked = run.query, engine.plan.identity()
    latest = _LatestPoints(engine)

    def look() -> QueryLook:
        state, why = _state(query, run.status().batch)
        return QueryLook(
            at_s=time.time(),
            status=run.status(),
            windows=tuple(run.windows()),
            seconds=run.seconds(),
            trigger_s=engine.plan.rules.trigger_s,
            state=state,
            why=why,
            points=latest.read(),
        )

    return Subject(
        str(query.id), "query", query.name or f"query {str(query.id)[:8]}", f"{asked['query']}; {asked['windows']}", look
    )


def _state(query: Any, batch: int) -> tuple[str, str]:
    """Return what a query is doing, and why."""
    if not query.isActive:
        failure = query.exception()
        return ("failed", str(failure).strip().partition("\n")[0]) if failure else ("stopped", "")
    if batch < 0:
        return "starting", ""
    doing = query.status
    return ("running" if doing["isTriggerActive"] or doing["isDataAvailable"] else "idle"), ""


class _LatestPoints:
    """The rows of the latest window, where two columns are compared; read again only when something came out."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._columns = engine, _two_columns(engine)
        self._sequence, self._points = -1, None  # type: tuple[int, Points | None]

    def read(self) -> Points | None:
        if self._columns is None or self._engine.latest_output is None:
            return None
        sequence, output = self._engine.latest_output
        few = bool(output.rows) and output.rows[-1].kept <= MOST_POINTS
        if sequence != self._sequence and output.results and few:
            with contextlib.suppress(OSError, pa.ArrowInvalid, KeyError):  # files of batches before may be gone
                self._points = _points(self._table(sequence, output.results), self._columns)
                self._sequence = sequence
        return self._points

    def _table(self, sequence: int, names: tuple[str, ...]) -> pa.Table:
        sink = self._engine.sinks.parquet
        if sink is None:
            return pa.concat_tables([self._engine.plan.store.files.read_table(name) for name in names])
        published = [f"batch={sequence}/part-{part:05}.parquet" for part in range(len(names))]
        return pa.concat_tables([pq.read_table(pa.BufferReader(sink.files.read(name))) for name in published])


def _two_columns(engine: Engine) -> tuple[str, str] | None:
    query = engine.plan.query
    if not isinstance(query, PreferenceQuery) or engine.plan.step is not None:
        return None
    compared = [attribute.what for attribute in query.preference.attributes() if attribute.kind != "diff"]
    return (compared[0], compared[1]) if len(compared) == 2 and not set(compared) & set(engine.plan.helpers) else None


def _points(results: pa.Table, columns: tuple[str, str]) -> Points:
    last = results["window_start"].to_pylist()
    newest = max(last, default=None)
    rows = results.filter(pa.array([start == newest for start in last])).select(columns)
    values = [[float(value) for value in rows[name].cast(pa.float64()).to_pylist()] for name in columns]
    return Points(columns, tuple(sorted(zip(*values, strict=True))))
