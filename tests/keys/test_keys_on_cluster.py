"""An operator on keys on a real standalone cluster: executors come, are killed and are let go while it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
import pytest
from support import keyed_cluster_job
from support.keyed_cluster_job import FILES, ROWS, START_US
from support.streaming_job import COUNTED, KEYS

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]
DEADLINE_S = 570


def test_no_window_is_lost_doubled_or_out_of_order(tmp_path: Path) -> None:
    script = Path(keyed_cluster_job.__file__)
    tests = script.parents[1]
    with (tmp_path / "log").open("w") as log:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])}
        job = subprocess.Popen([sys.executable, script, tmp_path], stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            status = job.wait(DEADLINE_S)
        finally:
            if job.poll() is None:
                job.terminate()
                job.wait()
    assert status == 0, (tmp_path / "log").read_text()
    found = json.loads((tmp_path / "found.json").read_text())
    print(
        f"executors {found['executors']}, slots {found['slots']}, {found['moved']} groups moved; "
        f"found in memory: {sum(found['memory']) / len(found['memory']):.0%} of what was needed"
    )
    assert (found["tuples"], found["late"]) == (FILES * ROWS, 0)
    assert {1, 2, 3} <= set(found["slots"]) and max(
        found["executors"]
    ) >= 3  # one that goes may still be there when the next one comes
    assert found["moved"] >= 3  # of the groups of seven keys
    assert median(found["memory"][8:14]) == 1.0  # three executors that nobody disturbs, each with its slot
    keys: dict[int, list[tuple[int, int]]] = {}
    for each in range(FILES * ROWS):
        keys.setdefault(each % KEYS, []).append((START_US + each * 1_000 - (each % 5) * 20_000, each))
    length, slide = COUNTED
    expected = [
        (key, start, number, [each for _, each in sorted(tuples)[start : start + length]])
        for key, tuples in sorted(keys.items())
        for number, start in enumerate(range(0, len(tuples) - length + 1, slide))
    ]
    files = sorted((tmp_path / "out").glob("batch=*/*.parquet"), key=lambda file: int(file.parent.name.removeprefix("batch=")))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert sorted((row["k"], row["row_start"], row["number"], row["ids"]) for row in rows) == expected
    last: dict[int, int] = {}
    for row in rows:
        assert row["row_start"] > last.get(row["k"], -1)
        last[row["k"]] = row["row_start"]
