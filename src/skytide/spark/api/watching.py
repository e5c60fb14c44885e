"""A continuous query as something to watch: how it is doing, and the rows of its latest window as points."""

import contextlib
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from skytide.queries.preference_query import PreferenceQuery
from skytide.records import Status, WindowRow
from skytide.spark.clock import time_of_day
from skytide.spark.engine.engine import Engine
from skytide.watch.snapshots import Points, QuerySnapshot, Subject

MAX_POINTS = 2_000
ID_SHOWN = 8  # characters


class QueryHandle(Protocol):
    """What there is to see of a query that runs."""

    query: Any

    def status(self) -> Status: ...
    def windows(self) -> list[WindowRow]: ...
    def seconds(self) -> dict[str, float]: ...


def query_subject(run: QueryHandle, engine: Engine) -> Subject:
    """Return a continuous query as something to watch."""
    query, spec = run.query, engine.spec
    latest = _LatestPoints(engine)

    def snapshot() -> QuerySnapshot:
        status = run.status()
        return QuerySnapshot(
            at_s=time_of_day(),
            status=status,
            windows=tuple(run.windows()),
            seconds=run.seconds(),
            trigger_s=engine.rules.trigger_s,
            state=status.state,
            why=status.failure,
            points=latest.read(),
        )

    about = f"{spec.known_as.short} over windows of {spec.texts()['windows']}"
    return Subject(str(query.id), "query", query.name or f"query {str(query.id)[:ID_SHOWN]}", about, snapshot)


class _LatestPoints:
    """The rows of the latest window, if two columns are compared; read again only when something came out."""

    def __init__(self, engine: Engine) -> None:
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
                self._points = _points(self._engine.sinks.results.read(sequence, output.results), self._columns)
                self._sequence = sequence
        return self._points


def _two_columns(engine: Engine) -> tuple[str, str] | None:
    spec, query = engine.spec, engine.spec.query
    if not isinstance(query, PreferenceQuery) or spec.step is not None:
        return None
    compared = [str(attribute.what) for attribute in query.preference.attributes() if attribute.kind != "diff"]
    if len(compared) != 2 or set(compared) & set(spec.helpers):
        return None
    drawn = all(_is_number(spec.columns.field(name).type) for name in compared)
    return (compared[0], compared[1]) if drawn else None


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type))


def _points(results: pa.Table, columns: tuple[str, str]) -> Points:
    last = results["window_start"].to_pylist()
    newest = max(last, default=None)
    rows = results.filter(pa.array([start == newest for start in last])).select(columns)
    first, second = (rows[name].cast(pa.float64()).to_numpy() for name in columns)
    finite = np.isfinite(first) & np.isfinite(second)
    drawn = zip(first[finite].tolist(), second[finite].tolist(), strict=True)
    return Points(columns, tuple(sorted(drawn)), int((~finite).sum()))
