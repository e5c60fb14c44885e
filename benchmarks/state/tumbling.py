"""Tumbling windows of a minute, of a million keys, on a fast stream."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.state import oracle
from benchmarks.state.common import ROCKS, START_US, Bench, Found, session, uniform
from benchmarks.state.contest import COLUMNS, Stream, skytide_of, spark_of
from benchmarks.timing import Disagreement, Goal, Limit

MIN_RATIO = 3.0


@dataclass(frozen=True)
class Sizes:
    """How large the stream is, and how many minutes of it are measured after the first."""

    keys: int = 1_000_000
    rate_hz: int = 200_000
    batch_s: int = 5
    measured_minutes: int = 3


QUICK = Sizes(2_000, 500, 20, 2)


def tumbling(bench: Bench) -> Found:
    """Measure skytide and Spark's own windows, and compare what came out."""
    sizes = QUICK if bench.quick else Sizes()
    stream = Stream(sizes.rate_hz, uniform(sizes.keys), sizes.batch_s, "1 minute")
    first, last = 60 // sizes.batch_s, (1 + sizes.measured_minutes) * 60 // sizes.batch_s
    with session("tumbling", memory="6g", **ROCKS) as spark:
        _, measured = skytide_of(spark, stream, bench.folder / "skytide", first, last)
        _, peer = spark_of(spark, stream, bench.folder / "spark", first, last)
    count = agree(bench.folder / "skytide" / "out", bench.folder / "spark" / "out")
    bench.console.print(f"{count} windows of both are the same")
    ratio = peer.cpu_per_million_s / measured.cpu_per_million_s
    goals = [
        Limit("1 min tumbling: seconds per second of the stream", measured.load, 1.0),
        Goal("1 min tumbling: CPU per row of Spark's own windows over skytide's", ratio, MIN_RATIO),
    ]
    title = f"1 min tumbling, {sizes.keys:,} keys, {sizes.rate_hz:,} rows/s, local[2], batches of {sizes.batch_s} s, after the first minute"
    figures = {"skytide": measured.figures(), "spark": peer.figures()}
    return Found(title, COLUMNS, [measured.row("skytide"), peer.row("Spark's own windows")], goals, figures)


def agree(one: Path, other: Path) -> int:
    """Raise Disagreement unless the windows that both have are the same, and return how many they are."""
    common = sorted(starts(one) & starts(other))
    if not common:
        raise Disagreement(f"no window of both: {len(starts(one))} and {len(starts(other))}")
    for start_us in common:
        what = f"minute {(start_us - START_US) // 60_000_000}"
        oracle.check(what, oracle.window_of(one, start_us), oracle.window_of(other, start_us))
    return len(common)


def starts(folder: Path) -> set[int]:
    """Return when the windows in a folder start."""
    column = pq.read_table(folder, columns=["window_start"])["window_start"]
    return set(pc.unique(column.cast(pa.int64())).to_pylist())
