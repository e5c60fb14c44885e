"""Pathway: panes by its tumbling windows, then windows by its sliding windows over the panes; complete ones are written.

In two threads of one process, as `pathway spawn --threads 2` starts them. A pane is given out once, when time has passed its end.
"""

import os
from typing import Any

os.environ["PATHWAY_THREADS"] = "2"

import pathway as pw

from benchmarks.peers.common import COLUMNS, PANES, SLIDE_US, TICK_US, WINDOW_US, Clock, Task, packed, tuple_times_us, unpacked


class Ticks(pw.io.python.ConnectorSubject):
    """The stream: an array of each tick as bytes, or its tuples."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    def run(self) -> None:
        """Send ticks when they have ended."""
        clock = Clock(self.task)
        while True:
            clock.wait()
            for tick in clock.come():
                points, begin_us = self.task.tick(tick), clock.start_us + tick * TICK_US
                if self.task.form == "arrays":
                    self.next(ts=begin_us, points=packed(points))
                    continue
                for time_us, point in zip(tuple_times_us(begin_us, len(points)), points.tolist(), strict=True):
                    self.next(ts=time_us, **dict(zip(COLUMNS, point, strict=True)))
            self.commit()


def dataflow(task: Task) -> None:
    """Build the dataflow."""
    columns = {"points": bytes} if task.form == "arrays" else dict.fromkeys(COLUMNS, float)
    schema = pw.schema_from_types(ts=int, **columns)
    elements = pw.io.python.read(Ticks(task), schema=schema, autocommit_duration_ms=None)
    tumbling = elements.windowby(
        elements.ts, window=pw.temporal.tumbling(duration=SLIDE_US), behavior=pw.temporal.exactly_once_behavior()
    )
    if task.form == "arrays":
        collected = tumbling.reduce(ts=pw.this._pw_window_start, parts=pw.reducers.tuple(pw.this.points))
        reduce = pw.udf(lambda parts: packed(task.partial([unpacked(part) for part in parts])), return_type=bytes)
        panes = collected.select(pw.this.ts, part=reduce(pw.this.parts))
    else:
        collected = tumbling.reduce(
            ts=pw.this._pw_window_start, n=pw.reducers.count(), sum=pw.reducers.sum(pw.this.x0), most=pw.reducers.max(pw.this.x1)
        )
        note = pw.udf(lambda *folded: packed(task.as_partial(folded)), return_type=bytes)
        panes = collected.select(pw.this.ts, part=note(pw.this.n, pw.this.sum, pw.this.most))
    windows = panes.windowby(
        panes.ts,
        window=pw.temporal.sliding(hop=SLIDE_US, duration=WINDOW_US),
        behavior=pw.temporal.common_behavior(cutoff=WINDOW_US, keep_results=False),
    ).reduce(end=pw.this._pw_window_end, n=pw.reducers.count(), parts=pw.reducers.tuple(pw.this.part))
    complete = windows.filter(pw.this.n == PANES)

    def write(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            task.write(row["end"], task.answer([unpacked(part) for part in row["parts"]]))

    pw.io.subscribe(complete, write)


if __name__ == "__main__":
    dataflow(Task.told())
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
