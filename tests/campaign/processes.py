"""Processes to kill: a job with its Java and its Python workers, and how to find those that a blow is meant for."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.classes import java_options
from support.processes import command, end, of_session

TESTS = str(Path(__file__).parents[1])
CLOCK = Path(__file__).with_name("clock.py")
DEADLINE_S = 600.0  # only against hanging
WORKER, SOURCE = ".daemon pyspark.", "python_streaming_source_runner"


@dataclass(frozen=True)
class Needs:
    """What a process needs to know before it starts."""

    master: str
    settings: tuple[tuple[str, str], ...]
    fake_clock: bool
    cache_mb: str = ""


class Job:
    """A process that starts Spark and waits for orders."""

    def __init__(self, needs: Needs, folder: Path) -> None:
        """Start it; its log goes to a file of the folder."""
        folder.mkdir(parents=True)
        self.needs, self.log_file, self.clock = needs, folder / "log", folder / "clock"
        self.clock.write_text("+0\n")
        if needs.fake_clock:
            shutil.copy(CLOCK, folder / "sitecustomize.py")  # Python runs it first, in workers as well
        settings = {"spark.master": needs.master, "spark.driver.defaultJavaOptions": java_options(), **dict(needs.settings)}
        with self.log_file.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "campaign.job", json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(
                        map(str, filter(None, (TESTS, needs.fake_clock and CLOCK, os.environ.get("PYTHONPATH"))))
                    ),
                    "CAMPAIGN_CLOCK": str(self.clock),
                    **({"SKYTIDE_CACHE_MB": needs.cache_mb} if needs.cache_mb else {}),
                },
            )
        self.lines: list[str] = []
        """What it has reported in its present life."""
        self.lives = 0
        self.application = ""
        """Spark's name for the job."""
        self._output = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as output:
            for line in output:
                with self._output:
                    self.lines.append(line.strip())
                    self._output.notify_all()
        self.process.wait()
        with self._output:
            self._output.notify_all()

    def go(self, orders: str) -> None:
        """Let the job begin a life."""
        assert self.process.stdin
        with self._output:
            self.lines.clear()
        self.lives += 1
        self.process.stdin.write(orders + "\n")
        self.process.stdin.flush()

    def until(self, moment: Callable[[], bool], timeout_s: float = DEADLINE_S) -> bool:
        """Wait for a moment that the job reports, and return whether it came before the job ended."""
        with self._output:
            self._output.wait_for(lambda: moment() or self.done() or self.ended(), timeout_s)
        return not self.ended() and moment()

    def watch(self, moment: Callable[[], bool], timeout_s: float = DEADLINE_S) -> bool:
        """Wait for a moment that is not reported, and return whether it came before the job ended."""
        deadline = time.monotonic() + timeout_s
        while not moment():
            if self.done() or self.ended() or time.monotonic() > deadline:
                return False
            time.sleep(0.003)
        return True

    def wait(self, seconds: float) -> bool:
        """Let some time pass, and return whether the job still runs."""
        self.until(lambda: False, seconds)
        return not self.done() and not self.ended()

    def ended(self) -> bool:
        """Return whether the process is gone."""
        return self.process.poll() is not None

    def done(self) -> bool:
        """Return whether the job ended well."""
        return "done" in self.lines

    def ready(self) -> bool:
        """Wait until Spark runs."""
        if not self.lives and self.until(lambda: bool(self.lines)):
            self.application = self.lines[0].split()[1]
        return not self.ended()

    def count(self, what: str) -> int:
        """Return how often something was reported."""
        return sum(line.startswith(what) for line in self.lines)

    def batches(self) -> int:
        """Return how many batches the job has reported."""
        return self.count("batch")

    def log(self) -> str:
        """Return what was logged."""
        return self.log_file.read_text(errors="replace")

    def kill(self) -> bool:
        """Kill Python and Java at once, and return whether they were running. Workers notice later that Java is gone."""
        alive = not self.ended()
        working = alive and not self.done()
        if alive:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)
        return working

    def workers(self, module: str) -> list[int]:
        """Return the workers that run a module: those that Spark's daemon forked, not the daemon itself."""
        parents = {pid: int(known[1]) for pid, known in self.members().items() if module in command(pid)}
        return [pid for pid, parent in parents.items() if module == SOURCE or parent in parents]

    def members(self) -> dict[int, list[str]]:
        """Return the processes of the job: all that share its session and live."""
        return of_session(self.process.pid)

    def end(self) -> None:
        """Leave no process behind."""
        self.kill()
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        for pid in self.members():
            end(pid, patience_s=10)
        self._reader.join(DEADLINE_S)


def executors(application: str) -> list[int]:
    """Return the executors of an application on this machine."""
    marks = (application, "CoarseGrainedExecutorBackend")
    running = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return [pid for pid in running if all(mark in command(pid) for mark in marks)]


def kill(pid: int) -> bool:
    """Kill a process, and return whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
