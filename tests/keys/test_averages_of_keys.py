"""Averages of integers in windows of keys, whatever their sum: those of a query without keys, and as exact."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from skytide.keyed import AggregateAnswer
from skytide.queries import Aggregate, Measure

QUERY = Aggregate((Measure.parse("avg(v) AS x"),), time="t")
ODD = [2**63 - 1, -(2**63), 2**62, 2**53 + 1, 2**53 + 3, 2**53, -(2**53) - 1, 1, 0, -1, None]


def average(values: list[int | None]) -> float | None:
    """Return the average as Spark computes it, except that the sum is rounded once: each value becomes a float first."""
    numbers = [Fraction(float(value)) for value in values if value is not None]
    return float(sum(numbers, Fraction(0))) / len(numbers) if numbers else None


@given(
    values=st.lists(st.sampled_from(ODD) | st.integers(-(2**63), 2**63 - 1), max_size=12),
    bounds=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=6),
)
@example(values=[2**63 - 1] * 3, bounds=[(0, 1), (0, 2), (0, 3)])
@example(values=[-(2**63)] * 3, bounds=[(0, 2), (0, 3)])
@example(values=[2**63 - 1, -(2**63), 5], bounds=[(0, 3)])
@example(values=[2**53 + 1] * 3, bounds=[(0, 3)])
@example(values=[2**53 - 1] * 3_000, bounds=[(0, 3_000)])  # no value is large, but the sum is
def test_the_sum_may_overflow(values: list[int | None], bounds: list[tuple[int, int]]) -> None:
    rows = pa.table({"v": pa.array(values, pa.int64()), "t": pa.array(range(len(values)), pa.int64())})
    windows = [sorted(min(bound, len(values)) for bound in each) for each in bounds]
    begins, ends = (np.array([each[i] for each in windows], np.int64) for i in range(2))
    found, counts = AggregateAnswer(QUERY).windows(rows, begins, ends)
    expected = [average(values[begin:end]) for begin, end in windows]
    assert found["x"].to_pylist() == expected and counts.tolist() == [1] * len(windows)
    for (begin, end), each in zip(windows, expected, strict=True):
        if end > begin:
            assert QUERY.window(QUERY.pane(rows.slice(begin, end - begin)))["x"].to_pylist() == [each]
