"""Jobs that are killed with SIGKILL at any moment and started again write exactly what an undisturbed job writes."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from streaming_job import START_US, WORKLOAD
from test_engine import oracle

import skytide
from skytide import FixedSlack, high, low
from skytide.queries import Skyline
from skytide.spark.engine import Plan
from skytide.spark.window_level import with_bounds
from skytide.windows import Windows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]
T0 = time.monotonic()
DEADLINE_S = 240
Rows = dict[str, list[str]]
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"


class Job:
    """A job in processes of its own: Python and Java, killed together, and the Python workers that Java starts."""

    def __init__(self, folder: Path, java: str, master: str = "local[2]", **options: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.store, self.out, self.log = folder / "checkpoint" / "skytide", folder / "out", folder / "log"
        settings = {"spark.master": master, "spark.driver.defaultJavaOptions": f"{FAST_START} {java}"}
        told = json.dumps({"spark": settings, **options})
        command = [
            sys.executable,
            str(Path(__file__).with_name("streaming_job.py")),
            str(folder / "checkpoint"),
            str(self.out),
            told,
        ]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, text=True
            )
        self.done = -1

    def go(self) -> "Job":
        """Let the query start."""
        self.done = self.latest()
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.close()
        return self

    def finish(self) -> None:
        assert self.process.wait(DEADLINE_S) == 0, self.log.read_text()

    def until(self, moment: "Moment") -> None:
        """Wait for a moment in the life of the job."""
        deadline = time.monotonic() + DEADLINE_S
        while not moment(self):
            assert self.process.poll() is None, f"ended before its time: {self.log.read_text()}"
            assert time.monotonic() < deadline, f"the moment never came: {self.log.read_text()}"
            time.sleep(0.005)

    def kill(self) -> None:
        """Kill Python and Java at once; workers notice that Java is gone, in their own time."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)

    def end(self) -> None:
        """Leave no process behind."""
        if self.process.poll() is None:
            self.kill()
        if self.process.stdin:
            self.process.stdin.close()
        deadline = time.monotonic() + 20
        while (left := self.members()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in left:
            os.kill(pid, signal.SIGKILL)

    def members(self) -> list[int]:
        """Give the processes of the job: all that share its session."""
        return [pid for pid, stat in _processes() if int(stat[3]) == self.process.pid and stat[0] != "Z"]

    def kill_working(self, module: str) -> None:
        """Kill a worker that runs a module, while it works."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            mine = {pid: int(stat[1]) for pid, stat in _processes() if int(stat[3]) == self.process.pid and module in _command(pid)}
            workers = [pid for pid, parent in mine.items() if "daemon" not in module or parent in mine]
            for _ in range(200):
                for pid in workers:
                    if _stat(pid)[:1] == ["R"]:
                        os.kill(pid, signal.SIGKILL)
                        return
        raise AssertionError(f"no {module} worked: {self.log.read_text()}")

    def crashes(self) -> int:
        """Count the tasks that lost their worker."""
        return self.log.read_text().count("Python worker exited unexpectedly (crashed)")

    def latest(self) -> int:
        """Give the number of the latest manifest."""
        return max(_numbers(self.store / "manifests"), default=-1)


def _processes() -> Iterator[tuple[int, list[str]]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            if stat := _stat(int(entry)):
                yield int(entry), stat


def _stat(pid: int) -> list[str]:
    """Give what /proc says of a process, from its state on; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _numbers(folder: Path) -> list[int]:
    """Give the numbers of the batches that the files of a folder belong to."""
    names = os.listdir(folder) if folder.is_dir() else []
    return [int(found[1]) for name in names if (found := re.match(r"(?:batch=)?(\d+)", name))]


Moment = Callable[[Job], bool]


def begun(job: Job) -> bool:
    return True


def committed(job: Job) -> bool:
    return job.latest() > job.done


def two_committed(job: Job) -> bool:
    return job.latest() > job.done + 1


def panes_written(job: Job) -> bool:
    return max(_numbers(job.store / "panes"), default=-1) > max(job.latest(), job.done + 1)


def results_written(job: Job) -> bool:
    return max(_numbers(job.out), default=-1) > max(job.latest(), job.done)


def half_a_file(job: Job) -> bool:
    """A file is being written (or two batches passed, as that is over so soon)."""
    folders = [job.store / "panes", job.store / "memory", job.store / "manifests", job.out / f"batch={job.latest() + 1}"]
    return two_committed(job) or any(name.startswith(".") for folder in folders if folder.is_dir() for name in os.listdir(folder))


def flushing(job: Job) -> bool:
    manifest = job.store / "manifests" / f"{job.latest():012}.json"
    return job.latest() >= 0 and manifest.exists() and '"flushing": true' in manifest.read_text()


def rows_of(out: Path, without_batch: bool = False) -> Rows:
    """Give all that was written: results, rows of windows without their latency, late tuples."""
    dropped = ["latency_s", "batch"] if without_batch else ["latency_s"]
    tables = {name: pq.read_table(out / name) for name in ("", "_windows", "_late") if (out / name).is_dir()}
    return {
        name: sorted_rows(table.drop_columns([c for c in dropped if c in table.column_names])) for name, table in tables.items()
    }


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Options that let Java start from an archive of its classes, which the first job leaves behind: half the time a start takes."""
    return str(tmp_path_factory.mktemp("java") / "classes.jsa")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, java: str) -> Rows:
    job = Job(tmp_path_factory.mktemp("undisturbed"), f"-XX:ArchiveClassesAtExit={java}").go()
    try:
        job.finish()
    finally:
        job.end()
    rows = rows_of(job.out)
    assert len(rows["_windows"]) == len({re.sub(r".*window_start", "", row) for row in rows["_windows"]}) > 30
    assert len(rows[""]) > 1_000
    assert len(rows["_late"]) > 10
    return rows


def test_a_driver_killed_twenty_times_leaves_no_trace(tmp_path: Path, undisturbed: Rows, java: str) -> None:
    random_ = random.Random(7)
    moments = [begun] * 4 + [committed] * 5 + [two_committed] * 2 + [panes_written] * 4 + [results_written] * 3 + [half_a_file]
    random_.shuffle(moments)
    kill_at([*moments, flushing], tmp_path, java, random_)
    assert rows_of(tmp_path / "out") == undisturbed


def kill_at(moments: list[Moment], folder: Path, java: str, random_: random.Random, **options: Any) -> None:
    """Start a job again and again, the next one getting ready meanwhile, kill it at each of the moments, and let the last one finish."""
    jobs = [Job(folder, f"-XX:SharedArchiveFile={java}", **options)]
    try:
        for moment in moments:
            jobs.append(Job(folder, f"-XX:SharedArchiveFile={java}", **options))
            job = jobs[-2].go()
            job.until(moment)
            if moment in (begun, committed, two_committed):
                later = time.monotonic() + random_.uniform(0, 3 if moment is begun else 0.3)
                job.until(lambda _, later=later: time.monotonic() > later)
            job.kill()
            print(moment.__name__, job.done, job.latest(), f"{time.monotonic() - T0:.1f}", flush=True)
        jobs[-1].go().finish()
    finally:
        for job in jobs:
            job.end()


def test_a_driver_that_reads_files_can_be_killed_too(tmp_path: Path, undisturbed: Rows, java: str) -> None:
    files = tmp_path / "files"
    files.mkdir()
    tables = []
    for number in range(12):
        slots = range(number * 20, (number + 1) * 20)
        tables.append(pa.Table.from_batches(skytide.workload(**WORKLOAD).workload.tuples(slots.start, slots.stop, START_US)))
        pq.write_table(tables[-1], files / f"{number}.parquet")
        os.utime(files / f"{number}.parquet", (number, number))
    kill_at([results_written, panes_written, committed], tmp_path, java, random.Random(8), files=str(files))
    windows = Windows(1_000_000, 200_000)
    plan = Plan(
        Skyline(low("x0") * low("x1") * high("x2") * high("x3")), windows, FixedSlack("300 ms"), "ts", tables[0].schema, (), None
    )  # type: ignore[arg-type]
    expected, late = oracle([[table] for table in tables], plan)
    assert late == 0
    answers = [with_bounds(answer, windows, window, pa.timestamp("us", "UTC")) for window, answer in expected]
    found = rows_of(tmp_path / "out", without_batch=True)
    assert found[""] == sorted_rows(pa.concat_tables(answers))
    assert len(found["_windows"]) == len(expected)


def test_killed_workers_are_replaced_where_tasks_are_tried_again(tmp_path: Path, undisturbed: Rows, java: str) -> None:
    job = Job(tmp_path, f"-XX:SharedArchiveFile={java}", master="local[2,4]").go()
    try:
        job.until(committed)
        while job.crashes() < 3:
            job.kill_working("daemon pyspark.worker")
            print(job.latest(), job.crashes(), flush=True)
        job.finish()
    finally:
        job.end()
    assert int(re.findall(r"failed tasks: (\d+)", job.log.read_text())[0]) >= 3
    assert rows_of(job.out) == undisturbed


def test_a_query_whose_worker_was_killed_says_so_and_can_go_on(tmp_path: Path, undisturbed: Rows, java: str) -> None:
    for victim in ("daemon pyspark.worker", "python_streaming_source_runner"):
        job = Job(tmp_path, f"-XX:SharedArchiveFile={java}").go()
        try:
            job.until(committed)
            while job.process.poll() is None:
                job.kill_working(victim)
                print(job.latest(), job.crashes(), flush=True)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    job.process.wait(1)
        finally:
            job.end()
        print(victim, job.done, job.latest(), job.log.read_text()[-3000:])
        assert job.process.returncode != 0
    job = Job(tmp_path, f"-XX:SharedArchiveFile={java}").go()
    try:
        job.finish()
    finally:
        job.end()
    assert rows_of(job.out) == undisturbed
