"""Times far ahead of an operator on keys: a flush takes what may be right, and one wrong time does not make all that follows late."""

import tempfile

import pytest
from support.engine import InProcess, Outputs, tuples
from support.keyed import plan_of, step

from skytide.keyed import AggregateAnswer, CountWindows
from skytide.lateness import FixedSlack, KSlack, Slack
from skytide.queries import Aggregate, Measure
from skytide.spark.engine.engine import Engine

MINUTE_US = 60_000_000
DAY_US = 1_440 * MINUTE_US
START_US = 1_700_000_000_000_000
COUNTS = AggregateAnswer(Aggregate((Measure.parse("count(*) AS n"),), time="ts"))


def played(batches: list[list[int]], slack: Slack) -> tuple[Engine, int]:
    """Return an engine that has flushed after each batch, and how many rows its windows of ten have together."""
    out = Outputs()
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(*plan_of(step(CountWindows(1, 1), COUNTS), folder, slack), out.sinks)
        for number, times_us in enumerate(batches):
            [tables] = tuples([[times_us]])
            engine.run_batch(InProcess(), tables, number)
            engine.flush(InProcess())
    return engine, sum(row["n"] for row in out.results.rows())


@pytest.mark.parametrize("slack", [KSlack(), FixedSlack(0)], ids=str)
@pytest.mark.parametrize("wrong", [1, 3])
def test_a_flush_after_a_wrong_time_makes_nothing_late(slack: Slack, wrong: int) -> None:
    days = [[START_US + day * DAY_US + minute * MINUTE_US for minute in range(200)] for day in range(4)]
    days[1][100:100] = [START_US + (number + 1) * 36_500 * DAY_US for number in range(wrong)]
    engine, rows = played(days, slack)
    assert (engine.status().late, engine.status().held, rows) == (0, wrong, 800)


@pytest.mark.parametrize("distance_us", [DAY_US, 31 * DAY_US, 365 * DAY_US])
@pytest.mark.parametrize("rows", [2, 5, 9, 30])
@pytest.mark.parametrize("each", [1, 3, 30])
def test_a_flush_takes_all_of_a_sparse_stream(distance_us: int, rows: int, each: int) -> None:
    times = [START_US + number * distance_us for number in range(rows)]
    engine, found = played([times[at : at + each] for at in range(0, rows, each)], FixedSlack(0))
    assert (engine.status().late, engine.status().held, found) == (0, 0, rows)


def test_a_flush_takes_a_tuple_after_a_silence_of_days() -> None:
    times = [START_US + minute * MINUTE_US for minute in range(200)]
    engine, rows = played([[*times, times[-1] + 29 * DAY_US], [times[-1] + 30 * DAY_US]], FixedSlack(0))
    assert (engine.status().late, engine.status().held, rows) == (0, 0, 202)
