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
from skytide.queries import Aggregate, Measure
from skytide.queries.sums import addends, average_type, rounded_addends, sum_type

NAN, INF = math.nan, math.inf
SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("key", pa.float64()),
        ("long", pa.int64()),
        ("byte", pa.int8()),
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("cents", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 20)),
        ("unit", pa.decimal128(38, 38)),
        ("text", pa.string()),
        ("span", pa.duration("us")),
    ]
)
SUMS = ("long", "byte", "cents", "wide", "unit")
ALL_MEASURES = (
    "count(*)",
    *(f"{function}({column})" for column in SUMS for function in ("count", "sum", "avg", "min", "max")),
    *(f"{function}({column})" for column in ("double", "float", "text", "span") for function in ("min", "max", "first", "last")),
)

floats = st.sampled_from([NAN, -NAN, 0.0, -0.0, 1.5, -1.5, INF, -INF, None])
longs = st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1, 2**53 + 3, -(2**62), 1, 0, -1, None])


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal | None]:
    unscaled = st.one_of(st.integers(-(10**digits) + 1, 10**digits - 1), st.sampled_from([10**digits - 1, 1 - 10**digits, 1, 0]))
    return st.none() | unscaled.map(lambda value: Decimal((value < 0, tuple(map(int, str(abs(value)))), -scale)))


@st.composite
def odd_tables(draw: st.DrawFn) -> pa.Table:
    columns = {
        "t": st.integers(0, 2),
        "key": st.sampled_from([0.0, -0.0, NAN, -NAN, None]),
        "long": longs,
        "byte": st.integers(-128, 127) | st.none(),
        "double": floats,
        "float": floats,
        "cents": decimals(10, 2),
        "wide": decimals(38, 20),
        "unit": decimals(38, 38),
        "text": st.sampled_from(["", "a", "é", None]),
        "span": st.sampled_from([0, -1, 1, None]),
    }
    n = draw(st.integers(0, 8))
    return pa.table({name: pa.array([draw(values) for _ in range(n)], SCHEMA.field(name).type) for name, values in columns.items()})


def asked(*measures: str, keys: tuple[str, ...] = ()) -> Aggregate:
    return Aggregate(tuple(map(Measure.parse, measures)), keys=keys, time="t")


def outcome(query: Aggregate, kept: pa.Table) -> list[str] | str:
    """Give the rows to compare, which tell -0.0 from 0.0, or the error."""
    try:
        return sorted(map(str, query.window(kept).to_pylist()))
    except InvalidInput as error:
        return str(error)


@pytest.mark.parametrize("measure", ALL_MEASURES)
@given(rows=odd_tables(), data=st.data())
def test_merging_in_any_order_changes_nothing(measure: str, rows: pa.Table, data: st.DataObject) -> None:
    query = asked(measure, keys=data.draw(st.sampled_from([(), ("key",), ("key", "text")])))
    parts_of = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))), dtype=int)
    kept = [query.pane(rows.filter(pa.array(parts_of == part))) for part in data.draw(st.permutations(range(4)))]
    early = data.draw(st.integers(1, 4))
    merged = [query.merge(pa.concat_tables(kept[:early])), *kept[early:]]
    assert outcome(query, pa.concat_tables(merged)) == outcome(query, query.pane(rows))


def exact(value: Any) -> Fraction:
    return Fraction(value)


def half_up(value: Fraction, scale: int) -> Fraction:
    shifted = abs(value) * 10**scale
    return Fraction(math.copysign(1, value) if value else 1) * Fraction(math.floor(shifted + Fraction(1, 2)), 10**scale)


