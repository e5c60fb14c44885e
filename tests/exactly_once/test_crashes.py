"""A query that dies before and after every instruction of its machine, for kinds of inputs, sinks and splittings: its results are those of a query that does not die."""

import tempfile
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from support import keyed, oracle
from support.crashes import EXACT, INPUTS, SINKS, Fuse, Lazy, Mortal, Point
from support.engine import COLUMNS, QUERIES, Collected, Crash, InProcess, Outputs, Plan, plan_of, tuples

from skytide.batch import Delivery, InPlace, Sent
from skytide.keyed import KeyedStep, Operator
from skytide.lateness import FixedSlack
from skytide.routing import AS, AS_PID, KEYS, PB_RR, RATE
from skytide.spark.engine.engine import Engine
from skytide.spark.sinks.function import Function
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows

RNG = np.random.default_rng(24)
TIMES = [RNG.permutation(1_000)[:24] + 900 * number - 800 * (RNG.random(24) < 0.1) for number in range(3)]
DATA = [pa.concat_tables(batch) for batch in tuples([[times.tolist()] for times in TIMES])]
STEPS: tuple[int | str, ...] = (*range(len(DATA)), "flush")
DELIVERIES: dict[str, Delivery] = {"in place": InPlace(), **{each.name: Sent(each) for each in (PB_RR, RATE, KEYS, AS, AS_PID)}}


class Running:
    """Numbers and sums the rows of a key."""

    def open(self, key: Any) -> Any:
        return np.array([0, 0])

    def process(self, state: Any, rows: pa.Table) -> Any:
        ids = rows["id"].to_numpy()
        numbers, totals = state[0] + np.arange(len(ids)), state[1] + np.cumsum(ids)
        after = np.array([numbers[-1] + 1, totals[-1]]) if len(ids) else state
        return after, {"number": numbers, "id": ids, "total": totals}


def plan_in(folder: Path, query: str, delivery: Delivery, columns: pa.Schema) -> Plan:
    place, slack = str(folder / "state"), FixedSlack("100 us")
    if query == "operator":
        plan = keyed.plan_of(KeyedStep(("a",), "ts", columns, None, None, Operator(Running())), place, slack)
        return replace(plan, rules=replace(plan.rules, delivery=delivery))
    spread = {"window_slots": 2, "spreading_pays_s": 0.0} if query == "spread" else {}
    plan = plan_of(QUERIES[4 if query == "aggregate" else 0], place, Windows(600, 200), slack, delivery=delivery, **spread)
    return plan.but(columns=columns)


class Case(NamedTuple):
    """A combination of kinds."""

    query: str
    input: str
    sink: str
    delivery: str


class Found(NamedTuple):
    """What came out: rows of results, late rows, and windows without the seconds that they took."""

    results: Counter[str]
    late: Counter[str]
    windows: Counter[str]


def pairwise() -> list[Case]:
    """Return cases in which any two kinds meet: each next case has the most pairs that no earlier one has."""
    every = [Case(*kinds) for kinds in product(("skyline", "aggregate", "spread", "operator"), INPUTS, EXACT, DELIVERIES)]
    pairs = {case: set(combinations(enumerate(case), 2)) for case in every}
    missing, found = set().union(*pairs.values()), []
    while missing:
        found.append(max(every, key=lambda case: len(pairs[case] & missing)))
        missing -= pairs[found[-1]]
    return found


CASES = pairwise()


