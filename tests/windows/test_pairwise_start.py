"""The arguments of `start` in pairs: each combination is refused at the start, or gives what the oracle says."""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.oracle import accepted, aggregate, multiset, rows_of, windows_of

import skytide

LENGTH_US, SECOND_US = 10_000_000, 1_000_000
FOLDER, FUNCTION = "folder", "function"
VALUES: dict[str, list[Any]] = {
    "sink": ["memory", "parquet", "json", "console", FUNCTION],
    "path": [None, FOLDER],
    "options": [None, {"compression": "gzip"}],
    "late": [None, FOLDER, FUNCTION],
    "windows": [None, FOLDER, FUNCTION],
    "invalid": [None, FOLDER, FUNCTION],
    "flush": [True, False],
    "name": [None, "pairs"],
    "splitting": [None, "KEYS", "RATE", "PB_RR"],
    "pane_slots": [None, 3],
    "window_slots": [1, 2],
    "trigger": ["availableNow", "auto", "1 hour"],
}
Case = dict[str, Any]
Pair = frozenset[tuple[str, int]]


def refused(case: Case) -> str | None:
    """Return what an error must name if the combination makes no sense; from what the pages say, not from the code."""
    if case["flush"] and case["trigger"] != "availableNow":
        return "flush"
    if case["sink"] in ("parquet", "json"):
        return None if case["path"] else "path"
    return "path" if case["path"] else "options" if case["options"] else None


def pairs_of(chosen: dict[str, int]) -> set[Pair]:
    return {frozenset(pair) for pair in itertools.combinations(chosen.items(), 2)}


def case_of(chosen: dict[str, int]) -> Case:
    return {name: VALUES[name][number] for name, number in chosen.items()}


def covering(runs: bool) -> list[Case]:
    """Return few combinations that run (or are refused) with all pairs of values that one such combination can have: greedily, always the same."""
    names = sorted(VALUES, key=lambda name: -len(VALUES[name]))
    # what decides about a refusal is tried in full, all other arguments are free
    deciding = ["sink", "path", "options", "flush", "trigger"]
    starts = [
        dict(zip(deciding, numbers, strict=True))
        for numbers in itertools.product(*(range(len(VALUES[name])) for name in deciding))
        if (refused(case_of(dict(zip(deciding, numbers, strict=True)))) is None) == runs
    ]
    if runs:  # a query with an interval does not end by itself: the suite has those elsewhere
        starts = [start for start in starts if VALUES["trigger"][start["trigger"]] == "availableNow"]
    free = [name for name in names if name not in deciding]
    left = {pair for start in starts for pair in pairs_of(start)}
    left |= {
        frozenset([(a, i), (b, j)])
        for a, b in itertools.combinations(free, 2)
        for i in range(len(VALUES[a]))
        for j in range(len(VALUES[b]))
    }
    left |= {frozenset([item, (b, j)]) for start in starts for item in start.items() for b in free for j in range(len(VALUES[b]))}
    found = []
    while left:
        seed, best = dict(min(left, key=sorted)), dict[str, int]()
        for start in (start for start in starts if start.items() >= {item for item in seed.items() if item[0] in deciding}):
            chosen = start | seed
            for name in (name for name in free if name not in seed):
                gains = [len(pairs_of(chosen | {name: number}) & left) for number in range(len(VALUES[name]))]
                chosen[name] = gains.index(max(gains))
            best = max(best, chosen, key=lambda one: len(pairs_of(one) & left))
        left -= pairs_of(best)
        found.append(case_of(best))
    return found


