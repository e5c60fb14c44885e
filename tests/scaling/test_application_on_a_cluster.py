"""One auto-scaler for three queries with unequal triggers on a real cluster, and priorities where there are not enough executors."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from support import application_job

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]
DEADLINE_S = 570
Found = dict[str, Any]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Run both on one cluster, in a process of its own: the session of these tests has no cluster."""
    folder = tmp_path_factory.mktemp("application")
    script = Path(application_job.__file__)
    with (folder / "log").open("w") as log:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(script.parents[1]), os.environ.get("PYTHONPATH", "")])}
        job = subprocess.Popen([sys.executable, script, folder], stdout=log, stderr=subprocess.STDOUT, env=environment)
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


def test_one_decision_for_all_neither_oscillates_nor_makes_batches_late(found: Found) -> None:
    unequal = found["unequal"]
    late = {name: [s > application_job.TRIGGERS_S[name] for s in took] for name, took in unequal["took"].items()}
    done = [one for each in late.values() for one in each]
    print(f"sizes {unequal['sizes']}, late {sum(done)} of {len(done)}")
    grown = sum(after > before for before, after in pairwise(unequal["sizes"]))
    assert grown <= 1, "it begins with too many, as first batches are slow, and comes down; it does not flip between sizes"
    assert sum(done) <= 0.1 * len(done), "of a machine that has other work to do"
    assert all(" of 3 needs the most: " in reason for reason in unequal["reasons"])


def test_the_time_of_tasks_counts_for_the_query_whose_they_are(found: Found) -> None:
    """What queries did adds up to what executors were busy with; if each had the time of all, that would be three times as much."""
    share = median(found["unequal"]["shares"])
    print(f"attributed: {share:.0%} of the busy time")
    assert 0.6 < share < 1.5


def test_queries_that_run_have_their_weight_and_one_that_ends_is_noticed(found: Found) -> None:
    assert found["unequal"]["weights"] == {"four": 3, "six": 1, "nine": 1}
    assert any("query nine has priority 1 from its next job on" in event for event in found["unequal"]["events"])


def test_where_the_maximum_does_not_suffice_the_preferred_query_gets_more(found: Found) -> None:
    done = found["priorities"]["done"]
    print(f"batches: {done}")
    assert done["preferred"] > 1.5 * done["common"]
