"""A folder that executors on other hosts cannot reach is refused: workers that see another folder of the same name stand for them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from skytide.spark.session.cluster import LocalCluster

DEADLINE_S = 900  # only against hanging
HIDDEN = 'mount -t tmpfs none "$0" && exec "$@"'  # in a name space of its own: only what starts here sees it
SCRIPT = """
import json, sys
from skytide.errors import InvalidInput
from skytide.spark.checkpoint import checkpoint_place
from skytide.spark.session.local import local_session

spark = local_session("reach", **json.loads(sys.argv[1]))
for folder in sys.argv[2:]:
    try:
        print(checkpoint_place(spark, folder).uri)
    except InvalidInput as error:
        print(error)
spark.stop()
"""


def can_hide(folder: Path) -> bool:
    try:
        return (
            subprocess.run(["unshare", "-m", "sh", "-c", HIDDEN, str(folder), "true"], check=False, capture_output=True).returncode
            == 0
        )
    except FileNotFoundError:
        return False


@pytest.mark.long
def test_a_folder_that_executors_cannot_reach_is_refused(tmp_path: Path) -> None:
    shared, hidden = tmp_path / "shared", tmp_path / "hidden"
    shared.mkdir()
    hidden.mkdir()
    if not can_hide(hidden):
        pytest.skip("this user may not mount in a name space of its own (unshare -m)")
    with LocalCluster(2, under=("unshare", "-m", "sh", "-c", HIDDEN, str(hidden))) as cluster:
        command = [sys.executable, "-c", SCRIPT, json.dumps(cluster.settings()), str(shared / "ck"), str(hidden / "ck")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    reached, refused = done.stdout.splitlines()
    assert reached == f"file://{shared}/ck"
    assert f"checkpoint='file://{hidden}/ck': the executor on " in refused
    assert "cannot reach it: what the driver wrote there is not seen; choose a folder that all hosts share" in refused
    assert list((hidden / "ck" / "skytide").iterdir()) == list((shared / "ck" / "skytide").iterdir()) == []
