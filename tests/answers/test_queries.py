"""Laws of queries, applied to all query classes, and each query against its definition."""

import datetime
import decimal
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reference
from support.queries import ALL, EXAMPLES, GROUPED, PREFERENCE, SCHEMA, same, tables

from skytide import queries
from skytide.errors import InvalidInput
from skytide.queries import (
    Aggregate,
    KDominant,
    Levels,
    Measure,
    PreferenceQuery,
    Query,
    Skyband,
    Skyline,
    TopDelta,
    TopK,
    diff,
    high,
    low,
)
from skytide.testing import BrokenLaw, check_query

SEEDS = st.integers(0, 2**32)
"""Of divisions of rows."""


def test_every_query_is_among_the_examples() -> None:
    named = [getattr(queries, name) for name in queries.__all__]
    concrete = {kind for kind in named if inspect.isclass(kind) and issubclass(kind, Query) and not inspect.isabstract(kind)}
    assert concrete == set(EXAMPLES)


@pytest.mark.parametrize("query", ALL, ids=repr)
@given(rows=tables(), seed=SEEDS)
def test_every_query_keeps_the_laws(query: Query, rows: pa.Table, seed: int) -> None:
    check_query(query, rows, tries=1, seed=seed)


class KeepsOnlyKDominant(KDominant):
    """The guilty specimen: reduces a pane by k-dominance, as the papers' published program does."""

    def pane(self, rows: pa.Table) -> pa.Table:
        return KDominant(self.preference, self.nulls, self.k).window(rows)


class Announces(Skyline):
    """Guilty: its answer has a column less than it announces."""

    def window(self, kept: pa.Table) -> pa.Table:
        return super().window(kept).drop_columns(["c"])


class Moody(Skyline):
    """Guilty: it answers only the first time."""

    def window(self, kept: pa.Table) -> pa.Table:
        vars(self).setdefault("answers", []).append(kept)
        return super().window(kept) if len(vars(self)["answers"]) < 3 else kept.slice(0, 0)


class Greedy(Skyline):
    """Guilty: each slot takes all rows for its own."""

    def share(self, kept: pa.Table, mine: np.ndarray) -> pa.Table:
        return self.window(kept)


class Largest(Aggregate):
    """Guilty: it says that groups are independent, and answers with one of them."""

    def groups(self) -> tuple[str, ...]:
        return self.keys

    def window(self, kept: pa.Table) -> pa.Table:
        return super().window(kept).sort_by("a").slice(0, 1)


