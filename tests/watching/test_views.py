"""What pages are made of: pure functions of snapshots."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from support.snapshots import NOW_S, TalkingFleet, TalkingQuery, TalkingScaler

from skytide.records import Outcome
from skytide.watch import fleet_view, scaler_view
from skytide.watch.query_view import idle_point, is_live, panel, point, verdict
from skytide.watch.snapshots import Subject
from skytide.watch.trail import Trail
from skytide.watch.watch import REMEMBERED, Watch


def seen(query: TalkingQuery, **batch: float) -> tuple[dict, Trail]:
    """Do a batch, look, and return the point and the trail."""
    before = query.snapshot()
    query.batch(**batch)
    found, trail = point(before, query.snapshot()), Trail()
    trail.add(found)
    return found, trail


def test_a_point_has_what_a_batch_did() -> None:
    query = TalkingQuery()
    query.batch()
    found, _ = seen(query, tuples=3_000, late=20, invalid=5, trigger_share=0.9, latency_s=2.0)
    assert found["t"] == NOW_S + 1.0
    assert (found["input_hz"], found["load"], found["pane_load"]) == (6_000, 90, 20)
    assert (found["late_hz"], found["invalid_hz"]) == (40, 10)  # in half a second
    assert (found["slack_s"], found["work_s"]) == (0.4, 1.6)  # a latency of 2 s
    assert (found["panes_s"], found["windows_s"], found["sink_s"], found["commit_s"]) == (0.1, 0.05, 0.02, 0.03)


def test_nothing_new_is_no_point() -> None:
    query = TalkingQuery()
    assert point(None, query.snapshot()) is None
    query.batch()
    assert point(query.snapshot(), query.snapshot()) is None


def test_a_query_that_is_idle_goes_on_in_the_charts() -> None:
    query = TalkingQuery()
    _, trail = seen(query)
    query.set_state("idle", after_s=1.0)
    assert idle_point(query.snapshot(), trail.latest) is None
    query.set_state("idle", after_s=2.0)
    found = idle_point(query.snapshot(), trail.latest)
    assert found is not None and found["input_hz"] == 0


@pytest.mark.parametrize(
    ("trigger_share", "level", "text"),
    [(0.4, "good", "Keeps up"), (0.9, "warn", "Hardly keeps up"), (1.3, "bad", "Falls behind")],
)
def test_the_verdict_says_whether_it_keeps_up(trigger_share: float, level: str, text: str) -> None:
    query = TalkingQuery()
    _, trail = seen(query, trigger_share=trigger_share)
    found = verdict(query.snapshot(), trail)
    assert (found.level, found.text) == (level, text)


def test_one_slow_first_batch_is_no_verdict() -> None:
    query, trail = TalkingQuery(), Trail()
    for trigger_share in (50.0, 0.4, 0.4, 0.4):
        before = query.snapshot()
        query.batch(trigger_share=trigger_share)
        trail.add(point(before, query.snapshot()))
    assert verdict(query.snapshot(), trail).text == "Keeps up"


@pytest.mark.parametrize(
    ("state", "why", "level", "text"),
    [("failed", "NULL in x", "bad", "Failed"), ("stopped", "", "quiet", "Ended"), ("stopping", "", "quiet", "Stopping")],
)
def test_the_verdict_on_the_end(state: str, why: str, level: str, text: str) -> None:
    query = TalkingQuery()
    _, trail = seen(query)
    query.set_state(state, why)
    shown = panel(query.snapshot(), trail)
    assert (shown.verdict.level, shown.verdict.text) == (level, text)
    assert why in shown.verdict.more
    assert shown.over == (state != "stopping")


def test_a_stream_of_other_times_shows_no_latency() -> None:
    query = TalkingQuery()
    query.batch()
    replayed = replace(query.snapshot(), status=replace(query.snapshot().status, backlog_s=1e8))
    assert not is_live(replayed.status)
    shown = panel(replayed, Trail())
    assert "Latency of windows" not in [chart.title for chart in shown.charts]
    assert {tile.label: tile.value for tile in shown.tiles}["Latency"] == "–"


def test_every_chart_draws_fields_that_points_have() -> None:
    query = TalkingQuery()
    query.batch()
    found, trail = seen(query)
    fields = {series.field for chart in panel(query.snapshot(), trail).charts for series in chart.series}
    assert fields <= set(found)


def test_a_panel_is_plain_values() -> None:
    query = TalkingQuery()
    _, trail = seen(query)
    shown = panel(query.snapshot(), trail).to_json()
    assert json.loads(json.dumps(shown))["tables"][0]["rows"][0][2] == "1,000"


def test_a_trail_stays_small_and_keeps_bursts() -> None:
    trail = Trail(fine=10)
    for second in range(10_000):
        trail.add({"t": second, "rate": 99.0 if second == 17 else 1.0, "odd": None})
    columns = trail.columns()
    assert len(columns["t"]) <= 20
    assert columns["t"] == sorted(columns["t"])
    assert max(columns["rate"]) == 99
    assert columns["t"][-10:] == list(range(9_990, 10_000))
    assert set(columns["odd"]) == {None}


def test_who_was_away_gets_what_came_meanwhile_or_all() -> None:
    watch, query = Watch(), TalkingQuery()
    watch.add(query.subject())
    query.batch()
    watch.refresh()
    known, everything = watch.all()
    assert len(json.loads(everything)[0]["trail"]["t"]) == 1
    assert watch.after(known) == []
    query.batch(tuples=2_000)
    watch.refresh()
    (news,) = watch.after(known)
    assert json.loads(news[1])["point"]["input_hz"] == 4_000
    for _ in range(REMEMBERED):
        query.batch()
        watch.refresh()
    assert watch.after(known) is None
    assert watch.after(10**6) is None


def test_a_batch_that_takes_many_snapshots_is_drawn_whole() -> None:
    watch, query = Watch(), TalkingQuery()
    watch.add(query.subject())
    query.batch()
    watch.refresh()
    for _ in range(3):  # the pane level of the next batch is done, the rest is not
        query.latest = replace(query.latest, at_s=query.latest.at_s + 0.5, seconds={**query.latest.seconds, "pane level": 0.2})
        watch.refresh()
    query.batch(late=40)
    watch.refresh()
    (shown,) = json.loads(watch.all()[1])
    assert shown["trail"]["panes_s"][1:] == [0.1]
    assert shown["trail"]["late_hz"][1:] == [20.0]  # 40 in the two seconds since the batch before


def test_nothing_new_is_not_told() -> None:
    watch, query = Watch(), TalkingQuery()
    watch.add(query.subject())
    query.batch()
    watch.refresh()
    known, _ = watch.all()
    watch.refresh()
    assert watch.after(known) == []


def test_a_query_that_starts_again_goes_on_with_its_points() -> None:
    watch = Watch()
    for _ in range(2):
        query = TalkingQuery()
        watch.add(query.subject())
        query.batch()
        watch.refresh()
    (shown,) = json.loads(watch.all()[1])
    assert len(shown["trail"]["t"]) == 2


def test_what_can_be_asked_is_asked() -> None:
    asked: list[str] = []
    query = TalkingQuery()
    latest = query.subject()
    watch = Watch()
    watch.add(Subject(latest.id, latest.kind, latest.name, latest.about, latest.snapshot, {"pause": lambda: asked.append("pause")}))
    assert watch.act(latest.id, "pause") and asked == ["pause"]
    assert not watch.act(latest.id, "destroy")
    assert not watch.act("nobody", "pause")


def test_an_auto_scaler_tells_its_reasons_and_what_the_guard_made_of_them() -> None:
    scaler, trail = TalkingScaler(), Trail()
    assert scaler_view.verdict(scaler.latest).text == "Watching"
    scaler.cycle(rate_hz=5_000, wanted=8, limited=4, utilisation=1.4, reason="forecast up to 9,000 tuples/s")
    found = scaler_view.point(None, scaler.latest)
    assert found is not None
    assert (found["arrival_hz"], found["workers"], found["wanted"], found["decided"]) == (5_000, 2, 4, 8)
    assert (found["expected_hz"], found["low_hz"], found["high_hz"]) == (6_000, 4_500, 7_500)
    assert found["capacity_hz"] == pytest.approx(5_000 / 1.4, rel=1e-3)
    shown = scaler_view.panel(scaler.latest, trail)
    assert shown.verdict.text == "From 2 to 4" and "forecast up to 9,000" in shown.verdict.more
    assert shown.tables[0].rows[0][1:4] == ("2", "8", "4") and "at most 2 times" in shown.tables[0].rows[0][4]
    assert shown.marks[0].level == "warn" and shown.actions == ("pause",)
    assert scaler_view.point(scaler.latest, scaler.latest) is None
    assert {series.field for chart in shown.charts for series in chart.series} <= set(found)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"paused": True}, "Paused"),
        ({"failure": "this cycle failed"}, "Fails"),
        ({"running": False}, "Ended"),
        ({"acts": False}, "Recommends 4"),
        ({"workers": 4}, "In balance"),
        ({"workers": 8, "wanted": 8}, "At its limit"),
    ],
)
def test_the_verdict_on_an_auto_scaler(change: dict[str, Any], text: str) -> None:
    scaler = TalkingScaler()
    scaler.cycle(rate_hz=5_000, wanted=4, limited=4, utilisation=1.4, reason="why")
    changed = replace(scaler.latest, status=replace(scaler.latest.status, **change))
    assert scaler_view.verdict(changed).text == text
    assert scaler_view.panel(changed, Trail()).actions == (("resume",) if change.get("paused") else ("pause",))


@pytest.mark.parametrize(
    ("kind", "shown"),
    [("done", 1), ("asked", 1), ("recommended", 1), ("kept", 0), ("limited", 0), ("refused", 0), ("paused", 0)],
)
def test_only_what_changed_or_would_is_a_change_on_the_page(kind: Any, shown: int) -> None:
    scaler = TalkingScaler()
    scaler.cycle(rate_hz=5_000, wanted=4, limited=4, utilisation=1.4, reason="why")
    look = replace(scaler.latest, cycles=(replace(scaler.latest.cycles[0], outcome=Outcome(kind, "in words")),))
    panel = scaler_view.panel(look, Trail())
    assert (len(panel.tables[0].rows), len(panel.marks)) == (shown, shown)


def test_a_fleet_shows_its_streams_by_rate_and_who_is_away() -> None:
    fleet = TalkingFleet()
    assert fleet_view.verdict(fleet.latest).text == "Waiting"
    before = fleet.latest
    fleet.look_again(redirections=3)
    found = fleet_view.point(before, fleet.latest)
    assert found is not None and (found["moved"], found["capacity_hz"], found["splits"]) == (3, 20_000, 2)
    shown = fleet_view.panel(fleet.latest, Trail())
    assert [row[0] for row in shown.tables[0].rows] == ["cab-0", "cab-1", "cab-2"]
    assert [row[:2] for row in shown.tables[1].rows] == [("cab-3", "suspended"), ("cab-4", "missing")]
    assert shown.bars is not None and [bar.share for bar in shown.bars.bars] == [0.45, 0.45]
    assert "1 stream is missing, 3 records could not be read, 2 vanished" in shown.verdict.more
    assert {series.field for chart in shown.charts for series in chart.series} <= set(found)
    fleet.look_again(buffered=1_000_000)
    assert fleet_view.verdict(fleet.latest).text == "Falls behind"


def test_a_fleet_ends_with_its_query() -> None:
    watch, fleet = Watch(), TalkingFleet()
    watch.add(fleet.subject())
    fleet.look_again()
    fleet.latest = replace(fleet.latest, over=True)
    watch.refresh()
    (watched,) = watch.watched()
    assert watched.over and watched.panel.verdict.text == "Ended"
    fleet.look_again(rate_hz=1.0)
    watch.refresh()
    assert watched.latest.status.rate_hz == 9_000.0  # it is not looked at any more


def test_an_operator_on_keys_shows_the_load_of_its_slots() -> None:
    query = TalkingQuery()
    query.batch()
    before = query.snapshot()
    query.batch()
    query.latest = replace(
        query.latest,
        status=replace(query.latest.status, slots=2, slot_tuples=(300, 100), imbalance=1.5, moved_groups=4, own_groups=1),
    )
    found = point(before, query.snapshot())
    shown = panel(query.snapshot(), Trail())
    assert found is not None and (found["slots"], found["imbalance"], found["moved"], found["own"]) == (2, 1.5, 4, 1)
    assert shown.bars is not None and [bar.value for bar in shown.bars.bars] == ["300 tuples", "100 tuples"]
    assert {series.field for chart in shown.charts for series in chart.series} <= set(found)


def test_a_snapshot_that_takes_long_keeps_nobody_waiting() -> None:
    watch, query = Watch(), TalkingQuery()
    watch.add(query.subject())
    began, go_on = threading.Event(), threading.Event()

    def slow() -> Any:
        began.set()
        assert go_on.wait(30)
        return query.latest

    query.batch()
    latest = query.subject()
    slow_one = threading.Thread(target=watch.add, args=(replace(latest, id="slow", snapshot=slow),))
    slow_one.start()
    assert began.wait(30)
    assert [shown["id"] for shown in json.loads(watch.all()[1])] == [latest.id, "slow"]  # answered while the snapshot is taken
    go_on.set()
    slow_one.join(30)
