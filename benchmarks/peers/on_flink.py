"""PyFlink: panes by tumbling windows on every slot, then windows by sliding windows over the panes; event time throughout.

Python has no sources of its own in Flink. A thread sends the number of each tick down a socket when the tick has ended, and a function
in Flink makes the tuples of the tick: an array, or a row for each, which Flink SQL then aggregates in its `HOP` windows.
"""

import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from pyflink.common import Configuration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, FlatMapFunction, MapFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessAllWindowFunction
from pyflink.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

from benchmarks.peers.common import (
    COLUMNS,
    DIMENSIONS,
    SLIDE_US,
    TICK_US,
    WINDOW_US,
    Clock,
    Task,
    packed,
    tuple_times_us,
    unpacked,
)

SETTINGS = {
    "python.execution-mode": "thread",  # inside the JVM; as processes, with bundles of 10 ms, windows come out three times as late
    "pipeline.object-reuse": "true",
    "pipeline.auto-watermark-interval": "10 ms",
    "execution.buffer-timeout.interval": "5 ms",
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "python.executable": sys.executable,
    "python.client.executable": sys.executable,
}


class EndOfTick(TimestampAssigner):
    """The time of an array is when its tick ends, less a millisecond."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return it."""
        return int(value[0])


class Make(MapFunction):
    """Make the array of a tick."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def map(self, line: str) -> Any:
        """Return its time, the slot that reduces it, and the points."""
        tick = int(line)
        end_ms = (self.task.start_us() + (tick + 1) * TICK_US) // 1000
        return end_ms - 1, tick % self.task.workers, packed(self.task.tick(tick))


class Pane(ProcessWindowFunction):
    """Reduce the arrays of a pane."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        """Return what windows need of them."""
        yield context.window().max_timestamp(), packed(self.task.partial([unpacked(each[2]) for each in elements]))


class Window(ProcessAllWindowFunction):
    """Answer a window from its panes."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def process(self, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        """Write the answer."""
        self.task.write(context.window().end * 1000, self.task.answer([unpacked(each[1]) for each in elements]))
        yield 0


def arrays(ticks: DataStream, task: Task) -> None:
    """Windows over arrays."""
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EndOfTick())
    made = ticks.map(Make(task), Types.TUPLE([Types.LONG(), Types.INT(), Types.PRIMITIVE_ARRAY(Types.BYTE())]))
    panes = (
        made.assign_timestamps_and_watermarks(timed)
        .key_by(lambda element: element[1], Types.INT())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(SLIDE_US // 1000)))
        .process(Pane(task), Types.TUPLE([Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE())]))
    )
    sliding = SlidingEventTimeWindows.of(Time.milliseconds(WINDOW_US // 1000), Time.milliseconds(SLIDE_US // 1000))
    panes.window_all(sliding).process(Window(task), Types.INT())


class Rows(FlatMapFunction):
    """Make the tuples of a tick."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def flat_map(self, line: str) -> Iterator[Row]:
        """Return a row for each: its time in milliseconds, and the point."""
        tick = int(line)
        points = self.task.tick(tick)
        times = tuple_times_us(self.task.start_us() + tick * TICK_US, len(points))
        for time_us, point in zip(times, points.tolist(), strict=True):
            yield Row(time_us // 1000, *point)


class Write(MapFunction):
    """Write the answers that SQL gave."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def map(self, row: Any) -> int:
        """Write one."""
        self.task.write(row[0] * 1000, np.array([row[1], row[2], row[3]]))
        return 0


AGGREGATE = """
    SELECT UNIX_TIMESTAMP(CAST(window_end AS STRING)) * 1000 + EXTRACT(MILLISECOND FROM window_end) AS end_ms, n, mean, most FROM (
    SELECT window_end, COUNT(*) AS n, AVG(x0) AS mean, MAX(x1) AS most
    FROM TABLE(HOP(TABLE tuples, DESCRIPTOR(ts), INTERVAL '0.2' SECOND, INTERVAL '1' SECOND))
    GROUP BY window_start, window_end)
"""


def rows(env: StreamExecutionEnvironment, ticks: DataStream, task: Task) -> None:
    """Windows of Flink SQL over rows."""
    kind = Types.ROW_NAMED(["ms", *COLUMNS], [Types.LONG(), *[Types.DOUBLE()] * DIMENSIONS])
    schema = Schema.new_builder().column("ms", DataTypes.BIGINT())
    for name in COLUMNS:
        schema = schema.column(name, DataTypes.DOUBLE())
    schema = schema.column_by_expression("ts", "TO_TIMESTAMP_LTZ(ms, 3)").watermark("ts", "ts")
    tables = StreamTableEnvironment.create(env)
    tables.get_config().set_local_timezone("UTC")
    tables.create_temporary_view("tuples", tables.from_data_stream(ticks.flat_map(Rows(task), kind), schema.build()))
    tables.to_data_stream(tables.sql_query(AGGREGATE)).map(Write(task), Types.INT())


def send(server: socket.socket, task: Task) -> None:
    """Send the numbers of ticks, when they have ended, to who connects."""
    connection, _ = server.accept()
    clock = Clock(task)
    while True:
        connection.sendall("".join(f"{tick}\n" for tick in clock.come()).encode())
        clock.wait()


def main() -> None:
    """Run until stopped."""
    task = Task.told()
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=send, args=(server, task), daemon=True).start()
    settings = Configuration()
    for name, value in SETTINGS.items():
        settings.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    ticks = DataStream(env._j_stream_execution_environment.socketTextStream("127.0.0.1", server.getsockname()[1]))
    if task.form == "arrays":
        arrays(ticks.rebalance(), task)
    else:
        rows(env, ticks.rebalance(), task)
    env.execute("peer")


if __name__ == "__main__":
    main()
