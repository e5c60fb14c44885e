"""Jobs that are killed with SIGKILL at any moment and started again write exactly what an undisturbed job writes."""

import contextlib
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import oracle, streaming_job
from support.processes import command, end, of_session, stat
from support.streaming_job import COUNTED, KEYS, START_US, WORKLOAD

import skytide

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]
DEADLINE_S = 600  # only against hanging, on a machine that is busy with other work
KILLS = 4  # `make campaign` has more
WORKER, SOURCE = "daemon pyspark.worker", "python_streaming_source_runner"
Rows = dict[str, list[str]]


class Job:
    """A job in processes of its own: Python and Java, and the Python workers that Java starts."""

    def __init__(self, folder: Path, master: str = "local[2]", **options: Any) -> None:
        """Get ready to go on with what is in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.store, self.out, self.log = folder / "checkpoint" / "skytide", folder / "out", folder / "log"
        script, settings_text = Path(streaming_job.__file__), json.dumps({"spark": {"spark.master": master}, **options})
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, script, folder / "checkpoint", self.out, settings_text],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.before = -1

    def go(self) -> "Job":
        """Let the query start."""
        self.before = self.latest()
        assert self.process.stdin
        self.process.stdin.write(b"go\n")
        self.process.stdin.close()
        return self

    def finish(self) -> None:
        """Wait for a good end."""
        assert self.process.wait(DEADLINE_S) == 0, self.log.read_text()

    def until(self, moment: "Moment") -> None:
        """Wait for a moment in the life of the job."""
        deadline = time.monotonic() + DEADLINE_S
        while not moment(self):
            assert self.process.poll() is None, f"ended before its time: {self.log.read_text()}"
            assert time.monotonic() < deadline, f"the moment never came: {self.log.read_text()}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.01)

    def kill(self) -> None:
        """Kill Python and Java at once; the workers notice in their own time that Java is gone."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)

    def kill_workers(self, module: str, enough: "Moment") -> None:
        """Kill workers that run a module, each while it works."""
        deadline = time.monotonic() + DEADLINE_S
        while not enough(self) and time.monotonic() < deadline:
            parents = {pid: int(known[1]) for pid, known in self.members().items() if module in command(pid)}
            workers = [pid for pid, parent in parents.items() if module != WORKER or parent in parents]
            working = (pid for _ in range(100) for pid in workers if stat(pid)[:1] == ["R"])
            if (pid := next(working, None)) is not None:
                os.kill(pid, signal.SIGKILL)
        assert enough(self), self.log.read_text()

    def end(self) -> None:
        """Leave no process behind."""
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdin
        self.process.stdin.close()
        for pid in self.members():
            end(pid)

    def members(self) -> dict[int, list[str]]:
        """Return the processes of the job: all that share its session and live."""
        return of_session(self.process.pid)

    def latest(self) -> int:
        """Return the number of the latest manifest."""
        return max(_numbers(self.store / "manifests"), default=-1)

    def emitted(self) -> int:
        """Return the number up to which the sinks have everything."""
        note = self.store / "emitted"
        return int(note.read_text()) if note.exists() else -1

    def crashes(self) -> int:
        """Count the tasks that lost their worker."""
        return self.log.read_text().count("Python worker exited unexpectedly (crashed)")


def _numbers(folder: Path) -> Iterator[int]:
    """Return the numbers of the batches that the files of a folder belong to."""
    for name in os.listdir(folder) if folder.is_dir() else []:
        if found := re.match(r"(?:batch=)?(\d+)", name):
            yield int(found[1])


Moment = Callable[[Job], bool]
Kill = Callable[[Job], None]


def begun(_: Job) -> bool:
    return True


def committed(job: Job) -> bool:
    return job.latest() > job.before


def two_committed(job: Job) -> bool:
    return job.latest() > job.before + 1


def panes_written(job: Job) -> bool:
    """Panes of a batch are out that is not recorded (or two batches have passed: that may not be seen)."""
    return two_committed(job) or max(_numbers(job.store / "panes"), default=-1) > max(job.latest(), job.before + 1)


