"""How a fleet is doing, as its reader sees it."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.admission import Assignment
from skytide.records.fleet import SplitStatus
from skytide.spark.fleet.batch_log import Offset
from skytide.spark.fleet.feeds import Cut, Discovery
from skytide.spark.fleet.reports import BROKEN, Counts
from skytide.spark.fleet.states import StreamStates

MOVED, FORGOTTEN = "moved", "forgotten"
"""What is counted besides losses."""
MAX_UNKNOWN = 10
"""How many names that no stream has are shown."""


def status_fields(
    discovery: Discovery,
    cut: Cut,
    assignment: Assignment,
    buffered: NDArray[np.int64],
    counts: Counts,
    capacity_hz: float,
    offset: Offset,
    took_s: float,
) -> dict[str, Any]:
    """Return the fields of a `FleetStatus`, as plain values."""
    away = discovery.states.away > 0
    reasons = dict(counts)
    return {
        "streams": int((~away).sum()),
        "missing": int(away.sum()),
        "suspended": int(discovery.states.suspended.sum()),
        "unreadable": len(cut.unreadable),
        "unknown": discovery.unknown[:MAX_UNKNOWN],
        "silent": int((~away & assignment.observed & (assignment.rate_hz == 0)).sum()),
        "splits": len(assignment.open),
        "batches": offset["sequence"],
        "tuples": offset["tuples"],
        "buffered": int(buffered.sum()),
        "rate_hz": float(assignment.rate_hz.sum()),
        "expected_hz": float(assignment.total_expected_hz),
        "capacity_hz": capacity_hz,
        "redirections": reasons.pop(MOVED, 0),
        "forgotten": reasons.pop(FORGOTTEN, 0),
        "invalid": reasons.pop(BROKEN, 0),
        "skipped": reasons,
        "planning_s": took_s,
    }


def streams_table(states: StreamStates, assignment: Assignment, buffered: NDArray[np.int64]) -> pa.Table:
    """Return how each stream is doing, one row per stream."""
    return pa.table(
        {
            "stream": pa.array(states.names, pa.string()),
            "split": assignment.splits,
            "rate_hz": assignment.rate_hz,
            "expected_hz": assignment.expected_hz,
            "buffered": buffered,
            "suspended": states.suspended,
            "missing": states.away > 0,
        }
    )


def splits_of(streams: pa.Table, capacity_hz: float) -> list[SplitStatus]:
    """Return how each split is doing."""
    names, numbers = np.array(streams["stream"].to_pylist(), object), np.array(streams["split"])
    rates, expected, buffered = (np.array(streams[name]) for name in ("rate_hz", "expected_hz", "buffered"))
    statuses = []
    for split in np.unique(numbers).tolist():
        mine = numbers == split
        waiting = int(buffered[mine].sum())
        statuses.append(
            SplitStatus(
                split=split,
                streams=tuple(sorted(names[mine])),
                rate_hz=float(rates[mine].sum()),
                expected_hz=float(expected[mine].sum()),
                buffered=waiting,
                latency_s=waiting / capacity_hz if capacity_hz else 0.0,
            )
        )
    return statuses
