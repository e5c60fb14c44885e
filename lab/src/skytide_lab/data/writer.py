"""A process that writes streams in real time, one file per stream; it ends with the process that started it, however that ends."""

import os
import signal
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from skytide.errors import SkytideError
from skytide.spark.clock import now_us
from skytide_lab.data.traffic import Traffic

EVERY_S = 0.2
MAX_S = 1.0  # of the streams are written at once when there is much to catch up with
MIN_WAIT_S = 0.001
PATIENCE_S = 10.0


class Writer:
    """The process, as a context. It writes nothing until `begin`."""

    def __init__(self, folder: Path, traffic: Traffic) -> None:
        """Start the process."""
        folder.mkdir()
        processes = get_context("spawn")
        self._pipe, theirs = processes.Pipe()
        self._process = processes.Process(target=_main, args=(theirs, folder, traffic), daemon=True)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which it inherits: Ctrl-C in a terminal is for us alone
        self._process.start()
        signal.signal(signal.SIGINT, before)
        theirs.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the process."""
        self.stop()

    def begin(self, began_us: int) -> None:
        """Let the streams begin; `began_us` is the time of day when they did."""
        self._pipe.send(began_us)

    def check(self) -> None:
        """Raise if the process has failed."""
        if self._pipe.closed or (self._process.is_alive() and not self._pipe.poll()):
            return
        try:
            reason = str(self._pipe.recv())
        except EOFError:
            reason = f"its process ended with status {self._process.exitcode}"
        raise SkytideError(f"the streams could not be written: {reason}")

    def stop(self) -> None:
        """End the process once it has written what it is writing."""
        self._pipe.close()
        self._process.join(PATIENCE_S)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


def _main(pipe: Connection, folder: Path, traffic: Traffic) -> None:
    try:
        _write(pipe, folder, traffic)
    except EOFError:
        pass  # the other side is gone
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


def _write(pipe: Connection, folder: Path, traffic: Traffic) -> None:
    """Write until the other end of the pipe is closed."""
    began_us = pipe.recv()
    done_s, gone = 0.0, set[str]()
    while True:
        at_s = min(max((now_us() - began_us) / 1e6, done_s), done_s + MAX_S)
        for name, lines in traffic.due(done_s, at_s, began_us):
            with open(folder / f"{name}.{traffic.format}", "ab") as file:
                file.write(lines)
        for name in set(traffic.gone(at_s)) - gone:
            os.remove(folder / f"{name}.{traffic.format}")
            gone.add(name)
        done_s = at_s
        if pipe.poll(max(EVERY_S - ((now_us() - began_us) / 1e6 - at_s), MIN_WAIT_S)):
            pipe.recv()
