"""The format "skytide-workload": exactly the tuples of the workload, at any pace, over any partitions, through any restart."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from skytide.errors import InvalidInput
from skytide.spark.sources.workload import WorkloadStream, register_sources, workload
from skytide.spark.sources.workload_reader import Offset, WorkloadReader

START_US = 1_700_000_000_000_000
LIMIT = ReadAllAvailable()


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, us: int) -> None:
        self.us = us

    def __call__(self) -> int:
        return self.us


def at(tick: int, start_us: int = START_US) -> Offset:
    return {"tick": tick, "tick_us": 10_000, "start_us": start_us}


def test_options_say_all_that_was_asked_for() -> None:
    for stream in [
        workload(rate=1),
        workload(rate=2.5, arrivals="map", dispersion=50, delay="300 ms", late_share=0.25, seed=7, partitions=5),
        workload(arrivals="steps", steps="1:5, 2:10", delays="pareto", delay="1 s", points="correlated", dimensions=3),
        workload(rate=9, tick="1 ms", pace="fast", batch="2 s", duration="1 min", start="2026-01-31 12:00:00+01:00"),
    ]:
        assert WorkloadStream.from_options(stream.options()) == stream


def test_a_start_is_a_time_in_utc_or_microseconds() -> None:
    for start in ("2023-11-14 22:13:20", "2023-11-14T23:13:20+01:00", str(START_US), START_US):
        assert workload(rate=1, start=start).start_us == START_US


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 5, "partitions": 0}, "partitions=0: out of range; give a whole number from 1 to"),
        ({"rate": 5, "pace": "slow"}, "pace='slow': not known; choose one of real, fast"),
        ({"rate": 5, "batch": "1 ms"}, "a batch of 1,000 microseconds: shorter than a tick, .* choose a longer batch"),
        ({"rate": 5, "duration": "1 ms"}, "a duration of 1,000 microseconds: shorter than a tick"),
        ({"rate": 5, "duration": "long"}, "duration='long': not a length of time"),
        ({"rate": 5, "delay": "-1 s"}, "delay='-1 s': not a length of time"),
        ({"rate": 5, "start": "noon"}, "start='noon': not a time; write it as"),
        ({"rate": -5}, "rate=-5: out of range"),
    ],
)
def test_what_cannot_be_played_is_refused_at_once(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        workload(**options)  # type: ignore[arg-type]


def test_a_new_stream_starts_with_the_current_second_or_when_it_was_told() -> None:
    assert WorkloadReader(workload(rate=1), Clock(START_US + 999_999)).initialOffset() == at(0)
    assert WorkloadReader(workload(rate=1, start=START_US), Clock(0)).initialOffset() == at(0)


def test_a_first_batch_keeps_its_start_though_spark_asks_for_it_again_a_second_later() -> None:
    """Spark notes where a batch ends, and asks for the start of the first one again when it runs it, or repeats it."""
    clock = Clock(START_US + 999_999)
    reader = WorkloadReader(workload(rate=1_000, dimensions=1, pace="fast"), clock)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    clock.us += 5_000_000
    assert {part.start_us for part in reader.partitions(reader.initialOffset(), end)} == {START_US}


def test_in_real_time_a_batch_takes_what_has_come() -> None:
    clock = Clock(START_US + 1_009_999)
    reader = WorkloadReader(workload(rate=1, duration="3 s"), clock)
    assert reader.reportLatestOffset() is None
    assert reader.latestOffset(at(0), LIMIT) == reader.reportLatestOffset() == at(100)
    assert reader.latestOffset(at(100), LIMIT) == at(100)
    clock.us = START_US  # somebody sets the clock back
    assert reader.latestOffset(at(100), LIMIT) == at(100)
    clock.us = START_US + 60_000_000
    assert reader.latestOffset(at(100), LIMIT) == at(300)
    assert reader.latestOffset(at(300), LIMIT) == at(300)


def test_in_real_time_a_batch_can_be_limited_and_the_backlog_is_told() -> None:
    reader = WorkloadReader(workload(rate=1, batch="200 ms"), Clock(START_US + 5_000_000))
    assert reader.latestOffset(at(0), LIMIT) == at(20)
    assert reader.reportLatestOffset() == at(500)


def test_a_fast_stream_knows_no_clock() -> None:
    reader = WorkloadReader(workload(rate=1, pace="fast", duration="700 ms"), Clock(0))
    assert [reader.latestOffset(at(tick), LIMIT) for tick in (0, 50, 70)] == [at(50), at(70), at(70)]
    assert WorkloadReader(workload(rate=1, pace="fast"), Clock(0)).latestOffset(at(10**9), LIMIT) == at(10**9 + 50)


def test_what_is_available_now_ends_now() -> None:
    clock = Clock(START_US + 1_000_000)
    reader = WorkloadReader(workload(rate=1, start=START_US), clock)
    reader.prepareForTriggerAvailableNow()
    clock.us += 1_000_000
    assert reader.latestOffset(at(0), LIMIT) == at(100)


def test_a_stream_of_which_all_or_nothing_is_available_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r'pace="fast": the stream has no end, .* give a duration'):
        WorkloadReader(workload(rate=1, pace="fast")).prepareForTriggerAvailableNow()
    with pytest.raises(InvalidInput, match=r'pace="real": the stream starts now, .* choose pace="fast" and a duration'):
        WorkloadReader(workload(rate=1, duration="1 s")).prepareForTriggerAvailableNow()


@given(st.integers(1, 9), st.integers(0, 1000), st.integers(0, 300), st.floats(0.1, 5_000))
def test_partitions_are_all_ticks_once_and_give_all_tuples(n: int, first: int, ticks: int, rate: float) -> None:
    stream = workload(rate=rate, arrivals="map", dispersion=20, dimensions=2, partitions=n)
    reader = WorkloadReader(stream)
    ranges = reader.partitions(at(first), at(first + ticks))
    assert len(ranges) <= n
    assert [part.last for part in ranges][:-1] == [part.first for part in ranges][1:]
    assert sum(part.last - part.first for part in ranges) == ticks
    read = pa.Table.from_batches((batch for part in ranges for batch in reader.read(part)), stream.workload.schema)
    assert read.equals(tuples_of(stream, first, first + ticks))


def test_partitions_share_bursts_evenly() -> None:
    stream = workload(rate=200_000, arrivals="map", dispersion=8_000, partitions=4)
    for first in range(0, 2_000, 50):
        ranges = WorkloadReader(stream).partitions(at(first), at(first + 50))
        sizes = [int(stream.workload.counts(part.first, part.last).sum()) for part in ranges]
        assert max(sizes) - min(sizes) <= 2 * stream.workload.counts(first, first + 50).max()


def tuples_of(stream: WorkloadStream, first: int, last: int, start_us: int = START_US) -> pa.Table:
    return pa.Table.from_batches(stream.workload.tuples(first, last, start_us), stream.workload.schema)


class Sink:
    """Keeps what each batch brought; fails once where it is told to, after it has seen the batch."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.batches: dict[int, pa.Table] = {}
        self.fail_at = fail_at

    def __call__(self, df: DataFrame, batch: int) -> None:
        rows = df.toArrow().sort_by("id")
        assert batch not in self.batches or self.batches[batch].equals(rows)  # a replay brings the same
        self.batches[batch] = rows
        if batch == self.fail_at:
            self.fail_at = None
            raise RuntimeError("told to fail")

    def rows(self) -> pa.Table:
        return pa.concat_tables([self.batches[batch] for batch in sorted(self.batches)]).combine_chunks()


