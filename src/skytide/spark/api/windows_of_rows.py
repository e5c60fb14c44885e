"""A window query on a DataFrame that does not stream, as one lazy plan.

Windows are answered in stretches, each by one task that slides over its panes as a stream does. A stretch has as many windows as
contain one pane, so what is kept of a pane goes to at most two tasks, however many windows contain it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from skytide.queries import Panes, Query
from skytide.spark.arrow import arrow_schema, bounded, map_in_arrow, plainly_named, spark_schema
from skytide.spark.engine.answers import WINDOWS_AT_ONCE, answers_of, with_bounds
from skytide.spark.engine.panes import by_pane
from skytide.spark.engine.spec import result_columns
from skytide.spark.engine.tasks import Reducer
from skytide.windows import Windows, stretches, windows_with_panes

PANE = "__skytide_pane"
PART = "__skytide_part"
STRETCH = "__skytide_stretch"
MAX_CHUNK_ROWS = WINDOWS_AT_ONCE * 64  # of what is sent to the stretches
HELPERS = [PANE, PART, STRETCH]


def windows_of_rows(rows: DataFrame, time: str, windows: Windows, query: Query) -> DataFrame:
    """Return the answers of all windows that contain a row, each with its bounds."""
    columns, own = arrow_schema(rows.schema), bounded(rows.schema, time)
    task = StretchTask(query, windows, columns, time)
    kept = plainly_named(map_in_arrow(rows, task.keep, spark_schema(own, task.kept_columns)))

    def answer(
        batches: Iterator[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:  # Spark counts the arguments, so a method will not do
        return task.answer(batches)

    results = result_columns(query, columns, columns.field(time).type)
    return kept.groupBy(kept.columns[-1]).applyInArrow(answer, spark_schema(own, results))


@dataclass(frozen=True)
class StretchTask:
    """What the tasks need to know, and what they do."""

    query: Query
    windows: Windows
    columns: pa.Schema
    time: str

    @property
    def stretch(self) -> int:
        """How many windows are answered by one task: as many as contain one pane."""
        return -(-self.windows.length_us // self.windows.slide_us)

    @property
    def kept_columns(self) -> pa.Schema:
        """The columns of what is kept of panes on the way to the stretches."""
        return pa.schema([*self.query.kept_schema(self.columns), *(pa.field(name, pa.int64()) for name in HELPERS)])

    def keep(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what can still matter of each pane, for each stretch with a window that contains it."""
        panes: dict[int, Reducer] = {}
        for batch in batches:
            for pane, rows in by_pane(pa.Table.from_batches([batch]).cast(self.columns), self.time, self.windows):
                panes.setdefault(pane, Reducer(self.query)).add(rows)
        if not panes:
            return
        tables = [reducer.kept() for reducer in panes.values()]
        number = np.repeat(np.array(list(panes), np.int64), [table.num_rows for table in tables])
        first = self.windows.first_of_pane(number) // self.stretch
        copies = self.windows.last_of_pane(number) // self.stretch - first + 1
        place = np.repeat(np.arange(len(number)), copies)
        context = TaskContext.get()
        part = np.full(len(place), context.partitionId() if context else 0)
        helpers = (number[place], part, stretches(first, copies))
        sent = pa.concat_tables(tables).combine_chunks().take(pa.array(place))
        for name, values in zip(HELPERS, helpers, strict=True):
            sent = sent.append_column(name, pa.array(values, pa.int64()))
        yield from sent.cast(self.kept_columns).to_batches(max_chunksize=MAX_CHUNK_ROWS)

    def answer(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers of the windows of a stretch."""
        table = pa.Table.from_batches(list(batches)).rename_columns(self.kept_columns.names)
        kept = table.cast(self.kept_columns).combine_chunks()
        first = kept[STRETCH][0].as_py() * self.stretch
        panes = self._panes(kept)
        numbers = np.array([pane for pane, _ in panes], dtype=np.int64)
        wanted = windows_with_panes(self.windows, numbers, range(first, first + self.stretch))
        time_type = self.columns.field(self.time).type
        for some, answers in answers_of(self.query, self.columns, panes, self.windows, wanted):
            yield from with_bounds(answers, self.windows, some, time_type).to_batches()

    def _panes(self, kept: pa.Table) -> Panes:
        """Return what was kept of each pane, in order of time; what several tasks kept of the same pane is merged."""
        pane, part = kept[PANE].to_numpy(), kept[PART].to_numpy()
        order = np.lexsort((part, pane))
        pane, part, kept = pane[order], part[order], kept.drop_columns(HELPERS).take(pa.array(order))
        numbers, starts = np.unique(pane, return_index=True)
        ends = np.append(starts[1:], len(pane))
        merged = []
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends.tolist(), strict=True):
            rows = kept.slice(start, end - start)
            merged.append((number, rows if part[start] == part[end - 1] else self.query.merge(rows)))
        return merged
