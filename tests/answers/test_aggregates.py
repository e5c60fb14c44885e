"""Aggregates of odd values: exact, the same however rows are divided, and an error only if the total does not fit."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.queries import Aggregate, Distinct, Measure
from skytide.queries.functions import FUNCTIONS
from skytide.queries.sums import addends, rounded_addends

NAN, INF = math.nan, math.inf


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal | None]:
    unscaled = st.one_of(st.integers(-(10**digits) + 1, 10**digits - 1), st.sampled_from([10**digits - 1, 1 - 10**digits, 1, 0]))
    return st.none() | unscaled.map(lambda value: Decimal((value < 0, tuple(map(int, str(abs(value)))), -scale)))


FLOATS = st.sampled_from([NAN, -NAN, 0.0, -0.0, 1.5, -1.5, INF, -INF, None])
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1, 2**53 + 3, -(2**62), 1, 0, -1, None])),
    "byte": (pa.int8(), st.integers(-128, 127) | st.none()),
    "cents": (pa.decimal128(10, 2), decimals(10, 2)),
    "wide": (pa.decimal128(38, 20), decimals(38, 20)),
    "unit": (pa.decimal128(38, 38), decimals(38, 38)),
    "double": (pa.float64(), FLOATS),
    "float": (pa.float32(), FLOATS),
    "text": (pa.string(), st.sampled_from(["", "a", "é", None])),
    "span": (pa.duration("us"), st.sampled_from([0, -1, 1, None])),
}
SUMS = ("long", "byte", "cents", "wide", "unit")


@st.composite
def odd_tables(draw: st.DrawFn, column: str) -> pa.Table:
    kind, values = VALUES[column]
    rows = draw(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, -0.0, NAN, -NAN, None]), values), max_size=8))
    kinds = {"t": pa.int64(), "key": pa.float64(), column: kind}
    return pa.table({name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())})


def asked(*measures: str, keys: tuple[str, ...] = ()) -> Aggregate:
    return Aggregate(tuple(map(Measure.parse, measures)), keys=keys, time="t")


def outcome(query: Aggregate, kept: pa.Table) -> list[str] | str:
    """Return the rows to compare, in which -0.0 and 0.0 differ, or the error."""
    try:
        return sorted(map(str, query.window(kept).to_pylist()))
    except InvalidInput as error:
        return str(error)


@pytest.mark.parametrize("column", VALUES)
@given(data=st.data())
def test_merging_in_any_order_changes_nothing(column: str, data: st.DataObject) -> None:
    rows = data.draw(odd_tables(column))
    parts_of = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))), dtype=int)
    parts = [rows.filter(pa.array(parts_of == part)) for part in data.draw(st.permutations(range(4)))]
    keys = data.draw(st.sampled_from([(), ("key",), ("key", column)]))
    early = data.draw(st.integers(1, 4))
    together = ("count(*)", *(f"{function}({column})" for function in ("count", "min", "max", "first", "last")))
    for measures in (together, *((f"{function}({column})",) for function in ("sum", "avg") if column in SUMS)):
        query = asked(*measures, keys=keys)
        kept = [query.pane(part) for part in parts]
        merged = [query.merge(pa.concat_tables(kept[:early])), *kept[early:]]
        assert outcome(query, pa.concat_tables(merged)) == outcome(query, query.pane(rows))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_the_table_keeps_what_it_names_and_can_be_merged(name: str) -> None:
    rows = pa.table({"t": [3, 1, 2, 2], "v": [1, None, 4, 2]})
    query = asked(f"{name}(v) AS x")
    parts = [f"__skytide_{part}0" for part in FUNCTIONS[name].parts]
    assert query.kept_schema(rows.schema).names == parts + ["__skytide_kind0"] * FUNCTIONS[name].keeps_type
    halves = [query.pane(rows.slice(0, 2)), query.pane(rows.slice(2))]
    [found], [expected] = (
        query.window(kept)["x"].to_pylist() for kept in (pa.concat_tables(halves), query.merge(query.pane(rows)))
    )
    assert found == pytest.approx(expected)
    assert not any({*FUNCTIONS[name].spark} & {*other.spark} for other in FUNCTIONS.values() if other is not FUNCTIONS[name])
    assert FUNCTIONS[FUNCTIONS[name].kept_as].parts == FUNCTIONS[name].parts


def test_checkpoints_have_the_parts_in_this_order() -> None:
    rows = pa.schema([("t", pa.int64()), ("v", pa.int64())])
    measures = (*asked("stddev(v)", "last(v)", "avg(v)", "min(v)", "count(*)").measures, Measure("n", "v", "n", Distinct()))
    names = ["count2", "sum2", "count4", "time1", "last1", "min3", "values0", "mean0", "squares0", "state5", "kind2", "kind5"]
    assert Aggregate(measures, time="t").kept_schema(rows).names == [f"__skytide_{name}" for name in names]


def test_a_function_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"function='median': not known; choose one of count, sum"):
        Aggregate((Measure("median", "v", "x"),)).check(pa.schema([("v", pa.int64())]))
    with pytest.raises(InvalidInput, match=r"sum\(\*\): not a column"):
        Aggregate((Measure("sum", "*", "x"),)).check(pa.schema([("v", pa.int64())]))


OVERFLOW = "overflow"
SUM_LIMITS = {"long": 2**63, "byte": 2**63, "cents": 10**18, "wide": 10**18, "unit": 1}
AVERAGES = {"cents": (6, 10**8), "wide": (24, 10**14), "unit": (38, 1)}
"""Digits after the point of averages of decimals, and what they must stay below: of decimal(14,6), (38,24) and (38,38)."""


def expected_sum(column: str, values: list[Fraction]) -> Fraction | str:
    total = sum(values, Fraction(0))
    fits = abs(total) < SUM_LIMITS[column] or (column == "long" and total == -(2**63))
    return total if fits else OVERFLOW


def expected_average(column: str, values: list[Fraction]) -> Fraction | str:
    if column not in AVERAGES:
        return Fraction(float(sum(Fraction(float(value)) for value in values)) / len(values))
    total = sum(values, Fraction(0))
    scale, limit = AVERAGES[column]
    digits = math.floor(abs(total) / len(values) * 10**scale + Fraction(1, 2))  # half up
    average = Fraction(digits if total > 0 else -digits, 10**scale)
    return average if abs(average) < limit and abs(total) < 10**38 / Fraction(10) ** VALUES[column][0].scale else OVERFLOW


@pytest.mark.parametrize("column", SUMS)
@given(data=st.data())
def test_sums_and_averages_are_exact_or_an_error(column: str, data: st.DataObject) -> None:
    rows = data.draw(odd_tables(column))
    values = [Fraction(value) for value in rows[column].to_pylist() if value is not None]
    for function, expect in (("sum", expected_sum), ("avg", expected_average)):
        query = asked(f"{function}({column}) AS x")
        expected = expect(column, values) if values else None
        try:
            found = [None if value is None else Fraction(value) for value in query.window(query.pane(rows))["x"].to_pylist()]
        except InvalidInput as error:
            assert expected == OVERFLOW and f"{function}({column}) of a window: " in str(error)
        else:
            assert found == ([expected] if len(rows) else [])


def order(value: float) -> tuple[bool, float, float]:
    """Return a key that orders floats as Spark does, and -0.0 before 0.0."""
    return math.isnan(value), 0.0 if math.isnan(value) else value, 0.0 if math.isnan(value) else math.copysign(1.0, value)


@pytest.mark.parametrize("column", ["double", "float"])
@given(data=st.data())
def test_nan_is_above_all_numbers_and_zero_above_minus_zero(column: str, data: st.DataObject) -> None:
    rows = data.draw(odd_tables(column))
    values = sorted((value for value in rows[column].to_pylist() if value is not None), key=order)
    in_time = sorted((row["t"], order(row[column]), row[column]) for row in rows.to_pylist() if row[column] is not None)
    query = asked(*(f"{function}({column})" for function in ("min", "max", "first", "last")))
    found = [list(map(repr, row.values())) for row in query.window(query.pane(rows)).to_pylist()]
    expected = [values[0], values[-1], in_time[0][2], in_time[-1][2]] if values else [None] * 4
    assert found == ([list(map(repr, expected))] if len(rows) else [])


def test_keys_have_one_zero_and_one_nan() -> None:
    keys = np.array([0.0, -0.0, NAN, -NAN], dtype=np.float64)
    for kind in (pa.float32(), pa.float64()):
        rows = pa.table({"k": pa.array([*keys, None], kind, from_pandas=False)})
        query = asked("count(*)", keys=("k",))
        found = query.window(query.pane(rows)).to_pylist()
        assert sorted((repr(row["k"]), row["count"]) for row in found) == [("0.0", 2), ("None", 1), ("nan", 2)]


@pytest.mark.parametrize(
    "kind", [kind for kind, _ in VALUES.values()] + [pa.date32(), pa.timestamp("us", "UTC"), pa.bool_(), pa.binary(), pa.null()]
)
def test_rows_are_grouped_by_any_type(kind: pa.DataType) -> None:
    empty = pa.schema([("k", kind), ("v", pa.int64())])
    query = asked("sum(v)", keys=("k",))
    query.check(empty)
    assert query.schema(empty).types == [kind, pa.int64()]
    nothing = pa.table({"k": pa.nulls(2, kind), "v": [1, 2]})
    assert query.window(query.pane(nothing)).to_pylist() == [{"k": None, "sum_v": 3}]


@pytest.mark.parametrize("keys", [("a",), ("b",), ("a", "b"), ()])
def test_groups_are_the_same_whether_they_are_numbered_or_not(keys: tuple[str, ...]) -> None:
    rng = np.random.default_rng(len(keys))
    drawn = rng.integers(0, 3_000, 10_000)
    texts = pa.array([None if key % 50 == 0 else f"user {key}" for key in drawn.tolist()])
    rows = pa.table(
        {
            "a": texts,
            "b": pa.array(drawn % 700, mask=drawn % 70 == 1),
            "t": rng.permutation(10_000),
            "v": rng.integers(0, 9, 10_000),
        }
    )
    plain, numbered = asked("sum(v)", "max(v)", keys=keys), asked("sum(v)", "max(v)", "first(v)", "stddev(v)", keys=keys)
    expected: dict[tuple[Any, ...], list[int]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: row["t"]):
        expected.setdefault(tuple(row[key] for key in keys), []).append(row["v"])
    for query in (plain, numbered):
        found = query.window(pa.concat_tables([query.pane(rows.slice(0, 4_000)), query.pane(rows.slice(4_000))]))
        by_key = {tuple(row[key] for key in keys): row for row in found.to_pylist()}
        assert {key: (row["sum_v"], row["max_v"]) for key, row in by_key.items()} == {
            key: (sum(v), max(v)) for key, v in expected.items()
        }
    assert {key: row["first_v"] for key, row in by_key.items()} == {key: v[0] for key, v in expected.items()}
    assert all(
        math.isclose(row["stddev_v"] or 0.0, np.std(expected[key], ddof=1) if len(expected[key]) > 1 else 0.0, abs_tol=1e-12)
        for key, row in by_key.items()
    )


def test_the_narrow_way_is_taken_only_where_nothing_can_overflow() -> None:
    assert addends(pa.chunked_array([[2**60, None], [-(2**60)]])).type == pa.int64()
    assert addends(pa.chunked_array([[2**62, 2**62]])).type == pa.decimal128(38, 0)
    assert rounded_addends(pa.chunked_array([[2**53, 1]])).type == pa.int64()
    assert rounded_addends(pa.chunked_array([[2**53 + 1, 1]])).type == pa.decimal128(38, 0)
    nines = pa.array([Decimal("9" * 38)], pa.decimal128(38, 0))
    assert addends(pa.chunked_array([nines.slice(0, 0), nines, nines])).type == pa.decimal256(76, 0)
    assert addends(pa.chunked_array([nines.cast(pa.decimal128(38, 0)).filter(pa.array([False]))])).type == pa.decimal128(38, 0)


def test_an_average_is_what_spark_makes_of_integers_that_float64_cannot_hold() -> None:
    rows = pa.table({"v": [2**53 + 1] * 3})  # Spark: 9007199254740992.0, as each of them becomes
    query = asked("avg(v)")
    assert query.window(query.pane(rows)).to_pylist() == [{"avg_v": 2.0**53}]
    halves = pa.table({"v": pa.array([Decimal("0.00005"), Decimal("0"), Decimal("0"), Decimal("0")], pa.decimal128(6, 5))})
    assert query.window(query.pane(halves)).to_pylist() == [{"avg_v": Decimal("0.000012500")}]


@pytest.mark.parametrize("name", ["count0", "sum0", "kind0", "time0"])
def test_keys_may_have_any_name(name: str) -> None:
    rows = pa.table({name: ["x", "y", "x"], "v": [1, 2, 3], "t": [1, 2, 3]})
    query = asked("sum(v) AS total", "last(v) AS latest", keys=(name,))
    assert query.window(query.pane(rows)).to_pylist() == [
        {name: "x", "total": 4, "latest": 3},
        {name: "y", "total": 2, "latest": 2},
    ]


def test_digits_are_not_lost_to_the_context_of_decimals() -> None:
    rows = pa.table({"v": pa.array([Decimal("1" * 38)], pa.decimal128(38, 0))})
    query = asked("sum(v)")
    with decimal.localcontext(decimal.Context(prec=5)):
        assert query.window(query.pane(rows)).to_pylist() == [{"sum_v": Decimal("1" * 38)}]
