"""Another query on a checkpoint: every parameter of every query counts, except expressions over what is kept of panes."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from support.engine import COLUMNS, InProcess, Outputs, Plan, plan_of, tuples
from support.queries import EXAMPLES, SCHEMA

from skytide.batch import BatchRules, Keying
from skytide.errors import InvalidInput
from skytide.keyed import CountWindows, KeyedStep, Operator, Tagged, TimeWindows
from skytide.keyed.operator import KeyedOperator
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure, Mergeable, Over, Query, TopK, collect, high
from skytide.queries.aggregate import Result
from skytide.queries.formula import Call, Constant, Field, Formula
from skytide.spark.checkpoint import Store
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.identity import check_same
from skytide.spark.engine.spec import QuerySpec
from skytide.windows import Windows

READABLE = ("query", "windows", "time", "columns")
WINDOWS = Windows(300, 100)
ROWS = SCHEMA.append(pa.field("ts", pa.timestamp("us", "UTC")))
WORDS = {
    "low": ["high"],
    "high": ["low"],
    "diff": [],
    "error": [],
    "worst": ["error", "drop"],
    "drop": ["error", "worst"],
    "ts": ["a"],
    "*": [],
}
COLUMNS_OF = ("a", "b", "c", "g", "id")


def changed(value: Any) -> Iterator[Any]:
    """Yield the value with one of its parameters changed slightly, for each of them, however deep."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield value + 1e-9
    elif isinstance(value, str):
        others = [name for name in COLUMNS_OF if name != value] if value in COLUMNS_OF else [f"{value}_"]
        yield from WORDS.get(value, others)
    elif isinstance(value, tuple):
        for at, each in enumerate(value):
            yield from ((*value[:at], other, *value[at + 1 :]) for other in changed(each))
            yield (*value[:at], *value[at + 1 :])
    elif value is None:
        yield 3
    elif is_dataclass(value) and not isinstance(value, Result):
        for each in fields(value):
            for other in changed(getattr(value, each.name)):
                try:
                    yield replace(value, **{each.name: other})  # type: ignore[type-var]
                except (InvalidInput, TypeError, AttributeError):
                    continue


def plan(query: Query, windows: Windows = WINDOWS, columns: pa.Schema = ROWS, time: str = "ts") -> QuerySpec:
    return QuerySpec(query, time, columns, windows, FixedSlack(0))


def texts(made: QuerySpec) -> dict[str, str] | None:
    try:
        made.query.check(made.columns)
        return made.texts()
    except (InvalidInput, KeyError, TypeError, AttributeError, ValueError, pa.ArrowException):
        return None  # not a query at all


def refused(before: dict[str, str], now: dict[str, str], **given: bool) -> bool:
    try:
        check_same(before, now, "checkpoint", **given)
    except InvalidInput:
        return True
    return False


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_every_parameter_of_every_query_counts(kind: type[Query]) -> None:
    tried, readable = 0, 0
    for query in EXAMPLES[kind]:
        before = texts(plan(query))
        assert before is not None and not refused(before, dict(before))
        for other in changed(query):
            now = texts(plan(other))
            if other != query and now is not None:
                assert refused(before, now), (query, other)
                tried += 1
                readable += refused({name: before[name] for name in READABLE}, now)
    assert tried >= 5
    assert readable or kind is Over  # the law is not vacuous: what older checkpoints have tells most of them apart, too


@pytest.mark.parametrize(
    "wrap", [lambda query: query, lambda query: Over(query, TopK(high("b"), k=1))], ids=["plain", "first of two"]
)
def test_only_a_query_that_refused_nulls_continues_with_another_rule_for_them(wrap: Callable[[Query], Query]) -> None:
    """Nothing that it kept has any, while one that lets them pass may keep them, or has left them out."""
    query = EXAMPLES[TopK][0]
    found = {rule: plan(wrap(replace(query, nulls=rule))).texts() for rule in ("error", "drop", "worst")}  # type: ignore[type-var]
    for before, now in itertools.permutations(found, 2):
        assert refused(found[before], found[now]) == (before != "error")
        old = {name: found[before][name] for name in READABLE}
        assert refused(old, found[now]) == (before != "error")


