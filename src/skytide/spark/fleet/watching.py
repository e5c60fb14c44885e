"""A fleet as something to watch, for pages and metrics."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from skytide.records.fleet import FleetStatus
from skytide.spark.clock import time_of_day
from skytide.watch.snapshots import FleetSnapshot, StreamRow, Subject

if TYPE_CHECKING:
    from skytide.spark.fleet.fleet import Fleet

STREAMS = 20


def fleet_subject(fleet: "Fleet", is_over: Callable[[], bool] = lambda: False) -> Subject:
    """Return a fleet as something to watch; if it is shown with a query that reads it, it is over when that is."""
    latest = FleetSnapshot(0.0, FleetStatus())

    def snapshot() -> FleetSnapshot:
        nonlocal latest
        over = is_over()  # asked first: then what is seen is the last
        status = fleet.status()
        if status != latest.status:  # the streams may be many
            latest = FleetSnapshot(time_of_day(), status, tuple(fleet.splits()), streams_shown(fleet.streams()))
        return replace(latest, at_s=time_of_day(), over=over)

    return Subject(f"fleet-{fleet.settings.channel}", "fleet", f"fleet {fleet.settings.place}", fleet.settings.schema, snapshot)


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
