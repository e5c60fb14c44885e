"""Answers of windows as rows: from nothing but some panes, with the bounds of their windows, and as they are read again."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from skytide.kernels import Indices
from skytide.queries import Answers, Blocks, Incremental, Panes, Query
from skytide.queries.blocks import InMemory
from skytide.spark.checkpoint import Files
from skytide.spark.engine.spec import BOUNDS
from skytide.windows import Windows, pane_bounds

WINDOWS_AT_ONCE = 1024  # answered together: enough to spread the cost of a call, few enough to hold their rows


def answers_of(
    query: Query, columns: pa.Schema, panes: Panes, windows: Windows, wanted: Indices
) -> Iterator[tuple[Indices, Answers]]:
    """Answer windows from nothing but some panes: yield the numbers of some windows, and their answers."""
    if query.skyline_inside() is not None:
        sliding = Incremental(query)
        yield from ((some, answers) for some, answers, _ in slide_over(sliding, sliding.empty(columns), panes, windows, wanted))
        return
    closed = int(pane_bounds(windows, wanted[-1:])[1].max(initial=0))
    done = 0
    for answers in Blocks(query, columns).slide(InMemory(), panes, windows, wanted, closed)[0]:
        yield wanted[done : done + len(answers.counts)], answers
        done += len(answers.counts)


def slide_over(
    sliding: Incremental, memory: pa.Table, panes: Panes, windows: Windows, wanted: Indices
) -> Iterator[tuple[Indices, Answers, pa.Table]]:
    """Answer windows in order, some at a time: yield their numbers, their answers, and the memory after them."""
    numbers, done = np.array([pane for pane, _ in panes], dtype=np.int64), 0
    for some in np.split(wanted, range(WINDOWS_AT_ONCE, len(wanted), WINDOWS_AT_ONCE)) if len(wanted) else ():
        closed = int(np.searchsorted(numbers, pane_bounds(windows, some[-1:])[1][0]))
        answers, memory = sliding.slide(memory, panes[done:closed], windows, some)
        done = closed
        yield some, answers, memory


def with_bounds(answers: Answers, windows: Windows, wanted: Indices, time_type: pa.DataType) -> pa.Table:
    """Return answers with the bounds of their windows as the first columns."""
    rows, start = answers.rows, np.repeat(wanted * windows.slide_us, answers.counts)
    for place, (name, times_us) in enumerate(zip(BOUNDS, (start, start + windows.length_us), strict=True)):
        rows = rows.add_column(place, pa.field(name, time_type), pa.array(times_us, pa.int64()).cast(time_type))
    return rows


def read_results(store: Files, names: tuple[str, ...], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the rows of some files."""
    for name in names:
        yield from store.read_table(name).select(columns.names).to_batches()