class Picky(Skyline):
    """Guilty: it refuses rows without having said so."""

    def pane(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows and max(rows["a"].to_pylist()) > 1:
            raise InvalidInput(value="a", reason="too high", remedy="none")
        return super().pane(rows)


# y 2-dominates x, z 2-dominates y, x 2-dominates z: together all fall, but a pane that drops y lets x pass.
CIRCLE = pa.table({"a": [0, 1, 2], "b": [1, 2, 0], "c": [2, 0, 1]})


@pytest.mark.parametrize(
    ("guilty", "law"),
    [
        (KeepsOnlyKDominant(low("a") * low("b") * low("c"), k=2), "however rows are divided and merged"),
        (Announces(low("a") * low("b")), "announces the columns"),
        (Moody(low("a") * low("b") * low("c")), "asked again"),
        (Greedy(low("a") * low("b") * low("c")), "the shares of all slots"),
        (Largest((Measure.parse("count(*)"),), keys=("a",)), "rows that differ in a can be answered apart"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_who_breaks_a_law_is_caught(guilty: Query, law: str) -> None:
    with pytest.raises(BrokenLaw, match=law):
        check_query(guilty, CIRCLE)


def test_who_refuses_rows_without_notice_is_caught() -> None:
    with pytest.raises(InvalidInput, match="too high"):
        check_query(Picky(low("a")), CIRCLE)


def test_those_whom_the_specimens_imitate_keep_the_laws() -> None:
    check_query(KDominant(low("a") * low("b") * low("c"), k=2), CIRCLE)
    check_query(Skyline(low("a") * low("b") * low("c")), CIRCLE.to_pylist())


def groups(rows: list[reference.Row], query: PreferenceQuery) -> list[list[reference.Row]]:
    by_group: dict[tuple[object, ...], list[reference.Row]] = {}
    for row in rows:
        by_group.setdefault(tuple(row[name] for name in query.groups()), []).append(row)
    return list(by_group.values())


def points(rows: list[reference.Row]) -> list[tuple[float, ...]]:
    return [(row["a"], -row["b"], row["c"]) for row in rows]


@given(rows=tables())
def test_skyline_is_its_definition(rows: pa.Table) -> None:
    for query in (Skyline(PREFERENCE), Skyline(GROUPED), Skyline(low("a") * (high("b") & low("c")))):
        expected = [r for part in groups(rows.to_pylist(), query) for r in reference.best_rows(query.preference, part)]
        assert same(query.window(rows), pa.Table.from_pylist(expected, SCHEMA))


@given(rows=tables())
def test_distinct_keeps_the_smallest_row_of_equal_ones(rows: pa.Table) -> None:
    best = Skyline(PREFERENCE).window(rows).to_pylist()
    expected: dict[tuple[float, ...], reference.Row] = {}
    for point, row in zip(points(best), best, strict=True):
        if point not in expected or (row["g"], row["id"]) < (expected[point]["g"], expected[point]["id"]):
            expected[point] = row
    answer = Skyline(PREFERENCE, distinct=True).window(rows)
    assert same(answer, pa.Table.from_pylist(list(expected.values()), SCHEMA))


@given(rows=tables(), k=st.integers(1, 4))
def test_skyband_levels_and_dominance_are_their_definitions(rows: pa.Table, k: int) -> None:
    band, level, dominant, delta = [], [], [], []
    for part in groups(rows.to_pylist(), Skyline(GROUPED)):
        cloud = points(part)
        band += [r["id"] for r, n in zip(part, reference.dominators(cloud), strict=True) if n < k]
        level += [(r["id"], n) for r, n in zip(part, reference.levels(cloud), strict=True) if n <= k]
        smallest = reference.smallest_k(cloud)
        dominant += [r["id"] for r, n in zip(part, smallest, strict=True) if n <= min(k, 3)]
        enough = next((j for j in (1, 2, 3) if sum(n <= j for n in smallest) >= k), 3)
        delta += [(r["id"], n) for r, n in zip(part, smallest, strict=True) if n <= enough]
    assert sorted(Skyband(GROUPED, k=k).window(rows)["id"].to_pylist()) == sorted(band)
    leveled = Levels(GROUPED, up_to=k).window(rows)
    assert sorted(zip(leveled["id"].to_pylist(), leveled["level"].to_pylist(), strict=True)) == sorted(level)
    assert sorted(KDominant(GROUPED, k=min(k, 3)).window(rows)["id"].to_pylist()) == sorted(dominant)
    top = TopDelta(GROUPED, delta=k).window(rows)
    assert sorted(zip(top["id"].to_pylist(), top["k"].to_pylist(), strict=True)) == sorted(delta)


@given(rows=tables(), k=st.integers(1, 5))
def test_top_k_is_a_sort_with_ties(rows: pa.Table, k: int) -> None:
    scores = sorted((-row["b"], row["a"]) for row in rows.to_pylist())
    last = scores[min(k, len(scores)) - 1] if scores else None
    expected = [row["id"] for row in rows.to_pylist() if last and (-row["b"], row["a"]) <= last]
    assert sorted(TopK(high("b") & low("a"), k=k).window(rows)["id"].to_pylist()) == sorted(expected)


MISSING = pa.table({"x": [1.0, None, float("nan"), 3.0, float("inf")], "y": pa.array([5, 4, 3, 2, None], pa.int64())})


def test_missing_values_are_refused_dropped_or_worst() -> None:
    both = low("x") * low("y")
    with pytest.raises(InvalidInput, match=r"NULL in column x, in 2 of 5 rows.*nulls=\"drop\""):
        Skyline(both).pane(MISSING)
    with pytest.raises(InvalidInput, match="NaN in column x"):
        Skyline(low("x")).pane(MISSING.slice(2, 1))
    assert Skyline(both, "drop").pane(MISSING)["y"].to_pylist() == [5, 2]
    assert Skyline(both, "worst").pane(MISSING)["y"].to_pylist() == [5, 2]
    assert Skyline(low("y"), "worst").pane(MISSING)["y"].to_pylist() == [2]
    assert Skyline(high("x"), "worst").pane(MISSING)["x"].to_pylist() == [float("inf")]
    only_missing = MISSING.slice(1, 2)
    assert Skyline(low("x"), "worst").pane(only_missing).num_rows == 2
    assert Skyline(low("x"), "drop").pane(only_missing).num_rows == 0


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**60 + 1, 2**60, 2**60 + 2]),
        pa.array([decimal.Decimal(text) for text in ("1.00000000000000000001", "1", "1.00000000000000000002")]),
        pa.array([datetime.date(2026, 1, day) for day in (2, 1, 3)]),
        pa.array([datetime.datetime(2026, 1, 1, 0, 0, 0, micros) for micros in (2, 1, 3)]),
        pa.array([datetime.timedelta(days=days) for days in (2, 1, 3)]),
        pa.array([1.5, -1.5, float("inf")], pa.float32()),
        pa.array([2, 1, 3], pa.uint64()),
    ],
    ids=lambda array: str(array.type),
)
def test_every_ordered_type_is_compared_exactly(values: pa.Array) -> None:
    rows = pa.table({"v": values})
    for query, chosen in ((Skyline(low("v")), 1), (Skyline(high("v")), 2)):
        query.check(rows.schema)
        assert query.window(rows)["v"].to_pylist() == [values[chosen].as_py()]
    assert Levels(low("v")).window(rows)["level"].to_pylist() == [2, 1, 3]


