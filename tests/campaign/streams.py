"""The tuples of a case, generated from its seed."""

from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
from support.oracle import Row, rows_of

import skytide
from campaign.cases import START_US, Files, Fleet, Workload

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("a", pa.int64()),
        ("b", pa.float64()),
        ("c", pa.int64()),
        ("d", pa.int64()),
        ("g", pa.string()),
    ]
)
SPARK_COLUMNS = "id bigint, ts timestamp, a bigint, b double, c bigint, d bigint, g string"
HOUR_US = 3_600_000_000
MAX_FILES_PER_BATCH = 3
Parts = list[list[Row]]
"""The tuples of each file, or of each step of a fleet, in order of arrival."""


def workload(stream: Workload, **playing: Any) -> Any:
    """Return the stream of skytide's own source."""
    options = {name: value for name, value in stream.options.items() if name != "delay_us"}
    delay = f"{stream.options['delay_us']} us"
    length = {"duration": f"{stream.duration_us} us", "batch": f"{stream.batch_us} us"}
    return skytide.workload(**options, delay=delay, pace="fast", start=START_US, **length, **playing)


def parts_of(stream: Files | Workload | Fleet, *, invalid: bool) -> Parts:
    """Return all tuples that arrive; those with impossible times only on request."""
    if isinstance(stream, Fleet):
        return _steps(stream)
    if isinstance(stream, Workload):
        made = workload(stream).workload
        return [rows_of(pa.Table.from_batches(made.tuples(0, stream.duration_us // made.tick_us, START_US)))]
    random = Random(stream.seed)
    clock_us = START_US + random.randrange(10_000_000)
    gap_us = stream.span_us / stream.tuples
    rows = []
    for number in range(stream.tuples):
        silent = 20 if random.random() < 0.02 else 1
        clock_us += round(gap_us * silent * random.choice((0, 0, 0.5, 1, 2, 2)) / 1.3)
        delay_us = random.randint(0, stream.disorder_us) if random.random() < 0.4 else 0
        rows.append(_row(random, number, clock_us - delay_us, stream.groups))
    cuts = [0, *sorted(random.randrange(1, stream.tuples) for _ in range(stream.files - 1)), stream.tuples]
    parts = [rows[first:last] for first, last in pairwise(cuts)]
    oldest = min(row["ts"] for row in rows)
    odd = [oldest - hopeless_us(stream) - random.randrange(hopeless_us(stream)) for _ in range(stream.strays)]
    ahead_us = max(HOUR_US, 50 * stream.span_us)  # further than a stream as sparse as this one could be silent
    odd += [random.choice((0, None, clock_us + ahead_us, clock_us + 1_000_000 * HOUR_US)) for _ in range(stream.invalid) if invalid]
    for number, time_us in enumerate(odd, start=stream.tuples):
        part = random.choice(parts[MAX_FILES_PER_BATCH + 1 :])  # not with the first batch, to which nothing is late
        part.insert(random.randint(0, len(part)), _row(random, number, time_us))
    return parts


def hopeless_us(stream: Files) -> int:
    """Return how far strays are behind the oldest of the others, at least."""
    return 2 * stream.span_us


def _steps(stream: Fleet) -> Parts:
    """Return the tuples of each step of a fleet, some steps with far more than others; streams join over time."""
    random = Random(stream.seed)
    step_us = stream.span_us // stream.steps
    weights = [random.choice((0, 1, 1, 1, 10)) for _ in range(stream.steps)]
    counts = [random.choices(range(stream.steps), weights).pop() for _ in range(stream.tuples)]
    parts: Parts = [[] for _ in range(stream.steps)]
    for number, step in enumerate(sorted(counts)):
        time_us = START_US + step * step_us + random.randrange(step_us)
        joined = max(2, stream.streams * min(stream.steps, 2 * step) // stream.steps)
        parts[step].append({**_row(random, number, time_us), "stream": f"s{random.randrange(joined)}"})
    return parts


def watermark_us(stream: Files) -> int:
    """Return for how long Spark's own operators wait for late rows, if the input has any: with that, they drop none."""
    return 2 * stream.disorder_us + 3 * stream.group_us + 10_000 if stream.input == "aggregated" else 100 * stream.span_us


def seen(stream: Files | Workload | Fleet, parts: Parts) -> Parts:
    """Return the tuples that the query sees: those of an aggregated input are rows of groups, all others are as they came."""
    if not isinstance(stream, Files) or stream.input != "aggregated":
        return parts
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in (row for part in parts for row in part):
        groups.setdefault((row["ts"] // stream.group_us, row["g"]), []).append(row)
    return [
        [
            {
                "id": min(row["id"] for row in rows),
                "ts": max(row["ts"] for row in rows),
                "a": max(row["a"] for row in rows),
                "b": max(row["b"] for row in rows),
                "c": min(row["c"] for row in rows),
                "d": sum(row["d"] is not None for row in rows),
                "g": group,
            }
            for (_, group), rows in groups.items()
        ]
    ]


def _row(random: Random, number: int, time_us: int | None, groups: int = 3) -> Row:
    a, b, c = random.randint(0, 20), float(random.randint(0, 20)), random.randint(0, 5)
    group = "xyz"[random.randrange(3)] if groups <= 3 else f"g{int(groups * random.random() ** 1.5)}"
    return {"id": number, "ts": time_us, "a": a, "b": b, "c": c, "d": random.choice((None, 1, 2)), "g": group}
