"""The pane level inside a source: what it reports does not depend on the number of its tasks."""

import tempfile
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skytide.batch import InSource, PaneReport, Rules
from skytide.lateness import KSlack
from skytide.queries import Skyline, low
from skytide.routing import EVEN
from skytide.spark.checkpoint import Store
from skytide.spark.engine import Plan
from skytide.spark.pane_level import read_reports
from skytide.spark.pane_source import PaneReader
from skytide.spark.workload_source import WorkloadReader, workload
from skytide.windows import Windows

START_US, LEAP_US = 1_700_000_000_000_000, 60_000_000


@pytest.mark.parametrize(
    "delays", [{}, {"delay": "5 ms"}, {"delay": "300 ms", "late_share": 0.2}, {"delays": "pareto", "delay": "1 s"}]
)
@given(first=st.integers(0, 20), length=st.integers(0, 60), rate=st.sampled_from([20, 1_000]))
@settings(max_examples=20)
def test_delays_do_not_depend_on_partitions(delays: dict[str, Any], first: int, length: int, rate: int) -> None:
    reports = []
    for partitions in (1, 2, 7):
        source = workload(rate=rate, dimensions=2, partitions=partitions, start=START_US, **delays)
        with tempfile.TemporaryDirectory() as folder:
            query = Skyline(low("x0") * low("x1"))
            rules = Rules(Windows(100_000, 100_000), KSlack(), InSource(EVEN), pane_slots=partitions)
            reader = PaneReader(WorkloadReader(source), Plan(query, rules, "ts", source.workload.schema, (), Store(folder)))
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
