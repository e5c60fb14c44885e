"""A query in this process that is stopped, goes back, and starts again."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure
from skytide.spark.engine.engine import Engine
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows
from support.engine import Collected, InProcess, plan_of, tuples

SECOND_US = 1_000_000
BATCHES = tuples([[[second * SECOND_US]] for second in range(8)])
COUNT = Aggregate((Measure.parse("count(*) AS n"),), time="ts")


class Query:
    """A query on a checkpoint, with Parquet folders for results and late tuples, and a function for windows."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = folder / "ck"
        self.write_to(folder)

    def write_to(self, folder: Path) -> None:
        """Have the sinks in a folder."""
        self.results: Any = Parquet(folder / "out")
        self.late = Parquet(folder / "late")

    def run(self, *batches: list[pa.Table]) -> None:
        """Start, and run batches from the next one on, then stop without a flush."""
        plan = plan_of(COUNT, f"{self.checkpoint}/skytide", Windows(SECOND_US, SECOND_US), FixedSlack("0 s"))
        sinks = Sinks(self.results, late=self.late, windows=Collected())
        engine = Engine(*plan, sinks)
        first = plan.store.latest().batch + 1
        for number, batch in enumerate(batches, start=first):
            engine.run_batch(InProcess(), batch, number)
        plan.store.release()

    def numbers(self) -> list[int]:
        """The numbers of all batches in the folder of results."""
        return sorted(int(path.name.partition("=")[2]) for path in Path(self.results.owned.path).glob("batch=*"))

    def starts(self) -> list[Any]:
        """The starts of all windows in the folder of results."""
        found = [pq.ParquetFile(file).read() for file in Path(self.results.owned.path).glob("batch=*/*.parquet")]
        return sorted(row["window_start"] for table in found for row in table.to_pylist())