@pytest.mark.parametrize("column", SUMS)
@given(rows=odd_tables())
def test_sums_and_averages_are_exact_or_an_error(column: str, rows: pa.Table) -> None:
    values = [exact(value) for value in rows[column].to_pylist() if value is not None]
    kind = rows[column].type
    for function in ("sum", "avg"):
        query = asked(f"{function}({column}) AS x")
        expected = None
        if values:
            target = sum_type(kind) if function == "sum" else average_type(kind)
            sums = [Fraction(float(value)) for value in values] if function == "avg" and kind == pa.int64() else values
            expected = sum(sums) if function == "sum" else sum(sums) / len(sums)
            if function == "avg" and not pa.types.is_decimal(kind):
                expected = float(sum(sums)) / len(sums)
            elif function == "avg":
                expected = half_up(expected, target.scale)
            limits = [(pa.int64(), 2**63)] if target == pa.int64() else []
            if pa.types.is_decimal(target):
                limits = [(target, Fraction(10) ** (target.precision - target.scale))]
            too_large = any(not -limit - (kind == pa.int64()) < expected < limit for _, limit in limits)
            if function == "avg" and pa.types.is_decimal(kind):
                too_large |= abs(sum(sums)) >= Fraction(10) ** (38 - kind.scale)
            if too_large:
                with pytest.raises(InvalidInput, match=rf"{function}\({column}\) of a window: .* overflows"):
                    query.window(query.pane(rows))
                continue
        found = query.window(query.pane(rows))["x"].to_pylist()
        assert [value if value is None or isinstance(value, float) else exact(value) for value in found] == [expected] * bool(
            len(rows)
        )


def order(value: float) -> tuple[bool, float, float]:
    return math.isnan(value), 0.0 if math.isnan(value) else value, 0.0 if math.isnan(value) else math.copysign(1.0, value)


@given(rows=odd_tables())
def test_nan_is_above_all_numbers_and_zero_above_minus_zero(rows: pa.Table) -> None:
    for column in ("double", "float"):
        values = sorted((value for value in rows[column].to_pylist() if value is not None), key=order)
        query = asked(f"min({column})", f"max({column})")
        found = [list(map(repr, row.values())) for row in query.window(query.pane(rows)).to_pylist()]
        assert found == [[repr(values[0]), repr(values[-1])] if values else ["None", "None"]] * bool(len(rows))


@given(rows=odd_tables())
def test_first_and_last_go_by_time_and_leave_null_out(rows: pa.Table) -> None:
    query = asked("first(double)", "last(double)")
    pairs = [(row["t"], order(row["double"]), row["double"]) for row in rows.to_pylist() if row["double"] is not None]
    found = [list(map(repr, row.values())) for row in query.window(query.pane(rows)).to_pylist()]
    ends = [repr(min(pairs)[2]), repr(max(pairs)[2])] if pairs else ["None", "None"]
    assert found == [ends] * bool(len(rows))


def test_keys_have_one_zero_and_one_nan() -> None:
    keys = np.array([0.0, -0.0, NAN, -NAN], dtype=np.float64)
    for kind in (pa.float32(), pa.float64()):
        rows = pa.table({"k": pa.array([*keys, None], kind, from_pandas=False)})
        query = asked("count(*)", keys=("k",))
        found = query.window(query.pane(rows)).to_pylist()
        assert sorted((repr(row["k"]), row["count"]) for row in found) == [("0.0", 2), ("None", 1), ("nan", 2)]


@pytest.mark.parametrize(
    "kind", [field.type for field in SCHEMA] + [pa.date32(), pa.timestamp("us", "UTC"), pa.bool_(), pa.binary(), pa.null()]
)
def test_rows_are_grouped_by_any_type(kind: pa.DataType) -> None:
    empty = pa.schema([("k", kind), ("v", pa.int64())])
    query = asked("sum(v)", keys=("k",))
    query.check(empty)
    assert query.schema(empty).types == [kind, pa.int64()]
    nothing = pa.table({"k": pa.nulls(2, kind), "v": [1, 2]})
    assert query.window(query.pane(nothing)).to_pylist() == [{"k": None, "sum_v": 3}]


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
