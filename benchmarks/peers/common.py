"""What all peers share inside their environments: the task they are told, the tuples, and where answers go. It needs NumPy and a kernel."""

import contextlib
import hashlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SECOND_US = 1_000_000
TICK_US, SLIDE_US, WINDOW_US = 10_000, 200_000, 1_000_000
PANES = WINDOW_US // SLIDE_US
TICKS_PER_PANE = SLIDE_US // TICK_US
DIMENSIONS = 8
COLUMNS = [f"x{i}" for i in range(DIMENSIONS)]


@dataclass(frozen=True)
class Task:
    """A query, the load, and the folder for answers; `form` says if an element of the stream is a tuple, or an array of a tick."""

    query: str
    rate_hz: int
    folder: str
    form: str = "arrays"
    kernel: str = "moocore"
    workers: int = 2

    @classmethod
    def told(cls) -> "Task":
        """Read the task from the command line."""
        return cls(**json.loads(sys.argv[1]))

    def text(self) -> str:
        """Write it for a command line."""
        return json.dumps(asdict(self))

    def tick(self, number: int) -> Array:
        """Make the points that come in a tick of 10 ms, a row for each: those of `skytide.workload(arrivals="constant", ...)`."""
        before, after = ((number + i) * self.rate_hz * TICK_US // SECOND_US for i in range(2))
        digest = hashlib.blake2b(f"0/points/{number}".encode(), digest_size=16).digest()
        random = np.random.Generator(np.random.SFC64(int.from_bytes(digest, "big")))
        return np.ascontiguousarray(random.random((DIMENSIONS, after - before)).T)

    def start_us(self) -> int:
        """Return when tick 0 begins: the second in which somebody asked first, in whichever process of the peer."""
        return _start_us(self.folder)

    def partial(self, parts: Sequence[Array]) -> Array:
        """Reduce points, or what was reduced before, to what a window needs of them."""
        if self.query == "skyline":
            points = np.concatenate(parts)
            return points[self.not_dominated(points)]
        return np.array([[len(points), points[:, 0].sum(), points[:, 1].max()] for points in parts])

    def not_dominated(self, points: Array) -> NDArray[np.bool_]:
        """Mark the skyline, by the fastest that a user finds elsewhere (moocore, whose loops are C), or by skytide's own kernel."""
        if self.kernel == "skytide":
            from skytide.kernels import skyline

            return skyline(points)
        import moocore

        return np.asarray(moocore.is_nondominated(points, maximise=False, keep_weakly=True))

    def answer(self, partials: Sequence[Array]) -> Array:
        """Return the answer of a window from the partial results of all its panes: the skyline, or count, mean and maximum."""
        if self.query == "skyline":
            return self.partial(partials)
        counts, sums, most = np.concatenate(partials).T
        return np.array([counts.sum(), sums.sum() / counts.sum(), most.max()])

    def as_partial(self, folded: Sequence[float]) -> Array:
        """Return the count, sum and maximum that a peer has found by itself as `partial` returns them."""
        return np.array([folded])

    def write(self, end_us: int, answer: Array) -> Path:
        """Write the answer of a window: its file's time is when it was there."""
        passing = Path(self.folder, f"{end_us}.{os.getpid()}.{threading.get_ident()}")
        with passing.open("wb") as file:
            np.save(file, answer)
        return passing.replace(Path(self.folder, f"{end_us}.npy"))


@cache
def _start_us(folder: str) -> int:
    path = Path(folder, "start")
    if not path.exists():
        own = Path(folder, f"start.{os.getpid()}.{threading.get_ident()}")
        own.write_text(str(time.time_ns() // 1000 // SECOND_US * SECOND_US))
        with contextlib.suppress(FileExistsError):  # another was first
            os.link(own, path)
    return int(path.read_text())


class Clock:
    """Tells which ticks have come, to the one of so many workers that has every so-manieth."""

    def __init__(self, task: Task, worker: int = 0, workers: int = 1) -> None:
        self.start_us, self.next, self.workers = task.start_us(), worker, workers

    def come(self) -> list[int]:
        """Return the ticks that have ended since the last call."""
        ended = (time.time_ns() // 1000 - self.start_us) // TICK_US
        ticks = list(range(self.next, ended, self.workers))
        self.next += len(ticks) * self.workers
        return ticks

    def next_s(self) -> float:
        """Return when the next tick will have ended, in seconds since 1970."""
        return (self.start_us + (self.next + 1) * TICK_US) / SECOND_US

    def wait(self) -> None:
        """Sleep until the next tick has ended."""
        time.sleep(max(0.0, self.next_s() - time.time()))


def when_out(path: Path, time_s: float) -> None:
    """Note another time at which an answer was there."""
    os.utime(path, ns=(int(time_s * 1e9),) * 2)


def packed(array: Array) -> bytes:
    """Return an array of three or eight columns as bytes."""
    return array.shape[1].to_bytes(1) + array.tobytes()


def unpacked(data: bytes) -> Array:
    """Return it as an array again."""
    return np.frombuffer(data, np.float64, offset=1).reshape(-1, data[0])


def tuple_times_us(begin_us: int, n: int) -> list[int]:
    """Return when the tuples of a tick happen: at equal distances."""
    times: list[int] = (begin_us + np.arange(n) * TICK_US // max(n, 1)).tolist()
    return times


def free_ports(n: int) -> list[int]:
    """Return ports of this machine on which nobody listens."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n)]
        return [each.getsockname()[1] for each in sockets]


def windows_of(pane: int) -> range:
    """Return the windows that have a pane, by the number of their last one; those that began before the stream are left out."""
    return range(max(pane, PANES - 1), pane + PANES)
