"""The tuples of a case: generated from its seed, and written as files that come in a given order."""

import json
import os
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.oracle import Row, rows_of

import skytide
from campaign.cases import START_US, Files, Workload

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
HOPELESS_US = 60_000_000
MAX_FILES_PER_BATCH = 3
Parts = list[list[Row]]
"""The tuples of each file, in order of arrival."""


def workload(stream: Workload, **playing: Any) -> Any:
    """Return the stream of skytide's own source."""
    options = {name: value for name, value in stream.options.items() if name != "delay_us"}
    delay = f"{stream.options['delay_us']} us"
    length = {"duration": f"{stream.duration_us} us", "batch": f"{stream.batch_us} us"}
    return skytide.workload(**options, delay=delay, pace="fast", start=START_US, **length, **playing)


def parts_of(stream: Files | Workload, *, invalid: bool) -> Parts:
    """Return all tuples that arrive; those with impossible times only on request."""
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
        rows.append(_row(random, number, clock_us - delay_us))
    cuts = [0, *sorted(random.randrange(1, stream.tuples) for _ in range(stream.files - 1)), stream.tuples]
    parts = [rows[first:last] for first, last in pairwise(cuts)]
    oldest = min(row["ts"] for row in rows)
    odd = [oldest - HOPELESS_US - random.randrange(HOPELESS_US) for _ in range(stream.strays)]
    odd += [random.choice((0, None, clock_us + HOUR_US, clock_us + 1_000_000 * HOUR_US)) for _ in range(stream.invalid) if invalid]
    for number, time_us in enumerate(odd, start=stream.tuples):
        part = random.choice(parts[MAX_FILES_PER_BATCH + 1 :])  # not with the first batch, to which nothing is late
        part.insert(random.randint(0, len(part)), _row(random, number, time_us))
    return parts


def _row(random: Random, number: int, time_us: int | None) -> Row:
    a, b, c = random.randint(0, 20), float(random.randint(0, 20)), random.randint(0, 5)
    return {"id": number, "ts": time_us, "a": a, "b": b, "c": c, "d": random.choice((None, 1, 2)), "g": random.choice("xyz")}


def write(parts: Parts, format_: str, folder: Path) -> None:
    """Write each part as a file, so that Spark reads them in this order."""
    folder.mkdir()
    for number, rows in enumerate(parts):
        file = folder / f"{number:03}.{format_}"
        table = pa.Table.from_pylist(rows, COLUMNS)
        if format_ == "parquet":
            pq.write_table(table, file)
        else:
            stamped = [row | {"ts": row["ts"] and row["ts"].isoformat()} for row in table.to_pylist()]
            file.write_text("".join(json.dumps(row) + "\n" for row in stamped))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