def recorded(job: Job) -> bool:
    """A decision is written down, and its sinks do not have all of it (or two batches have passed: that may not be seen)."""
    return two_committed(job) or job.latest() > max(job.emitted(), job.before)


def results_written(job: Job) -> bool:
    """The results are out, and nobody has noted that yet (or two batches have passed: that may not be seen)."""
    return two_committed(job) or max(_numbers(job.out), default=-1) > max(job.emitted(), job.before)


def half_a_file(job: Job) -> bool:
    """A file is being written (or two batches have passed: that is over so soon that it may not be seen)."""
    folders = [job.store / "panes", job.store / "memory", job.store / "manifests", job.out / "_skytide"]
    return two_committed(job) or any(name.startswith(".") for folder in folders if folder.is_dir() for name in os.listdir(folder))


def flushing(job: Job) -> bool:
    manifest = job.store / "manifests" / f"{job.latest():012}.json"
    return manifest.exists() and '"flushed": true' in manifest.read_text()


def ended(job: Job) -> bool:
    return job.process.poll() is not None


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    job = Job(tmp_path_factory.mktemp("undisturbed")).go()
    try:
        job.finish()
    finally:
        job.end()
    rows = rows_of(job.out)
    assert [len(rows[name]) > few for name, few in {"": 1_000, "_windows": 30, "_late": 10}.items()] == [True] * 3
    starts = pq.read_table(job.out / "_windows")["window_start"].to_pylist()
    assert len(starts) == len(set(starts))
    return rows


def rows_of(out: Path, without: tuple[str, ...] = ("latency_s",)) -> Rows:
    """Return all that was written: results, a row for each window, late tuples; with the number of the batch."""
    tables = {name: pq.read_table(out / name) for name in ("", "_windows", "_late") if (out / name).is_dir()}
    return {name: sorted_rows(table.select([c for c in table.column_names if c not in without])) for name, table in tables.items()}


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


def disturb(folder: Path, moments: Sequence[tuple[Moment, Kill]], **options: Any) -> None:
    """Run a job, disturb it at each of the moments, go on with the next one, which got ready meanwhile, and let the last finish.

    Every job has another number of cores than the one before.
    """
    masters = itertools.cycle(("local[2]", "local[1]", "local[4]"))
    jobs = [Job(folder, next(masters), **options)]
    try:
        for moment, kill in moments:
            jobs.append(Job(folder, next(masters), **options))
            job = jobs[-2].go()
            job.until(moment)
            kill(job)
        jobs[-1].go().finish()
    finally:
        for job in jobs:
            job.end()


def kill_within(seconds: float) -> Kill:
    """Return the way to kill a job after some time, whatever it is doing then."""

    def kill(job: Job) -> None:
        later = time.monotonic() + seconds
        job.until(lambda _: time.monotonic() > later)
        job.kill()

    return kill


def test_a_driver_killed_many_times_leaves_no_trace(tmp_path: Path, undisturbed: Rows) -> None:
    random_ = random.Random(7)
    moments: list[tuple[Moment, Kill]] = [
        *((begun, kill_within(random_.uniform(0, 5))) for _ in range(4)),
        *((committed, kill_within(random_.uniform(0, 0.3))) for _ in range(4)),
        *((two_committed, kill_within(random_.uniform(0, 0.3))) for _ in range(3)),
        *((moment, Job.kill) for moment in (panes_written, recorded, results_written, half_a_file, committed) for _ in range(2)),
    ]
    random_.shuffle(moments)
    moments = [*moments[: KILLS - 1], (flushing, Job.kill)]
    assert len(moments) == KILLS
    disturb(tmp_path, moments)
    assert rows_of(tmp_path / "out") == undisturbed