def test_windows_time_and_columns_count_to_the_microsecond() -> None:
    query = EXAMPLES[TopK][0]
    before = plan(query, Windows(1_234_567, 1_234_567)).texts()
    for other in (
        plan(query, Windows(1_234_568, 1_234_568)),
        plan(query, Windows(1_234_567, 1_234_566)),
        plan(query, Windows(1_234_567, 1_234_567), time="a", columns=ROWS.set(0, pa.field("a", pa.timestamp("us", "UTC")))),
        plan(query, Windows(1_234_567, 1_234_567), columns=ROWS.set(4, pa.field("id", pa.int32()))),
    ):
        assert refused(before, other.texts())
    with pytest.raises(
        InvalidInput, match=r"windows: Windows\(length_us=1234568.*belongs to a query with Windows\(length_us=1234567"
    ):
        check_same(before, plan(query, Windows(1_234_568, 1_234_568)).texts(), "checkpoint")
    # An older checkpoint knew no better, and is compared as it was.
    old = {name: before[name] for name in READABLE}
    assert not refused(old, plan(query, Windows(1_234_568, 1_234_568)).texts())


class Cheapest(Query):
    def __init__(self, rows: int, by: Callable[[Any], Any] | None = None) -> None:
        self.rows, self.by = rows, by

    def pane(self, rows: pa.Table) -> pa.Table:
        return rows.sort_by("a").slice(0, self.rows)

    def window(self, kept: pa.Table) -> pa.Table:
        return self.pane(kept)


class Above(Mergeable[int]):
    def __init__(self, limit: float) -> None:
        self.limit = limit

    def start(self) -> int:
        return 0

    def add(self, state: int, values: pa.Array) -> int:
        return state + sum(value > self.limit for value in values.to_pylist())

    def merge(self, state: int, other: int) -> int:
        return state + other

    def finish(self, state: int) -> int:
        return state

    def kind(self, values: pa.DataType) -> pa.DataType:
        return pa.int64()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Cheapest(1), Cheapest(2)),
        (Cheapest(1, lambda row: row["a"]), Cheapest(1, lambda row: row["b"])),
        (Aggregate((collect(Above(1.5), "b", name="n"),)), Aggregate((collect(Above(1.6), "b", name="n"),))),
    ],
)
def test_parameters_of_own_objects_count(one: Query, other: Query) -> None:
    before, now = plan(one).texts(), plan(other).texts()
    assert refused(before, now) and not refused(before, plan(one).texts())
    assert before["query"] == now["query"]  # as people read it, which is all that older checkpoints have


def test_functions_are_compared_only_if_the_same_python_compiled_them() -> None:
    one, other = (plan(Cheapest(1, by)).texts() for by in (lambda row: row["a"], lambda row: row["b"]))
    assert refused(one, other)
    older = {**one, "code": f"3.8 {one['code'].split()[1]}"}
    assert not refused(older, other)


@dataclass
class Latest:
    """An operator with a parameter, result columns and a version of your choice."""

    weight: float = 0.5
    name: str = "latest"
    version: int = 1

    def open(self, key: Any) -> bytes:
        return b""

    def process(self, state: bytes, rows: pa.Table) -> Any:
        return state, {self.name: rows["b"]}


class Upgraded(Latest):
    def upgrade(self, state: bytes, version: int) -> bytes:
        return state


Upgraded.__name__ = "Latest"  # as an edited class would be


