"""A fleet whose job is killed at any moment, and continues with other splits while streams come, grow and go: each record once."""

import contextlib
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import fleet_job
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.long
DEADLINE_S = 600
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Feeds:
    """Files that grow. Times advance from round to round, so that no tuple of a stream is late."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self.dice, self.written = folder, dice, 0
        folder.mkdir()

    def grow(self) -> None:
        """Write to some streams, with a record cut in two."""
        for stream in self.dice.sample(range(40), 15):
            records = [self._record() for _ in range(self.dice.randrange(1, 30))]
            data = "".join(records).encode()
            cut = self.dice.randrange(len(data))
            with (self.folder / f"s{stream}.jsonl").open("ab", buffering=0) as file:
                file.write(data[:cut])
                file.write(data[cut:])

    def _record(self) -> str:
        self.written += 1
        at = START + datetime.timedelta(milliseconds=20 * self.written)
        return json.dumps({"n": self.written, "ts": at.isoformat()}) + "\n"


def _start(feeds: Path, out: Path, splits: int, end: str) -> subprocess.Popen[bytes]:
    with (out / "log").open("a") as log:
        command = [sys.executable, fleet_job.__file__, feeds, out, str(splits), end]
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def _batches(out: Path) -> int:
    return sum(
        len(os.listdir(out / name / "offsets")) if (out / name / "offsets").exists() else 0
        for name in ("rows.c", "windows.c/spark")
    )


def test_each_record_comes_once_whatever_is_killed(tmp_path: Path) -> None:
    dice = random.Random(11)
    feeds, out = Feeds(tmp_path / "feeds", dice), tmp_path / "out"
    out.mkdir()
    for splits in (2, 3):
        job, before = _start(feeds.folder, out, splits, "never"), _batches(out)
        deadline = time.monotonic() + DEADLINE_S
        while _batches(out) < before + 3:
            assert job.poll() is None and time.monotonic() < deadline, (out / "log").read_text()
            feeds.grow()
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(dice.uniform(0.1, 0.5))
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(DEADLINE_S)
    feeds.grow()
    assert _start(feeds.folder, out, 2, "now").wait(DEADLINE_S) == 0, (out / "log").read_text()
    metadata = [
        json.loads(line)
        for file in sorted((out / "rows" / "_spark_metadata").glob("[0-9]*"))
        for line in file.read_text().splitlines()[1:]
    ]
    kept = {Path(entry["path"].removeprefix("file://")) for entry in metadata}
    rows = [row for file in kept for row in pq.read_table(file).to_pylist()]
    assert Counter(row["n"] for row in rows) == Counter(range(1, feeds.written + 1))
    files = [file for file in (out / "windows").rglob("*.parquet") if "_windows" not in str(file)]
    windows = [row for file in files for row in pq.read_table(file).to_pylist()]
    late = feeds.written - sum(row["count"] for row in windows)
    assert len({row["window_start"] for row in windows}) == len(windows)
    assert 0 <= late <= feeds.written * 0.05, "late tuples are those of a stream that was read after newer ones"
    assert sum(row["sum_n"] for row in windows) <= sum(range(feeds.written + 1))
