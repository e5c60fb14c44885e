"""Pages and metrics of what really runs on Spark."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import skytide
from skytide import low
from skytide.watch.server import Page

DEADLINE_S = 120


def until(look: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


@contextmanager
def subjects(page: Page) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Read what a page is told, as a browser does; the function returns the latest of a kind."""
    known: dict[str, dict[str, Any]] = {}
    request = urllib.request.Request(page.url.partition("#")[0] + "events")
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:

        def latest(kind: str) -> dict[str, Any]:
            line = answer.readline().decode()
            if line.startswith("data: "):
                update = json.loads(line[6:])
                for subject in update.get("subjects", [update]):
                    known[subject["kind"]] = known.get(subject["kind"], {}) | subject
            return known.get(kind, {})

        yield latest


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_query_and_its_auto_scaler(spark: SparkSession, tmp_path: Path, closing: ExitStack) -> None:
    source = skytide.workload(rate=2_000, dimensions=2, seed=5)
    query = skytide.stream(source).window("1 second", slide="200 ms").skyline(low("x0"), low("x1"))
    run = query.start(
        "parquet", path=tmp_path / "out", checkpoint=tmp_path / "state", trigger="500 ms", name="watched", window_slots=1
    )
    closing.callback(run.stop)
    page = run.serve(port=0)
    closing.callback(page.stop)
    scaler = skytide.autoscale(run, "static:4", (2, 4), interval="1 s")
    closing.callback(scaler.stop)
    assert scaler.serve(port=page.port) is page
    exporter = run.metrics(port=0)
    closing.callback(exporter.stop)
    scaler.metrics(port=exporter.port)
    latest = closing.enter_context(subjects(page))
    seen = until(
        lambda: (update := latest("query")).get("scatter") and len(update["tables"][0]["rows"]) > 5 and update,
        "windows on the page",
    )
    assert seen["name"] == "watched" and seen["scatter"]["columns"] == ["x0", "x1"] and seen["scatter"]["points"]
    assert seen["about"] == "Skyline(low('x0') * low('x1')) over windows of 1 s every 200 ms"
    update = until(lambda: (progress := run.query.lastProgress) and progress["observedMetrics"].get("skytide"), "observed metrics")
    assert update["tuples"] > 0 and update["open_panes"] > 0 and update["windows_out"] <= run.status().windows_out
    decided = until(lambda: (update := latest("scaler")).get("marks") and update, "a change of the auto-scaler on the page")
    assert decided["actions"] == ["pause"] and decided["tables"][0]["rows"]
    with urllib.request.urlopen(exporter.url, timeout=30) as answer:
        text = answer.read().decode()
    assert 'skytide_query_running{query="watched"} 1.0' in text and 'skytide_scaler_running{query="watched"} 1.0' in text
    run.stop()
    ended = until(lambda: (update := latest("query")).get("over") and update, "the end on the page")
    assert ended["verdict"]["text"] == "Ended" and ended["tables"][0]["rows"]


def test_a_query_with_its_fleet(spark: SparkSession, tmp_path: Path, closing: ExitStack) -> None:
    feeds = tmp_path / "feeds"
    feeds.mkdir()
    for number in range(5):
        rows = (f'{{"ts": "2026-01-01T00:00:{second:02}", "x": {number}.5}}\n' for second in range(30))
        (feeds / f"sensor-{number}.jsonl").write_text("".join(rows))
    fleet = skytide.fleet(feeds, schema="ts timestamp, x double", format="jsonl")
    query = skytide.stream(fleet, time="ts").window("5 seconds").aggregate("count(*)")
    run = query.start("memory", checkpoint=tmp_path / "state", trigger="500 ms", name="sensors")
    closing.callback(run.stop)
    page = run.serve(port=0)
    closing.callback(page.stop)
    latest = closing.enter_context(subjects(page))
    seen = until(
        lambda: len((update := latest("fleet")).get("tables", [{"rows": []}])[0]["rows"]) == 5 and update, "streams on the page"
    )
    assert seen["tables"][0]["rows"][0][0].startswith("sensor-") and seen["bars"]["bars"]
    query_seen = until(lambda: (update := latest("query")).get("trail", {}).get("t") or update.get("point"), "a batch on the page")
    assert query_seen
    run.stop()
    ended = until(lambda: (update := latest("fleet")).get("over") and update, "the end of the fleet on the page")
    assert ended["verdict"]["text"] == "Ended" and len(ended["tables"][0]["rows"]) == 5


def test_a_query_that_fails_says_why(spark: SparkSession, tmp_path: Path, closing: ExitStack) -> None:
    def broken(results: Any, number: int) -> None:
        raise RuntimeError("the sink is full")

    source = skytide.workload(rate=1_000, dimensions=2, seed=5)
    run = skytide.stream(source).window("1 second").skyline(low("x0"), low("x1")).start(broken, checkpoint=tmp_path / "state")
    closing.callback(run.stop)
    page = run.serve(port=0)
    closing.callback(page.stop)
    latest = closing.enter_context(subjects(page))
    failed = until(lambda: (update := latest("query")).get("over") and update, "the failure on the page")
    assert failed["verdict"]["text"] == "Failed" and "the sink is full" in failed["verdict"]["more"]


def test_jobs_of_any_dataframe_say_where_the_query_stands(spark: SparkSession, tmp_path: Path, closing: ExitStack) -> None:
    rows = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", 100)
        .load()
        .selectExpr("timestamp AS ts", "value % 7 AS x", "value AS y")
    )
    query = skytide.stream(rows, time="ts").window("1 second", slide="200 ms").skyline(low("x"), low("y"))
    run = query.start("memory", checkpoint=tmp_path / "state", trigger="200 ms", name="described")
    closing.callback(run.stop)
    store = spark.sparkContext._jsc.sc().statusStore()

    def descriptions() -> list[str]:
        jobs = store.jobsList(None)
        found = (jobs.apply(at).description() for at in range(jobs.size()))
        return [each.get() for each in found if each.isDefined() and each.get().startswith("described")]

    def counted() -> list[tuple[int, int]]:
        found = (re.search(r"batch = (\d+)\nso far ([\d,]+) windows out, 0 of [\d,]+ tuples late", each) for each in descriptions())
        return sorted({(int(each[1]), int(each[2].replace(",", ""))) for each in found if each})

    counts = until(lambda: (found := counted()) and found[-1][1] > 2 and found, "descriptions with windows")
    assert [windows for _, windows in counts] == sorted(windows for _, windows in counts)
    assert all(each.count("so far") == 1 for each in descriptions() if "so far" in each)
