"""One contestant at one load: start it, watch it for a while, judge when its windows came out and what they say."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.peers import environments, oracle
from benchmarks.peers.common import TICK_US, WINDOW_US, Task
from benchmarks.stream.measure import Measured, family, judge
from benchmarks.timing import Disagreement

START_S = 90.0  # the longest that a contestant may take until the first window comes out
CATCH_UP_S = 10.0  # the longest that it may then take to catch up with what has come meanwhile
CAUGHT_UP_S = 1.5
END_S = 30.0
PAIRS = 50_000_000  # of points that the oracle compares: all of small windows, in large ones those of some rows


@dataclass(frozen=True)
class Lengths:
    """Seconds of a run."""

    warm_up_s: float = 3.0  # after it has caught up
    measured_s: float = 12.0


@dataclass(frozen=True)
class Contestant:
    """A program of this package, its environment, in which form it has the stream, and by what it finds skylines."""

    module: str
    environment: str
    form: str
    kernel: str = "moocore"


class Failed(Exception):
    """A contestant ended by itself, or never began."""


def measure(contestant: Contestant, query: str, rate_hz: int, lengths: Lengths) -> Measured:
    """Run a contestant at a rate for a while, after a warm-up, and check the last window that came out."""
    with tempfile.TemporaryDirectory(prefix="skytide-peers-", ignore_cleanup_errors=True) as folder:
        task = Task(query=query, rate_hz=rate_hz, folder=folder, form=contestant.form, kernel=contestant.kernel)
        with _running(contestant, task) as process:
            _wait_for_windows(process, folder)
            _sleep_until(process, time.time() + lengths.warm_up_s)
            began, cpu = time.time(), sum(family(process.pid).values())
            _sleep_until(process, began + lengths.measured_s)
            ended, used = time.time(), sum(family(process.pid).values()) - cpu
        latencies = {end_us: path.stat().st_mtime - end_us / 1e6 for end_us, path in answers(folder).items()}
        measured = judge(latencies, began, ended, rate_hz, used)
        check(task)
        return measured


def answers(folder: str) -> dict[int, Path]:
    """Return the files of all windows that came out, by the ends of the windows in microseconds."""
    return {int(path.stem): path for path in sorted(Path(folder).glob("*.npy"))}


def check(task: Task) -> None:
    """Raise Disagreement if the last window that came out is wrong."""
    end_us, path = max(answers(task.folder).items())
    start_us = task.start_us()
    ticks = range(max(0, (end_us - WINDOW_US - start_us) // TICK_US), (end_us - start_us) // TICK_US)
    try:
        points = np.concatenate([task.tick(tick) for tick in ticks])
        oracle.check(task.query, points, np.load(path), sample=PAIRS // len(points))
    except Disagreement as why:
        raise Disagreement(f"{task.query} at {task.rate_hz:,}/s, window until {end_us}: {why}") from None


@contextmanager
def _running(contestant: Contestant, task: Task) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a contestant; then ask it to end, and end whatever is left of it."""
    paths = [environments.ROOT, environments.ROOT / "src", environments.packages(contestant.environment)]
    command = [str(environments.python(contestant.environment)), "-m", f"benchmarks.peers.{contestant.module}", task.text()]
    with Path(task.folder, "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=task.folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(str(path) for path in paths if path), "PYTHONWARNINGS": "ignore"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            everyone = list(family(process.pid))
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            for pid in everyone:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def _wait_for_windows(process: "subprocess.Popen[bytes]", folder: str) -> None:
    """Wait for the first window, and then until the newest is fresh, but not for long: some never catch up."""
    deadline = time.time() + START_S
    while not answers(folder):
        if time.time() > deadline:
            raise Failed(f"no window came out within {START_S:.0f} s")
        _sleep_until(process, time.time() + 0.1)
    deadline = time.time() + CATCH_UP_S
    while max(answers(folder)) / 1e6 < time.time() - CAUGHT_UP_S and time.time() < deadline:
        _sleep_until(process, time.time() + 0.1)


def _sleep_until(process: "subprocess.Popen[bytes]", time_s: float) -> None:
    """Wait, unless the contestant ends."""
    with suppress(subprocess.TimeoutExpired):
        code = process.wait(max(0.0, time_s - time.time()))
        raise Failed(f"it ended with code {code}")