def keyed(operator: KeyedOperator, windows: CountWindows | TimeWindows | None = None, keys: tuple[str, ...] = ("a",)) -> Plan:
    made = Operator(operator)
    step = KeyedStep(keys, "ts", COLUMNS, windows, None, made)
    rules = BatchRules(Windows(100, 100), FixedSlack(0), keying=Keying(2))
    spec = QuerySpec(Tagged(keys), "ts", COLUMNS, rules.windows, rules.slack, step=step, identity=made.identity().of_keys(keys))
    return Plan(spec, rules, Store("/nowhere"))


def test_operators_on_keys() -> None:
    before = keyed(Latest()).spec.texts()
    for other in (Latest(0.6), Latest(name="newest"), Latest(version=2), Latest(0.6, version=2)):
        assert refused(before, keyed(other).spec.texts())
    assert not refused(before, keyed(Upgraded(0.6, version=2)).spec.texts(), upgrades=True)
    assert refused(before, keyed(Upgraded(0.6)).spec.texts(), upgrades=True)  # the same version
    assert refused(before, keyed(Upgraded(name="newest", version=2)).spec.texts(), upgrades=True)
    assert refused(before, keyed(Latest(), keys=("a", "id")).spec.texts())
    for one, other in [
        (CountWindows(10, 5), CountWindows(10, 4)),
        (CountWindows(10, 5), CountWindows(10, 5, tick_us=100_001)),
        (TimeWindows(Windows(1_234_567, 1_234_567)), TimeWindows(Windows(1_234_568, 1_234_568))),
    ]:
        assert refused(keyed(Latest(), one).spec.texts(), keyed(Latest(), other).spec.texts())


def test_the_order_among_equal_times_counts_where_it_matters() -> None:
    spec = keyed(Latest()).spec
    assert spec.step is not None
    plain, by_id, by_b = (replace(spec, step=replace(spec.step, order=order)).texts() for order in ((), ("id",), ("id", "b")))
    assert plain == spec.texts()  # as checkpoints from before there was an order have it
    for before, now in itertools.permutations((plain, by_id, by_b), 2):
        assert refused(before, now)
        assert refused({name: before[name] for name in (*READABLE, "order") if name in before}, now)
    assert not refused(by_b, by_b)
    assert not refused({name: plain[name] for name in READABLE}, plain)


N, TOTAL = Field("n"), Field("total")
COUNT, SUM = Measure("count", "*", "n"), Measure("sum", "a", "total")
ZERO = Constant(0, pa.int64())


def ratio(measures: tuple[Measure, ...], expression: Formula, text: str) -> Aggregate:
    return Aggregate(measures, (), "ts", results=(Result("ratio", expression, text),))


def divided(mode: Any) -> Formula:
    return Call("divide", tuple(Call("cast", (each,), pa.float64()) for each in (N, TOTAL)), pa.float64(), mode)


FAILS = ratio((COUNT, SUM), divided("ANSI"), "count(*) / sum(a)")
WORKS = {
    "try_divide": ratio((COUNT, SUM), divided("TRY"), "try_divide(count(*), sum(a))"),
    "CASE": ratio(
        (SUM, COUNT),  # in the order in which they are written
        Call("case", (Call("greater", (TOTAL, ZERO), pa.bool_()), divided("ANSI")), pa.float64()),
        "CASE WHEN sum(a) > 0 THEN count(*) / sum(a) END",
    ),
}


def ranked(query: Query) -> Query:
    return Over(query, TopK(high("ratio"), k=1, nulls="worst"))


