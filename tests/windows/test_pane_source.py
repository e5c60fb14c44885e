"""The pane level inside a source: what it reports does not depend on the number of its tasks, and when its batches begin."""

import tempfile
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import Plan
from support.examples import examples

from skytide.batch import BatchRules, InSource, Pace, PaneReport
from skytide.lateness import FixedSlack, KSlack
from skytide.queries import Skyline, low
from skytide.routing import EVEN
from skytide.spark.checkpoint import Store
from skytide.spark.engine.panes import read_reports
from skytide.spark.sources.panes import PaneReader
from skytide.spark.sources.workload import workload
from skytide.spark.sources.workload_reader import WorkloadReader
from skytide.windows import Windows

START_US, LEAP_US = 1_700_000_000_000_000, 60_000_000


@pytest.mark.parametrize(
    "delays", [{}, {"delay": "5 ms"}, {"delay": "300 ms", "late_share": 0.2}, {"delays": "pareto", "delay": "1 s"}]
)
@given(first=st.integers(0, 20), length=st.integers(0, 60), rate=st.sampled_from([20, 1_000]))
@settings(max_examples=examples(20))
def test_delays_do_not_depend_on_partitions(delays: dict[str, Any], first: int, length: int, rate: int) -> None:
    reports = []
    for partitions in (1, 2, 7):
        source = workload(rate=rate, dimensions=2, partitions=partitions, start=START_US, **delays)
        with tempfile.TemporaryDirectory() as folder:
            query = Skyline(low("x0") * low("x1"))
            rules = BatchRules(Windows(100_000, 100_000), KSlack(), InSource(EVEN), pane_slots=partitions)
            reader = PaneReader(WorkloadReader(source), *Plan.of(query, rules, Store(folder), source.workload.schema))
            start, end = ({**reader.initialOffset(), "tick": tick} for tick in (first, first + length))
            ranges = reader.partitions(start, end)
            made = [report for part in ranges for report in reader.read(part)]
            report = read_reports(pa.Table.from_batches(made)) if made else PaneReport()
            tuples: dict[int, int] = {}
            for part in report.parts:
                tuples[part.pane] = tuples.get(part.pane, 0) + part.tuples
            reports.append((replace(report.arrivals(LEAP_US), newest_us=None), tuples))
    assert reports[0] == reports[1] == reports[2]


@given(first=st.integers(0, 30), last=st.integers(0, 60), rate=st.sampled_from([5, 50, 2_000]))
def test_the_newest_tuple_is_found(first: int, last: int, rate: int) -> None:
    made = workload(rate=rate, dimensions=1, delays="pareto", delay="100 ms", late_share=0.7).workload
    times = [batch["ts"].cast(pa.int64()).to_numpy().max() for batch in made.tuples(first, last, START_US)]
    assert made.newest_us(first, last, START_US) == max(times, default=None)


@given(length=st.integers(1, 3_000_000), slide=st.integers(1, 3_000_000), time=st.integers(0, 10**13))
def test_windows_end_when_batches_are_due(length: int, slide: int, time: int) -> None:
    windows = Windows(max(length, slide), slide)
    pace = Pace(windows)
    due = pace.next_us(time)
    assert time < due <= time + pace.interval_us
    end = windows.end_us(windows.last_ended_by(time) + 1)
    if slide >= 100_000:
        assert due <= end  # no end is passed over
        assert pace.next_us(end - 1) == end
    else:
        assert due == windows.end_us(windows.last_ended_by(due))  # several ends together


@pytest.mark.parametrize("slack_us", [0, 70_000])
def test_a_batch_begins_when_a_window_can_end(slack_us: int) -> None:
    now_us = START_US
    source = workload(rate=1_000, arrivals="constant", dimensions=2, start=START_US)
    windows = Windows(1_000_000, 200_000)
    with tempfile.TemporaryDirectory() as folder:
        rules = BatchRules(windows, FixedSlack(f"{slack_us} us" if slack_us else 0), InSource(EVEN))
        plan = Plan.of(Skyline(low("x0")), rules, Store(folder), source.workload.schema)
        reader = PaneReader(WorkloadReader(source, lambda: now_us), *plan, Pace(windows))
        at, begun = reader.initialOffset(), []
        for now_us in range(START_US, START_US + 1_500_000, 5_000):
            after = reader.latestOffset(at, None)
            if after != at:
                reader.partitions(at, after)
                begun.append(now_us - START_US)
                at = after
    # The first batch does not know the slack yet; the others begin with the first tick after a window's end and the slack.
    expected = [200_000 * number + 10_000 + slack_us for number in range(1, 8)]
    assert begun[0] == 210_000
    assert [at for at in begun if at != 210_000] == [at for at in expected if at != 210_000 and at < 1_500_000]
