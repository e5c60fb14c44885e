"""Spreads, sketches and a user's own functions: as exact as documented, however values are divided."""

import datetime
import decimal
import math
import statistics

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.aggregates import Latest, Span

from skytide.errors import InvalidInput
from skytide.errors.limits import MAX_ACCURACY
from skytide.queries import Aggregate, Distinct, Measure, Quantile, collect
from skytide.queries.sketches import LG_REGISTERS
from skytide.testing import BrokenLaw, check_query
from skytide.workloads.identity import derive

DISTINCT_ERROR = 1.04 / 2 ** (LG_REGISTERS / 2)
NUMBERS = st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=30)


def divided(query: Aggregate, rows: pa.Table, parts: int) -> pa.Table:
    """Return the answer from parts, some of which are merged before."""
    of = np.arange(len(rows)) % parts
    kept = [query.pane(rows.filter(pa.array(of == part))) for part in range(parts)]
    early = query.merge(pa.concat_tables(kept[: parts // 2])) if parts > 1 else kept[0].slice(0, 0)
    return query.window(pa.concat_tables([*kept[parts // 2 :], early]))


def test_spreads_are_those_of_their_definition() -> None:
    values = derive(1, "spread").normal(1e9, 1.0, 1000)  # close together and far from zero: sums of squares would lose all digits
    query = Aggregate(tuple(Measure.parse(f"{name}(v)") for name in ("stddev", "stddev_pop", "variance", "var_pop")))
    [found] = divided(query, pa.table({"v": values}), 7).to_pylist()
    exact = [statistics.stdev, statistics.pstdev, statistics.variance, statistics.pvariance]
    for (name, value), expected in zip(found.items(), exact, strict=True):
        assert math.isclose(value, expected(values.tolist()), rel_tol=1e-9), name


@given(values=NUMBERS, parts=st.integers(1, 4))
def test_spreads_do_not_depend_on_the_division(values: list[float | None], parts: int) -> None:
    query = Aggregate(tuple(map(Measure.parse, ("stddev(v) AS sample", "var_pop(v) AS all"))))
    [found] = divided(query, pa.table({"v": pa.array(values, pa.float64())}), parts).to_pylist()
    there = [value for value in values if value is not None]
    assert (found["sample"] is None) == (len(there) < 2) and (found["all"] is None) == (not there)
    if len(there) > 1:
        assert math.isclose(found["sample"], statistics.stdev(there), rel_tol=1e-6, abs_tol=1e-6)


@pytest.mark.parametrize("distinct", [0, 1, 100, 5_000, 200_000])
def test_distinct_values_are_counted_within_the_bound_and_the_same_however_divided(distinct: int) -> None:
    values = derive(2, "distinct", distinct).permutation(np.repeat(np.arange(distinct) * 7919, 2))
    query = Aggregate((Measure("count_distinct", "v", "n", Distinct()), Measure.parse("count(*)")))
    rows = pa.table({"v": pa.array(values, pa.int64()), "w": values.astype(str)})
    found = [divided(query, rows, parts).to_pylist() for parts in (1, 2, 5)]
    if not distinct:
        assert found == [[]] * 3
        return
    assert found[0] == found[1] == found[2]
    assert abs(found[0][0]["n"] - distinct) <= (3 * DISTINCT_ERROR * distinct if distinct > 400 else 0)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([0.0, -0.0, math.nan, -math.nan, None], pa.float64(), 2),
        (["", "a", "A", None, "a"], pa.string(), 3),
        ([b"", b"\x00", b"00"], pa.binary(), 3),
        ([True, False, None], pa.bool_(), 2),
        ([1, -1, None], pa.int8(), 2),
        ([None, None], pa.int64(), 0),
    ],
)
def test_distinct_values_of_any_type(values: list[object], kind: pa.DataType, expected: int) -> None:
    query = Aggregate((Measure("count_distinct", "v", "n", Distinct()),))
    assert divided(query, pa.table({"v": pa.array(values, kind, from_pandas=False)}), 2).to_pylist() == [{"n": expected}]


@pytest.mark.parametrize(("accuracy", "count"), [(100, 100_000), (1_000, 100_000), (10_000, 20_000)])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_quantiles_have_a_rank_within_the_bound(share: float, accuracy: int, count: int) -> None:
    values = derive(3, "quantiles", accuracy).permutation(count)  # the rank of a value is the value
    query = Aggregate((Measure("percentile_approx", "v", "q", Quantile(share, accuracy)),))
    [found] = divided(query, pa.table({"v": values}), 4).to_pylist()
    assert abs(found["q"] + 1 - share * count) <= count / accuracy + 1
    assert found["q"] in range(count)


def test_few_values_have_exact_quantiles() -> None:
    query = Aggregate(tuple(Measure("percentile_approx", "v", f"q{share}", Quantile(share)) for share in (0.0, 0.5, 1.0)))
    rows = pa.table({"v": pa.array([5, None, 1, 9, 7], pa.int32())})
    assert divided(query, rows, 3).to_pylist() == [{"q0.0": 1, "q0.5": 5, "q1.0": 9}]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([2**63 - 1, -(2**63)], pa.int64()),
        ([127, -128], pa.int8()),
        ([decimal.Decimal("99999.99"), decimal.Decimal("-0.01")], pa.decimal128(7, 2)),
        ([datetime.date(2026, 1, 2), datetime.date(1969, 1, 1)], pa.date32()),
        ([1.5, -math.inf], pa.float32()),
    ],
)
def test_quantiles_have_the_type_of_the_values(values: list[object], kind: pa.DataType) -> None:
    query = Aggregate(tuple(Measure("percentile_approx", "v", f"q{share}", Quantile(share)) for share in (0.0, 1.0)))
    rows = pa.table({"v": pa.array(values, kind)})
    assert query.schema(rows.schema).types == [kind, kind]
    assert divided(query, rows, 2).to_pylist() == [{"q0.0": min(values), "q1.0": max(values)}]  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("share", "accuracy", "reason"),
    [
        (1.5, 100, "not a share"),
        (-0.1, 100, "not a share"),
        (math.nan, 100, "not a share"),
        (0.5, 0, "accuracy=0"),
        (0.5, MAX_ACCURACY + 1, "accuracy="),
    ],
)
def test_a_quantile_that_cannot_be_is_refused(share: float, accuracy: int, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        Quantile(share, accuracy)


@given(values=NUMBERS, seed=st.integers(0, 2**32))
def test_an_own_function_does_not_depend_on_the_division(values: list[float | None], seed: int) -> None:
    rows = pa.table({"v": pa.array(values, pa.float64())})
    check_query(Aggregate((collect(Span(), "v", name="x"),)), rows, tries=1, seed=seed)


def test_the_law_catches_one_that_does() -> None:
    with pytest.raises(BrokenLaw):
        check_query(Aggregate((collect(Latest(), "v", name="x"),)), {"v": [1.0, 2.0, 3.0, 4.0]})


def test_what_is_not_mergeable_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"function=.*: not mergeable; derive from skytide\.Mergeable"):
        collect(max, "price", name="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="name="):
        collect(Span(), "price", name="")
    with pytest.raises(InvalidInput, match="have no quantiles"):
        Aggregate((Measure("percentile_approx", "v", "q", Quantile(0.5)),)).check(pa.schema([("v", pa.string())]))
