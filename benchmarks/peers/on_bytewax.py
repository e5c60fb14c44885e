"""Bytewax: panes by its tumbling windows on every worker, then windows by a stateful step that waits for all their panes.

A process for each worker, as its documentation advises for work in Python. The clock of the windows follows the times of the tuples
alone (`now_getter`): by default it runs on between tuples, and drops as late what a busy worker sees a little after it was due.
"""

import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

from benchmarks.peers.common import PANES, SLIDE_US, TICK_US, Array, Clock, Task, free_ports, tuple_times_us, windows_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEYS = ("a", "b")  # which Bytewax sends to different workers, if there are two


def at(time_us: int) -> datetime:
    """Return a time as Bytewax wants it."""
    return EPOCH + timedelta(microseconds=time_us)


class Ticks(StatelessSourcePartition[Any]):
    """The ticks of a worker, when they have ended: an array of each, or its tuples."""

    def __init__(self, task: Task, worker: int, workers: int) -> None:
        self.task, self.clock, self.key = task, Clock(task, worker, workers), KEYS[worker]

    def next_batch(self) -> list[Any]:
        """Return what has come."""
        batch: list[Any] = []
        for tick in self.clock.come():
            points, begin_us = self.task.tick(tick), self.clock.start_us + tick * TICK_US
            if self.task.form == "arrays":
                batch.append((self.key, (begin_us, points)))
            else:
                times = tuple_times_us(begin_us, len(points))
                batch += [(self.key, (time_us, *point)) for time_us, point in zip(times, points.tolist(), strict=True)]
        return batch

    def next_awake(self) -> datetime:
        """Return when the next tick ends."""
        return at(int(self.clock.next_s() * 1e6))


class Source(DynamicSource[Any]):
    """The stream."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Ticks:
        """Return the part of a worker."""
        return Ticks(self.task, worker_index, worker_count)


class Answers(DynamicSink[Any], StatelessSinkPartition[Any]):
    """Files."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def build(self, step_id: str, worker_index: int, worker_count: int) -> "Answers":
        """Return the same for every worker."""
        return self

    def write_batch(self, items: list[Any]) -> None:
        """Write."""
        for _, (end_us, answer) in items:
            self.task.write(end_us, answer)


def dataflow(task: Task) -> Dataflow:
    """Return the dataflow."""
    start_us = task.start_us()
    clock = win.EventClock(lambda element: at(element[0]), timedelta(0), now_getter=lambda: EPOCH, to_system_utc=lambda time: None)
    panes = win.TumblingWindower(timedelta(microseconds=SLIDE_US), at(start_us))
    flow = Dataflow("peer")
    elements = op.input("ticks", flow, Source(task))
    if task.form == "arrays":
        collected = win.collect_window("panes", elements, clock, panes, ordered=False)
        reduced = op.map_value("reduce", collected.down, lambda pane: (pane[0], task.partial([points for _, points in pane[1]])))
    else:
        folded = win.fold_window("panes", elements, clock, panes, lambda: (0, 0.0, 0.0), fold, merge, ordered=False)
        reduced = op.map_value("reduce", folded.down, lambda pane: (pane[0], task.as_partial(pane[1])))
    spread = op.flat_map("spread", reduced, lambda keyed: [(str(last), (last, keyed[1][1])) for last in windows_of(keyed[1][0])])

    def gather(state: list[Array] | None, value: tuple[int, Array]) -> tuple[list[Array] | None, list[Any]]:
        partials = [*(state or []), value[1]]
        if len(partials) < PANES * task.workers:
            return partials, []
        return None, [(start_us + (value[0] + 1) * SLIDE_US, task.answer(partials))]

    op.output("answers", op.stateful_flat_map("windows", spread, gather), Answers(task))
    return flow


def fold(so_far: tuple[int, float, float], element: tuple[Any, ...]) -> tuple[int, float, float]:
    """Add a tuple to count, sum and maximum."""
    return so_far[0] + 1, so_far[1] + element[1], max(so_far[2], element[2])


def merge(one: tuple[int, float, float], other: tuple[int, float, float]) -> tuple[int, float, float]:
    """Add what was folded apart."""
    return one[0] + other[0], one[1] + other[1], max(one[2], other[2])


if __name__ == "__main__":
    told = Task.told()
    addresses = [f"127.0.0.1:{port}" for port in free_ports(told.workers)]
    number = sum(os.fork() == 0 for _ in range(1))
    sys.exit(cluster_main(dataflow(told), addresses, number))
