"""A fleet on a server with a password, read by executors of a real standalone cluster, which leaves the password nowhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from canary import CANARY, found_in
from places import redis_server
from support import secret_cluster_job

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds processes in /proc"),
]
DEADLINE_S = 300
ROWS = 30


def test_executors_get_the_password_and_nobody_else_does(tmp_path: Path) -> None:
    folder, script = tmp_path / "seen", Path(secret_cluster_job.__file__)
    folder.mkdir()
    with redis_server(tmp_path) as url:
        import redis

        server = redis.Redis.from_url(url)
        for second in range(ROWS):
            server.xadd(f"sensor:{second % 3}", {"ts": f"2026-01-01T00:00:{second:02}", "x": second})
        server.config_set("requirepass", CANARY)  # as an option, it would be in the server's own command line
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(script.parents[1]), os.environ.get("PYTHONPATH", "")])}
        with (folder / "log").open("w") as log:
            job = subprocess.Popen(
                [sys.executable, script, folder], stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
            try:
                job.communicate(url.replace("//", f"//:{CANARY}@").encode() + b"\n", timeout=DEADLINE_S)
            finally:
                if job.poll() is None:
                    job.terminate()
                    job.wait()
    assert job.returncode == 0, (folder / "log").read_text()
    assert json.loads((folder / "found.json").read_text()) == {"tuples": ROWS, "rows": ROWS}
    seen = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    for part in ("executors/", "events/", "state/", "plain/", "out/"):
        assert any(name.startswith(part) and data for name, data in seen.items()), f"nothing in {part}"
    assert any(name.endswith("/stderr") and data for name, data in seen.items())
    assert b"CoarseGrainedExecutorBackend" in seen["commands"] and b"pyspark" in seen["commands"]
    assert [name for name, data in seen.items() if found_in(data)] == []
