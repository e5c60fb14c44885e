"""Page and metrics show what is odd about a fleet: streams that cannot be read, are forgotten or waited for, and names that no stream has."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric
from support.snapshots import TalkingFleet

from skytide.watch import fleet_view
from skytide.watch.metrics import families
from skytide.watch.trail import Trail
from skytide.watch.watch import Watch

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"


def odd_fleet(**odd: Any) -> TalkingFleet:
    fleet = TalkingFleet()
    fleet.look_again()
    fleet.latest = replace(fleet.latest, status=replace(fleet.latest.status, missing=0, invalid=0, skipped={}, **odd))
    return fleet


def metrics_of(fleet: TalkingFleet) -> list[Metric]:
    watch = Watch()
    watch.add(fleet.subject())
    watch.refresh()
    return list(families(watch.watched()))


def numbers_of(fleet: TalkingFleet) -> dict[tuple[str, str], float]:
    samples = (sample for family in metrics_of(fleet) for sample in family.samples)
    return {(sample.name, sample.labels.get("state", "")): sample.value for sample in samples}


def test_metrics_count_them() -> None:
    fleet = odd_fleet(unreadable=2, forgotten=5, unknown=("cab-x", "cab-y"), waits_for="cab-1", waits_s=90.0)
    found = numbers_of(fleet)
    assert found["skytide_fleet_streams", "unreadable"] == 2
    assert found["skytide_fleet_forgotten_streams_total", ""] == 5
    assert found["skytide_fleet_unknown_names", ""] == 2
    assert found["skytide_fleet_windows_wait", ""] == 1
    assert found["skytide_fleet_windows_wait_seconds", ""] == 90
    assert numbers_of(odd_fleet())["skytide_fleet_windows_wait", ""] == 0


def test_every_state_of_streams_is_in_the_documentation() -> None:
    states = {state for (name, state) in numbers_of(odd_fleet()) if name == "skytide_fleet_streams"}
    (line,) = re.findall(r"^\| `skytide_fleet_streams` .*$", OPERATING.read_text(), re.MULTILINE)
    assert {state for state in states if state not in line} == set()


@pytest.mark.parametrize(
    ("odd", "text"),
    [({"unreadable": 1}, "1 stream cannot be read now"), ({"forgotten": 3}, "3 streams were forgotten")],
)
def test_the_verdict_says_what_is_not_read(odd: dict[str, Any], text: str) -> None:
    assert fleet_view.verdict(odd_fleet().latest).level == "good"
    verdict = fleet_view.verdict(odd_fleet(**odd).latest)
    assert (verdict.level, verdict.more) == ("warn", text)


@pytest.mark.parametrize(("behind_s", "text"), [(90.0, "for cab-1, which is 90 s behind"), (0.0, "for cab-1")])
def test_the_page_names_the_stream_that_windows_wait_for(behind_s: float, text: str) -> None:
    shown = fleet_view.panel(odd_fleet(waits_for="cab-1", waits_s=behind_s).latest, Trail())
    (tile,) = (tile for tile in shown.tiles if tile.label == "Windows")
    assert (tile.value, tile.note) == ("wait", text)
    assert all(tile.label != "Windows" for tile in fleet_view.panel(odd_fleet().latest, Trail()).tiles)


def test_the_page_names_what_no_stream_is_called() -> None:
    shown = fleet_view.panel(odd_fleet(unknown=("cab-x",)).latest, Trail())
    assert ("cab-x", "unknown: no stream has this name", "") in shown.tables[1].rows
