"""A Spark cluster on this machine, for tests and measurements: a master and workers in processes of their own, on loopback only."""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pyspark

from skytide.errors import SkytideError
from skytide.errors.checks import check_integer, refused
from skytide.errors.limits import MAX_CORES
from skytide.spark.session.java import use_java
from skytide.spark.session.quick import QUICK_TASKS

STARTS_WITHIN_S = 120.0
ENDS_WITHIN_S = 20.0
LAST_LINES = 200
GRANTED_GB = 64  # per core, whatever the machine has
LOOPBACK, MAX_HOSTS = "127.0.0.1", 254
REGISTERED = r"(Successfully registered with master)"
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # many small Javas on few cores


class LocalCluster:
    """A standalone cluster, to be used as a context.

    Its workers claim to have `cores`, whatever the machine has; with one core per executor, there is room for that many executors.
    They all share the real cores of the machine: work that waits gets faster with more of them, work that computes does not.

    Parameters
    ----------
    cores
        How many cores the workers have together.
    hosts
        How many workers there are, each with an equal share of the cores and an address of its own: 127.0.0.1, 127.0.0.2, and so on, which
        Linux has without further ado.
    under
        A command that starts the workers, such as `("unshare", "-m")`.
    classes
        A file with Java's classes ready for use, with which executors start in half the time. An executor writes it when it ends, unless
        it is there already. It fits the Java and the Spark that wrote it, and only one executor may write it.

    Raises
    ------
    InvalidInput
        If `cores` or `hosts` is out of range; on entering the context, if there is no Java that is new enough.
    SkytideError
        On entering the context, if a process does not start; the message has the end of its log.

    Examples
    --------
    ```python
    with LocalCluster(cores=4, hosts=2) as cluster:
        spark = local_session("on a cluster", **cluster.settings(memory="1g"))
    ```
    """

    def __init__(self, cores: int = 8, *, hosts: int = 1, under: Sequence[str] = (), classes: Path | None = None) -> None:
        """Get ready to start."""
        check_integer("cores", cores, 1, MAX_CORES)
        check_integer("hosts", hosts, 1, min(cores, MAX_HOSTS))
        self._cores, self._hosts, self._under = cores, hosts, tuple(under)
        self._classes = classes and classes.absolute()  # executors work in folders of their own
        self._folder = tempfile.TemporaryDirectory(prefix="skytide-cluster-", ignore_cleanup_errors=True)
        self._daemons: list[_Daemon] = []
        self.url = ""
        """The value for `spark.master`."""

    def __enter__(self) -> Self:
        """Start the master and its workers, and wait until they know each other."""
        use_java()
        try:
            # The system chooses the ports, and the log says which: a port that was free a moment ago may be taken by now.
            self.url = self._start("master.Master").find_in_log(r"Starting Spark master at (spark://\S+)")
            shares = [self._cores * (k + 1) // self._hosts - self._cores * k // self._hosts for k in range(self._hosts)]
            workers = [self._start_worker(cores, f"127.0.0.{k + 1}") for k, cores in enumerate(shares)]
            for worker in workers:
                worker.find_in_log(REGISTERED)
        except BaseException:
            self.__exit__()
            raise
        return self

    def add_worker(self, cores: int) -> None:
        """Start one more worker, and wait until the master knows it.

        Parameters
        ----------
        cores
            How many cores it has.
        """
        check_integer("cores", cores, 1, MAX_CORES)
        self._start_worker(cores, LOOPBACK).find_in_log(REGISTERED)

    def settings(self, memory: str = "512m") -> dict[str, str]:
        """Return the settings of a session that uses this cluster, with one core per executor.

        Parameters
        ----------
        memory
            The memory of each executor, as "512m" or "2g".

        Raises
        ------
        InvalidInput
            If that is not an amount of memory.
        """
        if not isinstance(memory, str) or not re.fullmatch(r"[1-9]\d*[mg]", memory):
            raise refused("memory", memory, "not an amount of memory", 'write it as "512m" or "2g"')
        return {
            "spark.master": self.url,
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.executor.cores": "1",
            "spark.executor.memory": memory,
            "spark.executor.extraJavaOptions": QUICK + self._sharing(),
            "spark.pyspark.python": sys.executable,
            "spark.decommission.enabled": "true",
            **QUICK_TASKS,
        }

    def _sharing(self) -> str:
        if self._classes is None:
            return ""
        return f" -XX:{'SharedArchiveFile' if self._classes.exists() else 'ArchiveClassesAtExit'}={self._classes}"

    def __exit__(self, *_: object) -> None:
        """End all processes; executors end with their worker."""
        for daemon in reversed(self._daemons):
            daemon.end()
        self._daemons.clear()
        self._folder.cleanup()

    def _start_worker(self, cores: int, host: str) -> "_Daemon":
        memory = f"{cores * GRANTED_GB}g"  # so that it is never memory that leaves cores without executors
        size = ("--cores", str(cores), "--memory", memory, "--work-dir", self._folder.name)
        return self._start("worker.Worker", *size, self.url, host=host, under=self._under)

    def _start(self, name: str, *arguments: str, host: str = LOOPBACK, under: tuple[str, ...] = ()) -> "_Daemon":
        self._daemons.append(_Daemon(name, *arguments, host=host, under=under))
        return self._daemons[-1]


class _Daemon:
    """A process of the cluster, whose log is read as it is written."""

    def __init__(self, name: str, *arguments: str, host: str, under: tuple[str, ...]) -> None:
        home = Path(pyspark.__file__).parent
        own = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} -Dspark.master.rest.enabled=false",
        }
        where = ("--host", host, "--port", "0", "--webui-port", "0")
        self._process = subprocess.Popen(
            [*under, home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *where, *arguments],
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._written = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def find_in_log(self, pattern: str) -> str:
        """Wait for a line of the log that matches, and return its group."""
        matches: list[str] = []

        def is_logged() -> bool:
            matches.extend(match[1] for line in self._lines if (match := re.search(pattern, line)))
            return bool(matches) or self._ended

        with self._written:
            self._written.wait_for(is_logged, STARTS_WITHIN_S)
        if not matches:
            what = "ended" if self._ended else f"did not get ready within {STARTS_WITHIN_S:.0f} s"
            raise SkytideError(f"a process of the cluster {what}; the end of its log:\n{''.join(self._lines)}")
        return matches[0]

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(ENDS_WITHIN_S)

    def _read(self) -> None:
        assert self._process.stderr
        with self._process.stderr as log:
            for line in log:
                with self._written:
                    self._lines.append(line)
                    self._written.notify_all()
        with self._written:
            self._ended = True
            self._written.notify_all()
