"""From records of ranges to tuples for the pane level."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from skytide.lateness import Order
from skytide.lateness.clock import STAY_US
from skytide.spark.engine.pane_level import PaneTask, Tuples, times_us
from skytide.spark.fleet.feeds import STREAM, Range, Records


def as_tuples(read: Iterable[Records], ranges: Sequence[Range], task: PaneTask) -> Iterator[Tuples]:
    """Yield records as tuples, in no order: those of streams that we kept waiting are separate from the others.

    A stream that is still behind holds the punctuation at its newest tuple, as the rest of it may be no newer; one of which nothing came
    holds it where it is.
    """
    waited = np.array([each.was_behind or each.is_behind for each in ranges], np.bool_)
    holding = np.array([each.is_behind for each in ranges], np.bool_)
    newest = np.full(len(ranges), STAY_US)
    for records in read:
        rows = records.named(ranges)
        behind = waited[records.ranges]
        if holding.any() and rows.num_rows:
            np.maximum.at(newest, records.ranges, times_us(rows, task.time))
        for order, some in ((Order.TOGETHER, ~behind), (Order.BEHIND, behind)):
            part = rows if some.all() else rows.filter(pa.array(some))
            for batch in part.combine_chunks().to_batches():
                yield Tuples(batch, order=order)
        if records.broken:
            yield Tuples(_without_values(records, ranges, rows.schema), order=Order.BEHIND)
    if holding.any():
        yield Tuples(pa.RecordBatch.from_pylist([], task.columns), hold_us=int(newest[holding].min()))


def _without_values(records: Records, ranges: Sequence[Range], schema: pa.Schema) -> pa.RecordBatch:
    """Return a row without values for each record that cannot be read: such tuples belong to no window, and count as invalid."""
    names = pa.array([ranges[broken.part].stream for broken in records.broken], pa.string())
    columns = [names if field.name == STREAM else pa.nulls(len(names), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
