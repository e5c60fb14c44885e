"""The engine without Spark: streams to play, sinks that remember, and processes that die."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from skytide.batch import BatchRules
from skytide.keyed import KeyedStep
from skytide.lateness import DropRatio, FixedSlack, KSlack, Slack
from skytide.queries import Aggregate, KDominant, Measure, Over, Query, Skyline, TopK, high, low
from skytide.queries.query import independent_groups
from skytide.spark.checkpoint import Store
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sinks.base import Sink, Staged
from skytide.spark.sinks.roles import Sinks
from skytide.testing import InProcess  # noqa: F401 (tests import it from here, beside the rest)
from skytide.windows import Windows
from support import oracle

COLUMNS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("a", pa.int64()), ("b", pa.float64()), ("id", pa.int64())])
QUERIES: list[Query] = [
    Skyline(low("a") * high("b")),
    KDominant(low("a") * high("b"), k=1),
    TopK(low("a") & high("b"), k=2),
    Aggregate((Measure.parse("count(*)"), Measure.parse("sum(a)"), Measure.parse("last(b)")), time="ts"),
    Aggregate((Measure.parse("count(*)"), Measure.parse("last(b)")), keys=("a",), time="ts"),
    Over(
        Aggregate((Measure.parse("count(*) AS n"), Measure.parse("last(b) AS latest")), keys=("a",), time="ts"),
        TopK(high("n"), k=2),
    ),
]
ASKED = [
    oracle.skyline(("low", "a"), ("high", "b")),
    oracle.k_dominant(1, ("low", "a"), ("high", "b")),
    oracle.top_k(2, ("low", "a"), ("high", "b")),
    oracle.aggregate([("count", "*", "count"), ("sum", "a", "sum_a"), ("last", "b", "last_b")]),
    oracle.aggregate([("count", "*", "count"), ("last", "b", "last_b")], keys=("a",)),
    lambda rows: oracle.top_k(2, ("high", "n"))(
        oracle.aggregate([("count", "*", "n"), ("last", "b", "latest")], keys=("a",))(rows)
    ),
]
"""What the oracle is asked for each of the queries."""
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
Part = list[int]  # the times of the tuples of one partition of a batch
Batch = list[Part]


class Collected(Sink):
    """A sink that remembers what it got by number, and accepts nothing else under the same number."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}

    def __call__(self, results: pa.Table, number: int) -> None:
        before = self.batches.setdefault(number, results)
        assert before is results or before.equals(results)  # a NaN does not equal itself

    def publish(self, sequence: int, staged: Staged) -> None:
        if staged:
            self(staged.frame(), sequence)

    def describe(self) -> str:
        return "function"

    def rows(self) -> list[dict[str, Any]]:
        return [row for number in sorted(self.batches) for row in self.batches[number].to_pylist()]


def tuples(batches: list[Batch]) -> list[list[pa.Table]]:
    """Return rows for times: values derive from a running number, so all tuples differ."""
    number = 0
    out = []
    for batch in batches:
        parts = []
        for times in batch:
            ids = np.arange(number, number + len(times))
            number += len(times)
            values = {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "a": ids * 7 % 5,
                "b": (ids * 11 % 7).astype(float),
                "id": ids,
            }
            parts.append(pa.table(values, COLUMNS))
        out.append(parts)
    return out


@dataclass(frozen=True)
class Plan:
    """What an engine needs besides sinks: `Engine(*plan, sinks)`."""

    spec: QuerySpec
    rules: BatchRules
    store: Store

    def __iter__(self) -> Iterator[Any]:
        return iter((self.spec, self.rules, self.store))

    def but(self, **changes: Any) -> "Plan":
        """Return the plan with another description of the query."""
        return replace(self, spec=replace(self.spec, **changes))

    @staticmethod
    def of(
        query: Query, rules: BatchRules, store: Store, columns: pa.Schema | None = None, step: KeyedStep | None = None
    ) -> "Plan":
        """Return the plan of a query over COLUMNS or others, which keeps late and invalid tuples."""
        spec = QuerySpec(
            query, "ts", columns or COLUMNS, rules.windows, rules.slack, step=step, late_wanted=True, invalid_wanted=True
        )
        return Plan(spec, rules, store)


def plan_of(query: Query, folder: str, windows: Windows, slack: Slack, store: Store | None = None, **rules: Any) -> Plan:
    """Return the plan of a query over COLUMNS, with a checkpoint in a folder or in another store."""
    groups = {"has_groups": bool(independent_groups(query.of_groups() or query))} if "has_groups" not in rules else {}
    known = BatchRules(windows, slack, can_spread=query.skyline_inside() is not None, **groups, **rules)
    return Plan.of(query, known, store or Store(folder))