def test_a_driver_that_reads_files_can_be_killed_too(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    made = skytide.workload(**WORKLOAD).workload
    tables = [pa.Table.from_batches(made.tuples(slot, slot + 10, START_US)) for slot in range(0, 240, 10)]
    for number, table in enumerate(tables):
        pq.write_table(table, files / f"{number}.parquet")
        os.utime(files / f"{number}.parquet", (number, number))  # so that Spark reads them in this order
    moments = [(results_written, Job.kill), (panes_written, Job.kill), (committed, kill_within(0.2))]
    disturb(tmp_path, moments, files=str(files))
    rows = [row for table in tables for row in oracle.rows_of(table)]
    ask = oracle.skyline(("low", "x0"), ("low", "x1"), ("high", "x2"), ("high", "x3"))
    expected = oracle.windows_of(rows, 1_000_000, 200_000, ask)
    answers = [
        {"window_start": start, "window_end": start + 1_000_000, **row} for start, window in expected.items() for row in window.rows
    ]
    # Spark may put a file into another batch when it starts again, but nothing is late, so that the windows are the same.
    assert oracle.multiset(written(tmp_path / "out")) == oracle.multiset(answers)
    windows = sorted(written(tmp_path / "out" / "_windows"), key=lambda row: row["window_start"])
    assert [(row["window_start"], row["tuples"]) for row in windows] == [
        (start, window.tuples) for start, window in expected.items()
    ]
    assert sum(row["late"] for row in windows) == 0


def test_an_operator_on_keys_can_be_killed_too(tmp_path: Path) -> None:
    """Every life has other slots, and so the keys move; each window comes out once, with the tuples it has, and numbered in order."""
    files = tmp_path / "files"
    files.mkdir()
    made = skytide.workload(**WORKLOAD).workload
    tables = [pa.Table.from_batches(made.tuples(slot, slot + 10, START_US)) for slot in range(0, 240, 10)]
    for number, table in enumerate(tables):
        pq.write_table(table, files / f"{number}.parquet")
        os.utime(files / f"{number}.parquet", (number, number))
    moments = [(results_written, Job.kill), (committed, kill_within(0.3)), (recorded, Job.kill), (committed, kill_within(0.1))]
    disturb(tmp_path, moments, files=str(files), keyed=True)
    keys: dict[int, list[tuple[int, int]]] = {}
    for row in (row for table in tables for row in oracle.rows_of(table)):
        keys.setdefault(row["id"] % KEYS, []).append((row["ts"], row["id"]))
    length, slide = COUNTED
    expected = []
    for key, tuples in sorted(keys.items()):
        tuples.sort()
        for number, start in enumerate(range(0, len(tuples) - length + 1, slide)):
            expected.append((key, start, start + length, number, [each for _, each in tuples[start : start + length]]))
    found = [
        (row["k"], row["row_start"], row["row_end"], row["number"], row["ids"])
        for file in (tmp_path / "out").glob("batch=*/*.parquet")
        for row in pq.ParquetFile(file).read().to_pylist()
    ]
    assert sorted(found) == expected


def written(out: Path) -> list[oracle.Row]:
    """Return the rows that were written, with times in microseconds and without the number of their batch."""
    return [row for file in out.glob("batch=*/*.parquet") for row in oracle.rows_of(pq.ParquetFile(file).read())]


def test_killed_workers_are_not_noticed_where_tasks_are_tried_again(tmp_path: Path, undisturbed: Rows) -> None:
    job = Job(tmp_path, master="local[2,4]").go()
    try:
        for crashes in (1, 2, 3):
            job.until(committed)  # between the kills, as a task is tried four times and no more
            job.kill_workers(WORKER, enough=lambda job, crashes=crashes: job.crashes() >= crashes)  # type: ignore[misc]
            job.before = job.latest()
        job.finish()
    finally:
        job.end()
    log = (tmp_path / "log").read_text()
    assert int(re.findall(r"failed tasks: (\d+)", log)[0]) >= 3
    assert rows_of(tmp_path / "out") == undisturbed


def test_a_query_whose_worker_was_killed_says_so_and_can_go_on(tmp_path: Path, undisturbed: Rows) -> None:
    def kill_worker(job: Job) -> None:
        job.kill_workers(WORKER, enough=ended)
        assert job.crashes()

    def kill_source(job: Job) -> None:
        job.kill_workers(SOURCE, enough=ended)

    disturb(tmp_path, [(committed, kill_worker), (committed, kill_source)])
    assert (tmp_path / "log").read_text().count("pyspark.errors.exceptions.captured.StreamingQueryException") == 2
    assert rows_of(tmp_path / "out") == undisturbed