def play(case: Case, folder: Path, fuse: Fuse, jobs: Lazy | None = None) -> Found:
    """Run all batches and a flush; whenever the query dies, another engine on its checkpoint goes on with the batch, as Spark does."""
    columns = pa.schema([field.with_nullable(case.input != "NOT NULL") for field in COLUMNS])
    given = INPUTS[case.input]([rows.cast(columns) for rows in DATA])
    results, late, windows = SINKS[case.sink](folder), Collected(), Collected()
    sinks = Sinks(
        results.sink,
        late=Function(lambda rows, number: late(rows.toArrow(), number)),
        windows=Function(lambda rows, number: windows(rows.toArrow(), number)),
    )
    jobs, left, engine = jobs or Lazy(), list(STEPS), None
    while left:
        fuse.step = left[0]
        try:
            if engine is None:
                engine = Mortal(*plan_in(folder, case.query, DELIVERIES[case.delivery], columns), sinks)
                engine.fuse = fuse
                engine.finish_flush(jobs)
            if isinstance(left[0], int):
                engine.run_batch(jobs, given.start(left[0]), left[0])
                fuse.at("Spark's own commit", "before")
                given.commit()
            else:
                engine.flush(jobs)
            left.pop(0)
        except Crash:
            engine = None
    return Found(results.rows(), *(_multiset(side) for side in (late, windows)))


def _multiset(side: Collected) -> Counter[str]:
    return oracle.multiset({name: value for name, value in row.items() if name != "latency_s"} for row in side.rows())


@cache
def undisturbed(query: str) -> Found:
    """Return what comes out of a plain query that does not die, which the oracle agrees with."""
    with tempfile.TemporaryDirectory() as folder:
        plan, out = plan_in(Path(folder), query, InPlace(), COLUMNS), Outputs()
        engine = Engine(*plan, out.sinks)
        for number, rows in enumerate(DATA):
            engine.run_batch(InProcess(), [rows], number)
        engine.flush(InProcess())
        found = Found(oracle.multiset(out.results.rows()), _multiset(out.late), _multiset(out.windows))
        if query == "operator":
            rows = oracle.accepted(
                oracle.rows_of(pa.concat_tables(DATA)), oracle.rows_of(pa.concat_tables(out.late.batches.values()))
            )
            assert found.results == oracle.multiset(oracle.of_each_key(oracle.running("id"), ["a"])(rows))
        else:
            out.check([[rows] for rows in DATA], plan)
        assert found.late and len(out.results.batches) >= len(DATA)
        return found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_a_query_that_dies_at_every_instruction_is_like_one_that_does_not(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fuse = Fuse()
        assert play(case, Path(folder), fuse) == undisturbed(case.query)
        work = "RunKeys" if case.query == "operator" else "RunWindows"
        assert {what for _, what, _ in fuse.passed} >= {"RunPanes", work, "Record", "Emit", "Commit", "ReadAgain"}


def points() -> list[Point]:
    """Return all points at which the last batch, or the flush, may die."""
    flush = ("RunWindows", "Record", "Emit", "Commit")
    instructions: dict[int | str, tuple[str, ...]] = {2: ("RunPanes", *flush), "flush": flush}
    inside = [(step, what, when) for step, each in instructions.items() for what in each for when in ("before", "after")]
    return [*inside, (2, "Spark's own commit", "before")]


@pytest.mark.parametrize("point", points(), ids=lambda point: " ".join(map(str, point)))
def test_a_query_that_dies_once_is_like_one_that_does_not(point: Point) -> None:
    """What is interrupted goes on to its end at once, which no query does that dies at the next instruction again."""
    cases = [case for case in CASES if case.query != "operator"]
    case = cases[points().index(point) % len(cases)]
    with tempfile.TemporaryDirectory() as folder:
        fuse = Fuse(only=point)
        assert play(case, Path(folder), fuse) == undisturbed(case.query)
        assert point in fuse.passed


class Forgetful(Lazy):
    """Jobs that do not execute what was decided before."""

    def read(self, batch: Any) -> None:
        pass


def test_an_input_that_is_not_executed_again_is_found_out() -> None:
    case = Case("skyline", "deduplicated", "memory", "in place")
    with tempfile.TemporaryDirectory() as folder, pytest.raises(RuntimeError, match="batch 0 has left no state"):
        play(case, Path(folder), Fuse(only=(0, "Record", "after")), Forgetful())


def test_a_sink_that_has_a_batch_twice_is_found_out() -> None:
    case = Case("skyline", "plain", "append", "in place")
    with tempfile.TemporaryDirectory() as folder:
        assert play(case, Path(folder), Fuse()) != undisturbed("skyline")