class Outputs:
    """All results of a query, by number."""

    def __init__(self) -> None:
        self.results, self.windows, self.late, self.invalid = Collected(), Collected(), Collected(), Collected()
        self.sinks = Sinks(self.results, late=self.late, windows=self.windows, invalid=self.invalid)

    def check(self, batches: list[list[pa.Table]], plan: Plan) -> None:
        """Assert that every tuple is in its windows, or late, or invalid, and that every window came out once, in order.

        What is late is up to the engine; but only a tuple that is older than one of an earlier batch can be.
        """
        late = {row["id"] for row in self.late.rows()}
        aside = late | {row["id"] for row in self.invalid.rows()}
        everything, newest = [], EPOCH - datetime.timedelta(days=1)
        for batch in batches:
            here = [row for part in batch for row in part.to_pylist()]
            assert all(row["ts"] < newest for row in here if row["id"] in late)
            newest = max([newest, *(row["ts"] for row in here if row["ts"] is not None)])
            everything += here
        self._check_windows([row for row in everything if row["id"] not in aside], plan)

    def _numbers_with_rows(self) -> list[int]:
        return [number for number, table in sorted(self.results.batches.items()) if table.num_rows]

    def _check_windows(self, accepted: list[dict[str, Any]], plan: Plan) -> None:
        windows, ask = plan.rules.windows, ASKED[QUERIES.index(plan.spec.query)]
        results, stats = self.results.rows(), self.windows.rows()
        ends = [
            max(row["window_start"] for row in self.results.batches[number].to_pylist()) for number in self._numbers_with_rows()
        ]
        assert ends == sorted(set(ends))  # within a batch, each slot has its own rows of every window
        tuples = [{**row, "ts": micros(row["ts"])} for row in accepted]
        expected = oracle.windows_of(tuples, windows.length_us, windows.slide_us, ask)
        assert [start for row in stats for start in starts_of(row, windows.slide_us)] == list(expected)
        found: dict[int, list[dict[str, Any]]] = {}
        for row in results:
            start = micros(row.pop("window_start"))
            assert micros(row.pop("window_end")) == start + windows.length_us
            found.setdefault(start, []).append({**row, "ts": micros(row["ts"])} if "ts" in row else row)
        for row in (row for row in stats if row["windows"] == 1):
            start = micros(row["window_start"])
            assert oracle.multiset(found.get(start, [])) == oracle.multiset(expected[start].rows)
            assert (row["tuples"], row["kept"]) == (expected[start].tuples, len(expected[start].rows))


def micros(time: Any) -> int:
    """Return the microseconds since 1970 of a time, exactly."""
    return int((time - EPOCH) // datetime.timedelta(microseconds=1))


def starts_of(row: dict[str, Any], slide: int) -> range:
    """Return when the windows of a row start."""
    start = micros(row["window_start"])
    return range(start, start + row["windows"] * slide, slide)


@st.composite
def streams(draw: st.DrawFn) -> list[Batch]:
    """Draw batches of partitions of times: mostly in order, with bursts, gaps, equal times and late ones."""
    clock, batches = draw(st.integers(-50, 50)) * 100, []
    for _ in range(draw(st.integers(0, 6))):
        batch = []
        for _ in range(draw(st.integers(1, 3))):
            part = []
            for _ in range(draw(st.integers(0, 8))):
                clock += draw(st.sampled_from([0, 0, 1, 10, 50, 100, 130, 700]))
                part.append(clock - draw(st.sampled_from([0, 0, 0, 5, 60, 150, 400])))
            batch.append(part)
        batches.append(batch)
        clock += draw(st.sampled_from([0, 0, 100, 2_500]))
    return batches


windows_drawn = st.sampled_from([Windows(1_000, 200), Windows(300, 300), Windows(500, 200), Windows(100, 100), Windows(1_000, 333)])
slacks_drawn = st.sampled_from([KSlack(), FixedSlack(0), FixedSlack("150 us"), DropRatio(0.1)])


class Crash(Exception):
    """The process dies here."""


class Fragile:
    """Passes calls on until it crashes."""

    def __init__(self, inner: Any, fuse: Iterator[bool]) -> None:
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if name == "files":
            return Fragile(attribute, self._fuse)
        if not callable(attribute) or name in ("read_table", "stored"):
            return attribute

        def call(*given: Any, **named: Any) -> Any:
            if next(self._fuse, False):
                raise Crash
            answer = attribute(*given, **named)
            if next(self._fuse, False):
                raise Crash
            return answer

        return call

    def __call__(self, *given: Any) -> Any:
        if next(self._fuse, False):
            raise Crash
        answer = self._inner(*given)
        if next(self._fuse, False):
            raise Crash
        return answer
