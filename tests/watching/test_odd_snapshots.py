"""Snapshots that fail, and odd values in them: each concerns its own subject only, and the next one may succeed."""

import gc
import json
import math
import urllib.request
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from support.snapshots import TalkingFleet, TalkingQuery, TalkingScaler

from skytide.cli.checkpoint import _time
from skytide.records import WindowRow
from skytide.records.printing import moment
from skytide.spark.api.watching import _points
from skytide.watch import watch as watching
from skytide.watch.exporter import Exporter
from skytide.watch.snapshots import Points, Subject
from skytide.watch.strict import to_json
from skytide.watch.watch import Watch

FAR_US = 1_700_000_000_000 * 1_000_000  # milliseconds taken for seconds


def strict(text: str) -> Any:
    """Read JSON as a browser does."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def shown(watch: Watch) -> dict[str, dict[str, Any]]:
    return {subject["name"]: subject for subject in strict(watch.all()[1])}


def metrics(watch: Watch) -> dict[str, dict[str, float]]:
    exporter = Exporter(watch, 0)
    try:
        with urllib.request.urlopen(exporter.url, timeout=30) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {
                sample.name: {sample.labels.get("query", ""): sample.value for sample in family.samples}
                for family in families
                for sample in family.samples
            }
    finally:
        exporter.stop()


def test_a_snapshot_that_fails_blinds_nobody_else_and_the_next_one_is_seen() -> None:
    watch, broken, healthy = Watch(), TalkingQuery("broken"), TalkingQuery("healthy")
    for query in (broken, healthy):
        watch.add(query.subject())
        query.batch()
    watch.refresh()
    broken.fails = True
    for query in (broken, healthy):
        query.batch()
    watch.refresh()
    seen = shown(watch)
    assert seen["broken"]["verdict"]["text"] == "Not seen now" and not seen["broken"]["over"] and seen["broken"]["tiles"]
    assert seen["healthy"]["verdict"]["text"] == "Keeps up" and len(seen["healthy"]["trail"]["t"]) == 2
    ages = metrics(watch)["skytide_query_seen_timestamp_seconds"]
    assert ages["broken"] == ages["healthy"] - 0.5
    known, _ = watch.all()
    watch.refresh()
    assert watch.after(known) == []  # the same failure is told once
    broken.fails = False
    watch.refresh()
    assert shown(watch)["broken"]["verdict"]["text"] == "Keeps up"


def test_a_query_that_failed_after_snapshots_that_failed_is_not_running() -> None:
    watch, query = Watch(), TalkingQuery()
    watch.add(query.subject())
    query.batch()
    watch.refresh()
    query.fails = True
    watch.refresh()
    query.fails = False
    query.set_state("failed", "why")
    watch.refresh()
    assert shown(watch)["prices"]["verdict"]["text"] == "Failed"
    found = metrics(watch)
    assert found["skytide_query_running"] == {"prices": 0} and found["skytide_query_failed"] == {"prices": 1}


def test_what_cannot_be_drawn_is_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind:
        point = staticmethod(lambda before, now: 1 / 0)

    watch, query = Watch(), TalkingQuery()
    monkeypatch.setitem(watching.VIEWS, "query", Blind)
    watch.add(query.subject())
    query.batch()
    query.set_state("failed", "why")
    watch.refresh()
    assert shown(watch)["prices"]["verdict"]["text"] == "Not seen now"
    assert metrics(watch)["skytide_query_running"] == {"prices": 0}


def test_one_number_that_cannot_be_told_hides_no_other() -> None:
    watch, odd, healthy = Watch(), TalkingQuery("odd \udcff"), TalkingQuery("healthy")
    for query in (odd, healthy):
        query.batch()
        watch.add(query.subject())
    odd.latest = replace(odd.latest, status=replace(odd.latest.status, slack_us=None))
    watch.refresh()
    found = metrics(watch)
    assert found["skytide_query_slack_seconds"] == {"healthy": 0.4}
    assert found["skytide_query_running"] == {"odd ?": 1, "healthy": 1}


@pytest.mark.parametrize("time_us", [FAR_US, 2**63 - 1, -(2**63), -62_135_596_800_000_001, 253_402_300_800_000_000])
def test_times_of_any_year_are_shown_and_printed(time_us: int) -> None:
    watch, query = Watch(), TalkingQuery()
    query.batch()
    row = WindowRow(time_us, time_us, tuples=1, kept=1, late=0, latency_s=0.0)
    query.latest = replace(query.latest, windows=(row,), status=replace(query.latest.status, last_window=row, newest_us=time_us))
    watch.add(query.subject())
    assert shown(watch)["prices"]["verdict"]["text"] == "Keeps up"
    assert str(query.latest.status)
    assert _time(time_us).endswith(" UTC")


@given(st.integers(-62_167_219_200_000_000, 2**63 - 1))  # from the year 0 on: before it, the two write years differently
def test_a_moment_is_as_numpy_writes_it(time_us: int) -> None:
    head, _, fraction = moment(time_us).partition(".")
    assert f"{head.replace(' ', 'T')}.{fraction:<06}" == str(np.datetime64(time_us, "us"))


ODD = [math.inf, -math.inf, math.nan, np.float64("nan"), 1e308, -0.0, 5e-324, 2**63, np.int64(7), None]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_every_odd_number_on_a_page_is_strict_json(value: Any) -> None:
    watch, query, scaler, fleet = Watch(), TalkingQuery(), TalkingScaler("its scaler"), TalkingFleet()
    number = 0.0 if value is None else value
    for _ in range(2):
        query.batch(trigger_share=number)
        fleet.look_again(rate_hz=number if abs(number) < math.inf else 1.0)
    scaler.cycle(rate_hz=number, wanted=8, limited=4, utilisation=number, reason="why")
    odd = replace(query.latest.status, input_rate_hz=number, backlog_s=value, pane_utilisation=value, splitting_factor=number)
    points = Points(("x", "y"), ((number, 1.0),))
    query.latest = replace(query.latest, status=odd, points=points, seconds={"sink": number})
    fleet.latest = replace(fleet.latest, status=replace(fleet.latest.status, capacity_hz=number, planning_s=number))
    for each in (query, scaler, fleet):
        watch.add(each.subject())
    query.batch()
    watch.refresh()
    assert {subject["verdict"]["text"] for subject in shown(watch).values()}.isdisjoint({"Not seen now"})
    for _, update in watch.after(0) or ():
        strict(update)
    assert metrics(watch)["skytide_query_running"] == {"prices": 1}


@given(
    st.recursive(
        st.floats() | st.text() | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_anything_is_strict_json(value: Any) -> None:
    strict(to_json(value))


def test_points_without_two_finite_values_are_counted() -> None:
    table = pa.table(
        {"window_start": [1] * 4, "x": [1.0, math.inf, math.nan, None], "y": pa.array([1, 2, 3, 4], pa.decimal128(5, 2))}
    )
    assert _points(table, ("x", "y")) == Points(("x", "y"), ((1.0, 1.0),), undrawn=3)


def test_a_query_that_ended_is_let_go_and_old_ones_are_forgotten() -> None:
    class Rows:
        """What a sink in memory would hold."""

    watch, kept = Watch(), []
    for number in range(watching.KEPT_OVER + 3):
        query, rows = TalkingQuery(f"query {number}"), Rows()
        kept.append(weakref.ref(rows))
        subject = query.subject()
        actions = {"pause": lambda rows=rows: None}
        watch.add(Subject(subject.id, "query", subject.name, "", lambda query=query, rows=rows: query.snapshot(), actions))
        query.batch()
        watch.refresh()
        known, _ = watch.all()
        query.set_state("stopped")
        watch.refresh()
        del rows, query, subject, actions
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)
    assert watch.after(known) is None  # a page that is open is told everything anew
    found = shown(watch)
    assert list(found) == [f"query {number}" for number in range(3, watching.KEPT_OVER + 3)]
    assert all(subject["verdict"]["text"] == "Ended" and subject["tables"][0]["rows"] for subject in found.values())