def stream_of(spark: SparkSession, folder: Path) -> tuple[DataFrame, list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a stream of one file, its rows that have a time, and its row without one."""
    seconds = [3, 1, 25, 12, 12, 18, 38, 31, 7]
    rows: list[dict[str, Any]] = [{"ts": second * SECOND_US, "k": "ab"[second % 2], "x": second} for second in seconds]
    without = [{"ts": None, "k": "a", "x": 5}]
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("x", pa.int64())])
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows + without, schema), folder / "0.parquet")
    return spark.readStream.schema("ts timestamp, k string, x bigint").parquet(str(folder)), rows, without


def arguments(case: Case, folder: Path, got: dict[str, dict[int, pa.Table]]) -> Case:
    """Return a combination with folders and functions of its own."""

    def keeps(name: str) -> Any:
        return lambda rows, batch_id: got.setdefault(name, {}).update({batch_id: rows.toArrow()})

    return {name: folder / name if value is FOLDER else keeps(name) if value is FUNCTION else value for name, value in case.items()}


def side_output(
    spark: SparkSession, case: Case, folder: Path, got: dict[str, dict[int, pa.Table]], name: str
) -> list[dict[str, Any]]:
    """Return the rows that went to a folder or to a function."""
    if case[name] is FOLDER:
        return rows_of(spark.read.parquet(str(folder / name)).drop("batch").toArrow())
    return [row for table in got.get(name, {}).values() for row in rows_of(table)]


def asked_of(df: DataFrame) -> Any:
    windows = skytide.stream(df).window("10 seconds", slack=skytide.slacks.FixedSlack("0 s"))
    return windows.aggregate("count(*) AS n", "sum(x) AS total", keys="k")


def test_every_wrong_pair_of_arguments_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    asked = asked_of(stream_of(spark, tmp_path / "in")[0])
    for number, case in enumerate(covering(runs=False)):
        folder = tmp_path / f"refused-{number}"
        try:
            asked.start(**arguments(case, folder, {}), checkpoint=folder / "state").stop()
            raise AssertionError(f"not refused: {case}")
        except skytide.InvalidInput as error:
            named = refused(case)
            assert named in str(error) or "path" in str(error) or "options" in str(error), (case, error)
        assert not folder.exists(), case  # before anything was written


@pytest.mark.long
def test_every_other_pair_of_arguments_gives_what_the_oracle_says(spark: SparkSession, tmp_path: Path, capsys: Any) -> None:
    df, rows, without = stream_of(spark, tmp_path / "in")
    asked = asked_of(df)
    ask = aggregate([("count", "*", "n"), ("sum", "x", "total")], ["k"])
    for number, case in enumerate(covering(runs=True)):
        folder, got = tmp_path / f"run-{number}", dict[str, dict[int, pa.Table]]()
        run = asked.start(**arguments(case, folder, got), checkpoint=folder / "state")
        assert run.await_termination(), case

        side = partial(side_output, spark, case, folder, got)
        late = side("late")
        expected = windows_of(accepted(rows, late), LENGTH_US, LENGTH_US, ask)
        if not case["flush"]:  # the last one is open
            expected.pop(max(expected))
        answers = [
            {"window_start": start, "window_end": start + LENGTH_US, **row}
            for start, window in expected.items()
            for row in window.rows
        ]
        assert run.status().late == 0 == len(late), case  # one batch has nothing that is late
        assert run.status().invalid == 1, case
        if case["invalid"]:
            assert multiset(side("invalid")) == multiset(without), case
        if case["windows"]:
            assert {row["window_start"]: row["tuples"] for row in side("windows")} == {s: w.tuples for s, w in expected.items()}, (
                case
            )
        assert [row.tuples for row in run.windows()] == [window.tuples for window in expected.values()], case
        if case["sink"] == "memory":
            results = rows_of(run.results())
        elif case["sink"] == "console":
            assert capsys.readouterr().out.count("\n|1970-01-01") == len(answers), case
            continue
        elif case["sink"] is FUNCTION:
            results = side("sink")
        else:
            columns = "window_start timestamp, window_end timestamp, k string, n bigint, total bigint"
            results = rows_of(spark.read.schema(columns).format(case["sink"]).load(str(folder / "path")).drop("batch").toArrow())
        assert multiset(results) == multiset(answers), case
