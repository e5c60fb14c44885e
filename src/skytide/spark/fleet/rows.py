"""From records of ranges to tuples for the pane level."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.batch import RunPanes
from skytide.lateness import Order
from skytide.lateness.clock import STAY_US
from skytide.lateness.crowds import FAR_US, crowds_of, newest_of
from skytide.spark.engine.panes import PaneTask, Tuples, times_us
from skytide.spark.fleet.feeds import STREAM, Range, Records
from skytide.spark.fleet.reports import Wait

_NONE = np.zeros(0, np.int64)


class Holding:
    """What holds the punctuation back: streams of which something is kept waiting, each at its newest tuple, as the rest of it may be no newer.

    One of which nothing came that has a credible time holds it where it is; one that is too far behind for any delay holds nothing. With a
    bound, none holds it further back than that behind the newest tuple so far.
    """

    def __init__(self, ranges: Sequence[Range], instruction: RunPanes, bound_us: int | None = None, left_out: str = "") -> None:
        """Start before anything of the ranges is read; nothing is let in of the stream that is `left_out`, if one is named."""
        self.ranges = ranges
        self._instruction, self._bound_us, self._left_out = instruction, bound_us, left_out
        self._behind = np.array([wanted.is_behind for wanted in ranges], np.bool_)
        self._times: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def add(self, ranges: NDArray[np.int64], times: NDArray[np.int64], missing: NDArray[np.bool_]) -> None:
        """Take in the times of some tuples, which of them have none, and the ranges they are of."""
        if self._behind.any():
            self._times.append((ranges[~missing], times[~missing]))

    def hold_us(self) -> int | None:
        """Return the time that the punctuation must not pass; None if nothing holds it."""
        holding = self._holding()
        if not holding:
            return None
        hold_us, newest_us = min(holding)[0], self._instruction.newest_us
        return hold_us if self._bound_us is None or newest_us is None else max(hold_us, newest_us - self._bound_us)

    def wait(self) -> Wait | None:
        """Return the stream that is furthest behind; of one of which nothing came, nobody knows how far."""
        holding, newest_us = self._holding(), self._instruction.newest_us
        if not holding:
            return None
        reached_us, stream = min(holding)
        if newest_us is None or reached_us == STAY_US:
            return Wait(stream, 0.0)
        return Wait(stream, max(0.0, (newest_us - reached_us) / 1e6))

    def _holding(self) -> list[tuple[int, str]]:
        """Return where streams hold the punctuation, and their names."""
        holding = [(STAY_US, self._left_out)] if self._left_out else []
        behind = np.flatnonzero(self._behind).tolist()
        if not behind:
            return holding
        newest_us, reached_us = self._reached_us()
        for number in behind:
            at_us = int(reached_us[number])
            if at_us == STAY_US or newest_us is None or newest_us - at_us <= FAR_US:
                holding.append((at_us, self.ranges[number].stream))
        return holding

    def _reached_us(self) -> tuple[int | None, NDArray[np.int64]]:
        """Return the newest credible time, and that of each range: one wrong time far ahead says nothing about the rest of a stream."""
        ranges = np.concatenate([_NONE, *(ranges for ranges, _ in self._times)])
        times = np.concatenate([_NONE, *(times for _, times in self._times)])
        crowds = crowds_of(np.sort(times), self._instruction.leap_us)  # streams are read in turn: their order says nothing
        newest_us = newest_of(self._instruction.newest_us, crowds, self._instruction.leap_us)
        reached_us = np.full(len(self.ranges), STAY_US)
        if newest_us is not None:
            credible = times <= newest_us
            np.maximum.at(reached_us, ranges[credible], times[credible])
        return newest_us, reached_us


def as_tuples(read: Iterable[Records], holding: Holding, task: PaneTask) -> Iterator[Tuples]:
    """Yield records as tuples, in no order: those of streams that we kept waiting are separate from the others."""
    ranges = holding.ranges
    waited = np.array([wanted.was_behind or wanted.is_behind for wanted in ranges], np.bool_)
    for records in read:
        rows = records.named(ranges)
        behind = waited[records.ranges]
        if rows.num_rows:
            holding.add(records.ranges, times_us(rows, task.spec.time), np.asarray(rows[task.spec.time].is_null()))
        for order, some in ((Order.TOGETHER, ~behind), (Order.BEHIND, behind)):
            part = rows if some.all() else rows.filter(pa.array(some))
            for batch in part.combine_chunks().to_batches():
                yield Tuples(batch, order=order)
        if records.broken:
            yield Tuples(_without_values(records, ranges, rows.schema), order=Order.BEHIND)
    if (hold_us := holding.hold_us()) is not None:
        yield Tuples(pa.RecordBatch.from_pylist([], task.spec.columns), hold_us=hold_us)


def _without_values(records: Records, ranges: Sequence[Range], schema: pa.Schema) -> pa.RecordBatch:
    """Return a row without values for each record that cannot be read: such tuples belong to no window, and count as invalid."""
    names = pa.array([ranges[broken.part].stream for broken in records.broken], pa.string())
    columns = [names if field.name == STREAM else pa.nulls(len(names), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
