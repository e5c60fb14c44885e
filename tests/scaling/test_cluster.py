"""The auto-scaler on a real cluster: a load step and its end, for a plain query and for one of skytide's, and bad days."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import autoscale_job

from skytide.control import CONTROLLERS
from skytide.loop.evaluate import evaluate
from skytide.loop.recording import load

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]
DEADLINE_S = 570
Found = dict[str, Any]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Run all scenarios on one cluster, in a process of its own: the session of these tests has no cluster."""
    folder = tmp_path_factory.mktemp("cluster")
    script = Path(autoscale_job.__file__)
    with (folder / "log").open("w") as log:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(script.parents[1]), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, script, folder, "step", "levels", "overload"]
        job = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            status = job.wait(DEADLINE_S)
        finally:
            if job.poll() is None:
                job.terminate()
                job.wait()
    log = (folder / "log").read_text()
    assert status == 0, log
    print(log)
    return json.loads((folder / "found.json").read_text())


def reported(scenario: Found, text: str) -> int:
    """Return the place of the first event that says so."""
    places = [place for place, event in enumerate(scenario["events"]) if text in event]
    assert places, f"{text!r} was never told: {scenario['events']}"
    return places[0]


def test_a_load_step_adds_executors_to_a_plain_query_and_its_end_lets_them_go(found: Found) -> None:
    step = found["step"]
    print(
        f"the load rose: first executor after {step['up_s']:.1f} s, keeps up after {step['settled_s']:.1f} s; ended: {step['down_s']:.1f} s"
    )
    assert step["sizes"][0] == 1 and max(step["sizes"]) == 3
    assert all(1 <= size <= 3 for size in step["sizes"])
    assert step["ended"]
    assert "Cautious()" in step["stored"]["controllers"]


def test_no_task_failed_and_no_result_differs_from_a_run_with_fixed_executors(found: Found) -> None:
    assert (found["step"]["failed"], found["levels"]["failed"]) == (0, 0)
    assert found["step"]["rows"] > 1_000 and found["step"]["same"]
    assert found["levels"]["loaded"] > 20 and found["levels"]["same"]


def test_a_cluster_that_gives_too_few_is_told_and_used_when_it_has_more(found: Found) -> None:
    step = found["step"]
    assert reported(step, "has granted 2 of 3") < reported(step, "has now granted all 3")


def test_a_new_executor_is_known_to_take_its_time(found: Found) -> None:
    assert found["step"]["lead_s"] > 1


def test_the_slots_of_a_skytide_query_follow_the_executors(found: Found) -> None:
    levels = found["levels"]
    print(f"the load rose: all executors after {levels['up_s']:.1f} s, keeps up after {levels['settled_s']:.1f} s")
    assert max(levels["sizes"]) == levels["slots"] == 3
    assert levels["levels"] > 0
    assert levels["ended"]


def test_an_executor_that_dies_while_another_is_let_go_is_told_and_survived(found: Found) -> None:
    levels = found["levels"]
    assert reported(levels, "decommissioning") < reported(levels, "lost executor")


def test_sparks_own_allocation_at_work_is_refused_and_stopped_it_is_not(found: Found) -> None:
    assert "Spark's own allocation would undo" in found["refused"]


@pytest.mark.parametrize("name", [name for name in CONTROLLERS if name != "static"])
def test_an_overloaded_query_would_get_more_under_every_controller(found: Found, name: str) -> None:
    seen = load(found["overload"]["history"])
    logic = CONTROLLERS[name]().build()
    wanted = [logic.decide(evaluate(seen[: at + 1], lead_s=6.0), now_s=one.at_s).allocation.workers for at, one in enumerate(seen)]
    assert {one.allocation.workers for one in seen} == {1} and wanted[-1] > 1


def test_the_former_signal_would_not_show_it(found: Found) -> None:
    """The guilty specimen: what a slot gets, it finishes, so its own utilisation is never above 1, however late batches are."""
    latest = load(found["overload"]["history"])[-1]
    assert found["overload"]["old"] <= 1 < max(latest.pane_utilisation or 0, latest.window_utilisation or 0)
