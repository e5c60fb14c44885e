"""X4: windows from panes, or each window from its tuples, on the real engine (P3 Fig. 14)."""

import time
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.queries import low
from skytide.spark.plain import rows_by_window
from skytide.spark.session import local_session
from skytide.spark.stream import stream
from skytide.spark.workload_source import workload

PANES_A_WINDOW = (1, 2, 5, 10, 20)
CLOUDS = ("correlated", "independent", "anticorrelated")
RATE_HZ, SECONDS, DIMENSIONS, REPEATS = 20_000, 6, 8, 3
START_US = 1_700_000_000_000_000


class PanesOrTuples(Experiment):
    """Windows of 1 s with 1 to 20 panes, three kinds of points, both ways on local Spark; the best of three."""

    id = "X4"
    title = "windows from panes against windows from tuples"
    source = "P3 Fig. 14"

    def measure(self, tell: Progress) -> Findings:
        """Time both ways over the same rows, and compare what they give."""
        rows: list[Row] = []
        spark = local_session("skytide lab")
        preferences = [low(f"x{i}") for i in range(DIMENSIONS)]
        for cloud in CLOUDS:
            made = workload(rate=RATE_HZ, points=cloud, dimensions=DIMENSIONS).workload
            tuples = spark.createDataFrame(_table(made)).repartition(2).cache()
            tuples.count()
            for panes in PANES_A_WINDOW:
                slide = f"{1_000 // panes} ms"
                paned = stream(tuples).window("1 s", slide=slide).skyline(*preferences)
                plain = rows_by_window(tuples, "ts", "1 second", slide.replace("ms", "milliseconds"), preferences)
                (paned_s, one), (plain_s, two) = (_best(df) for df in (paned, plain))
                if one != two:
                    raise AssertionError(f"{cloud}, {panes} panes: the two ways give other windows")
                rows.append(
                    {"points": cloud, "panes_a_window": panes, "paned_s": paned_s, "plain_s": plain_s, "ratio": paned_s / plain_s}
                )
            tuples.unpersist()
            tell(f"{cloud}: ratio " + ", ".join(f"{row['ratio']:.2f}" for row in rows[-len(PANES_A_WINDOW) :]))
        by = {(row["points"], row["panes_a_window"]): row["ratio"] for row in rows}
        first, last = PANES_A_WINDOW[1], PANES_A_WINDOW[-1]
        return Findings(
            rows,
            [
                Claim(
                    "the gain of panes grows with the number of panes a window",
                    "time with panes over time without: "
                    + "; ".join(f"{cloud} {by[cloud, first]:.2f} at {first}, {by[cloud, last]:.2f} at {last}" for cloud in CLOUDS),
                    all(by[cloud, last] < by[cloud, first] < 1.1 for cloud in CLOUDS),
                )
            ],
            f"{RATE_HZ:,} tuples a second for {SECONDS} s, batch DataFrames, local Spark; the plain way copies each tuple into its windows",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw the ratio by panes a window."""
        axis = figure.subplots()
        for cloud in CLOUDS:
            mine = [row for row in rows if row["points"] == cloud]
            axis.plot([row["panes_a_window"] for row in mine], [row["ratio"] for row in mine], marker="o", label=cloud)
        axis.axhline(1, color="0.7", lw=0.8)
        axis.set(xlabel="panes a window", ylabel="time with panes / time without", ylim=(0, None))
        axis.legend(frameon=False)


def _table(made: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches(made.tuples(0, SECONDS * 1_000_000 // made.slot_us, START_US))


def _best(df: Any) -> tuple[float, list[tuple[Any, ...]]]:
    best, found = float("inf"), []
    for _ in range(REPEATS):
        began = time.perf_counter()
        table = df.select("window_start", "id").toArrow()
        best = min(best, time.perf_counter() - began)
        found = sorted(zip(*(table[name].cast("int64").to_pylist() for name in table.column_names), strict=True))
    return best, found


EXPERIMENT = PanesOrTuples()