@pytest.mark.parametrize("kind", [pa.struct([("a", pa.int64())]), pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())], ids=str)
def test_groups_by_what_has_no_order_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match="rows cannot be grouped by it; choose fields of it, or cast it to a string first"):
        Skyline(low("x") * diff("g")).check(pa.schema([("x", pa.int64()), ("g", kind)]))


@pytest.mark.parametrize("query", [Skyline(low("x") * diff("g")), TopK(low("x") * diff("g"), k=1)], ids=["skyline", "top k"])
def test_both_zeros_are_one_group(query: Query) -> None:
    rows = pa.table({"x": [2, 1, 3], "g": [0.0, -0.0, 1.5]})
    assert sorted(query.window(query.pane(rows))["x"].to_pylist()) == [1, 3]


def test_booleans_are_ordered() -> None:
    assert Skyline(high("v")).window(pa.table({"v": [False, True]}))["v"].to_pylist() == [True]


def test_what_cannot_be_asked_is_refused_before_anything_runs() -> None:
    def refused(build: Callable[[], Query], *message: str) -> None:
        with pytest.raises(InvalidInput) as error:
            build().check(pa.schema([("price", pa.float64()), ("city", pa.string()), ("level", pa.int32())]))
        assert all(text in str(error.value) for text in message), error.value

    refused(lambda: Skyline(low("prize")), "no column 'prize'", "did you mean 'price'?")
    refused(lambda: Skyline(low("city")), "of type string", "diff('city')")
    refused(lambda: Skyline(low("price"), "ignore"), "nulls='ignore'", "'error', 'drop', 'worst'")  # type: ignore[arg-type]
    refused(lambda: Levels(low("price")), "column level", "rename")
    refused(lambda: Skyband(low("price"), k=0), "k=0", "at least 1")
    refused(lambda: KDominant(low("price"), k=2), "k=2", "from 1 to 1")
    refused(lambda: KDominant(low("price") & low("level"), k=1), "not defined for priorities")
    refused(lambda: TopDelta(low("price"), delta=1.5), "delta=1.5")  # type: ignore[arg-type]
    refused(lambda: TopK(low("price") * low("level"), k=1), "one score")


@given(rows=tables())
def test_aggregates_are_their_definitions(rows: pa.Table) -> None:
    asked = ("count(*)", "sum(a)", "avg(c)", "min(b)", "max(b)", "first(id)", "last(id)")
    query = Aggregate(tuple(map(Measure.parse, asked)), keys=("g",), time="a")
    expected = []
    for key in sorted({row["g"] for row in rows.to_pylist()}):
        part = [row for row in rows.to_pylist() if row["g"] == key]
        by_time = sorted(part, key=lambda row: (row["a"], row["id"]))
        expected.append(
            {
                "g": key,
                "count": len(part),
                "sum_a": sum(row["a"] for row in part),
                "avg_c": sum(row["c"] for row in part) / len(part),
                "min_b": min(row["b"] for row in part),
                "max_b": max(row["b"] for row in part),
                "first_id": by_time[0]["id"],
                "last_id": by_time[-1]["id"],
            }
        )
    assert sorted(map(str, query.window(query.pane(rows)).to_pylist())) == sorted(map(str, expected))


def test_aggregates_leave_null_out_as_sql_does() -> None:
    rows = pa.table({"k": ["x", "x", None], "v": pa.array([None, None, 3], pa.int64()), "t": [1, 2, 3]})
    query = Aggregate(tuple(map(Measure.parse, ("count(v)", "sum(v)", "avg(v)", "first(v)", "count(*)"))), keys=("k",), time="t")
    found = {row["k"]: row for row in query.window(query.pane(rows)).to_pylist()}
    assert found["x"] == {"k": "x", "count_v": 0, "sum_v": None, "avg_v": None, "first_v": None, "count": 2}
    assert found[None] == {"k": None, "count_v": 1, "sum_v": 3, "avg_v": 3.0, "first_v": 3, "count": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [("median(a)", "not an aggregate"), ("sum(*)", "not an aggregate"), ("sum(g)", "does not add up"), ("sum(z)", "no column 'z'")],
)
def test_what_is_no_aggregate_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Aggregate((Measure.parse(text),)).check(SCHEMA)


@dataclass(frozen=True)
class MeanPrice(Query):
    """A user's own query that keeps sums, not rows."""

    def pane(self, rows: pa.Table) -> pa.Table:
        if "total" in rows.column_names:
            return pa.table({name: [sum(rows[name].to_pylist())] for name in ("total", "rows")})
        return pa.table({"total": [sum(rows["a"].to_pylist())], "rows": [rows.num_rows]})

    def window(self, kept: pa.Table) -> pa.Table:
        total = self.pane(kept).to_pylist()[0]
        return pa.table({"mean": pa.array([total["total"] / total["rows"] if total["rows"] else None], pa.float64())})

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([("total", pa.int64()), ("rows", pa.int64())])

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([("mean", pa.float64())])


@given(rows=tables(), seed=SEEDS)
def test_a_users_own_query_keeps_the_laws(rows: pa.Table, seed: int) -> None:
    check_query(MeanPrice(), rows, tries=1, seed=seed)
