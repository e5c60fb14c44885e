"""Examples of all queries, and random rows for them."""

import pyarrow as pa
from hypothesis import strategies as st

from skytide.queries import (
    Aggregate,
    Distinct,
    KDominant,
    Levels,
    Measure,
    Over,
    Quantile,
    Query,
    Skyband,
    Skyline,
    TopDelta,
    TopK,
    collect,
    diff,
    high,
    low,
)
from support.aggregates import Span

PREFERENCE = low("a") * high("b") * low("c")
GROUPED = PREFERENCE * diff("g")

EXAMPLES: dict[type[Query], list[Query]] = {
    Skyline: [Skyline(PREFERENCE), Skyline(GROUPED), Skyline(PREFERENCE, distinct=True), Skyline(low("a") & high("b"))],
    Skyband: [Skyband(PREFERENCE, k=1), Skyband(GROUPED, k=2), Skyband(low("a") * low("b"), k=5)],
    Levels: [Levels(PREFERENCE), Levels(PREFERENCE, up_to=2), Levels(GROUPED, up_to=1)],
    KDominant: [KDominant(PREFERENCE, k=2), KDominant(GROUPED, k=3), KDominant(PREFERENCE, k=1)],
    TopDelta: [TopDelta(PREFERENCE, delta=2), TopDelta(GROUPED, delta=1), TopDelta(PREFERENCE, delta=100)],
    TopK: [TopK(low("a"), k=3), TopK(high("b") & low("a"), k=2), TopK(low("a") * diff("g"), k=1)],
    Aggregate: [
        Aggregate(tuple(map(Measure.parse, ("count(*)", "count(a)", "sum(a)", "avg(c)", "min(b)", "max(g)"))), keys=("g",)),
        Aggregate(tuple(map(Measure.parse, ("first(a)", "last(g)", "sum(c) AS total"))), keys=("g", "c"), time="a"),
        Aggregate((Measure.parse("count(*)"), Measure.parse("last(id)")), time="a"),
        Aggregate((collect(Span(), "b", name="span"), Measure("count_distinct", "g", "kinds", Distinct())), keys=("c",)),
        Aggregate((Measure("percentile_approx", "a", "median", Quantile(0.5)),)),
    ],
    Over: [
        Over(
            Aggregate((Measure.parse("sum(a) AS total"), Measure.parse("max(b) AS most")), keys=("g",)),
            Skyline(low("total") * high("most")),
        ),
        Over(
            Aggregate((Measure.parse("count(*) AS n"), Measure.parse("last(id)")), keys=("g", "c"), time="a"), TopK(high("n"), k=2)
        ),
        Over(Aggregate((Measure.parse("count(*) AS n"),), keys=("g", "c")), TopDelta(high("n") * diff("c"), delta=1)),
        Over(Skyline(PREFERENCE), TopK(low("a"), k=1)),
    ],
}
ALL = [query for examples in EXAMPLES.values() for query in examples]

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.int32()), ("g", pa.string()), ("id", pa.int64())])


@st.composite
def tables(draw: st.DrawFn, most: int = 24) -> pa.Table:
    n = draw(st.integers(0, most))
    small = st.integers(0, 4)
    rows = [
        {"a": draw(small), "b": float(draw(small)), "c": draw(small), "g": draw(st.sampled_from("xyz")), "id": i} for i in range(n)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def same(left: pa.Table, right: pa.Table) -> bool:
    return sorted(map(str, left.to_pylist())) == sorted(map(str, right.to_pylist()))