def play(spark: SparkSession, stream: WorkloadStream, sink: Sink, checkpoint: Path) -> None:
    writer = stream.load(spark).writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.parametrize("partitions", [1, 3])
def test_spark_gets_exactly_the_tuples_of_the_workload(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    sink = Sink()
    stream = workload(
        rate=5_000,
        arrivals="map",
        dispersion=100,
        delay="300 ms",
        late_share=0.2,
        dimensions=3,
        partitions=partitions,
        pace="fast",
        duration="1200 ms",
        start=START_US,
    )
    play(spark, stream, sink, tmp_path)
    assert len(sink.batches) == 3
    assert sink.rows().equals(tuples_of(stream, 0, 120))


def test_a_restart_goes_on_without_loss_or_duplicate(spark: SparkSession, tmp_path: Path) -> None:
    sink = Sink(fail_at=1)
    stream = workload(rate=2_000, dimensions=2, pace="fast", batch="400 ms", duration="1 s")
    with pytest.raises(StreamingQueryException, match="told to fail"):
        play(spark, stream, sink, tmp_path)
    play(spark, workload(rate=2_000, dimensions=2, pace="fast", batch="400 ms", duration="2 s", partitions=3), sink, tmp_path)
    rows = sink.rows()
    start_us = int(rows["arrival"][0].value) // 1_000_000 * 1_000_000  # not given: kept from the first start
    assert rows.equals(tuples_of(stream, 0, 200, start_us))


def test_a_stream_with_other_ticks_needs_another_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    play(spark, workload(rate=50, pace="fast", duration="1 s"), Sink(), tmp_path)
    with pytest.raises(StreamingQueryException, match="ticks of 20,000 microseconds: the checkpoint counts ticks of 10,000"):
        play(spark, workload(rate=50, pace="fast", duration="1 s", tick="20 ms"), Sink(), tmp_path)


def test_wrong_options_are_refused_when_the_stream_is_loaded(spark: SparkSession) -> None:
    register_sources(spark)
    for options, message in [
        ({"rate": "many"}, "rate='many': not a number; write one"),
        ({"rate": "5", "speed": "3"}, "option='speed': not known; choose one of rate, "),
        ({"rate": "5", "pace": "fast", "duration": "1 parsec"}, "duration='1 parsec': not a length of time"),
    ]:
        with pytest.raises(AnalysisException, match=message):
            spark.readStream.format("skytide-workload").options(**options).load()


def test_an_endless_stream_is_not_available_now(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StreamingQueryException, match="the stream has no end"):
        play(spark, workload(rate=5, pace="fast"), Sink(), tmp_path)