@pytest.mark.parametrize("wrap", [lambda query: query, ranked], ids=["aggregate", "top-k over it"])
@pytest.mark.parametrize(("remedy", "old"), [("try_divide", False), ("try_divide", True), ("CASE", False)])
def test_a_window_without_a_result_does_not_end_the_checkpoint(remedy: str, wrap: Callable[[Query], Query], old: bool) -> None:
    data = tuples([[[10, 60, 110]], [[160, 210, 260, 310, 360]], [[410, 460]], [[760]]])
    data[1][0] = data[1][0].set_column(1, "a", pa.array([0] * 5))
    windows = Windows(200, 100)
    with tempfile.TemporaryDirectory() as folder:
        out = Outputs()
        engine = Engine(*plan_of(wrap(FAILS), folder, windows, FixedSlack(0)), out.sinks)
        engine.run_batch(InProcess(), data[0], 0)
        with pytest.raises(InvalidInput, match=r"a division by zero; write try_divide\(a, b\)"):
            for number in (1, 2):
                engine.run_batch(InProcess(), data[number], number)
        failed = engine.store.latest().batch + 1
        engine.store.release()
        if old:
            forget_exact(folder)
        engine = Engine(*plan_of(wrap(WORKS[remedy]), folder, windows, FixedSlack(0)), out.sinks)
        for number in range(failed, len(data)):
            engine.run_batch(InProcess(), data[number], number)
        again = Engine(*plan_of(wrap(WORKS[remedy]), folder, windows, FixedSlack(0)), out.sinks)
        again.flush(InProcess())
    found = {
        row["window_start"].microsecond - 1_000_000 * (row["window_start"].year < 1970): row["ratio"] for row in out.results.rows()
    }
    rows = [row for batch in data for part in batch for row in part.to_pylist()]
    expected = {}
    for start in range(-100, 800, 100):
        here = [row["a"] for row in rows if start <= row["ts"].microsecond < start + 200]
        if here:
            expected[start] = len(here) / sum(here) if sum(here) else None
    if wrap is not ranked:
        assert found == expected and None in expected.values()
    else:
        assert {start: ratio for start, ratio in found.items() if ratio} == {s: r for s, r in expected.items() if r}


def over_sums(name: str, mode: Any, right: Formula = TOTAL) -> Aggregate:
    return ratio((COUNT, SUM), Call(name, (N, right), pa.int64(), mode), f"{name} {mode} {right}")


NOT_ZERO = Call("case", (Call("equal", (TOTAL, ZERO), pa.bool_()), Constant(None, pa.int64()), TOTAL), pa.int64())  # nullif
HUGE = Constant(2**62, pa.int64())


@pytest.mark.parametrize(
    ("fails", "message", "works"),
    [
        (over_sums("divide_whole", "ANSI"), r"by zero; write a div nullif\(b, 0\)", over_sums("divide_whole", "ANSI", NOT_ZERO)),
        (over_sums("remainder", "ANSI"), r"by zero; write a % nullif\(b, 0\)", over_sums("remainder", "ANSI", NOT_ZERO)),
        (over_sums("multiply", "ANSI", HUGE), "overflows int64; use a try_ function", over_sums("multiply", "TRY", HUGE)),
    ],
    ids=["div", "%", "*"],
)
def test_the_remedy_keeps_the_type_of_the_result(fails: Aggregate, message: str, works: Aggregate) -> None:
    data = tuples([[[10, 60, 110]], [[410, 460]]])
    data[0][0] = data[0][0].set_column(1, "a", pa.array([0] * 3))
    with tempfile.TemporaryDirectory() as folder:
        out = Outputs()
        engine = Engine(*plan_of(fails, folder, Windows(200, 200), FixedSlack(0)), out.sinks)
        with pytest.raises(InvalidInput, match=message):
            for number, batch in enumerate(data):
                engine.run_batch(InProcess(), batch, number)
        failed = engine.store.latest().batch + 1
        engine.store.release()
        engine = Engine(*plan_of(works, folder, Windows(200, 200), FixedSlack(0)), out.sinks)
        for number in range(failed, len(data)):
            engine.run_batch(InProcess(), data[number], number)
    assert out.results.rows()[0]["ratio"] is None


def forget_exact(folder: str) -> None:
    """Leave the checkpoint as older versions wrote it: with what people read, and aggregates in the order they were written."""
    state = Store(folder).latest()
    for name in Store(folder).files.names("manifests"):
        Store(folder).files.delete(name)
    store = Store(folder)
    store.take_over()
    store.record(replace(state, identity={name: state.identity[name] for name in READABLE}))
    store.release()
