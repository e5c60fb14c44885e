"""`skytide submit job.py ...`: runs an unchanged script, with an auto-scaler for all streaming queries that it starts.

In local mode, where there are no executors, each skytide query has one of its own, for its slots.

The script chooses its Spark as usual. Options of `spark-submit` go into PYSPARK_SUBMIT_ARGS, for instance
`PYSPARK_SUBMIT_ARGS="--master spark://host:7077 --executor-cores 1 pyspark-shell"`.
"""

import contextlib
import hashlib
import re
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote

from skytide.cli.endpoint import Endpoint
from skytide.cli.folders import writable
from skytide.control import Guard, controller_of
from skytide.errors import InvalidInput
from skytide.loop.recording import is_recording
from skytide.records import Mode
from skytide.spark.api.run import Run, stop_after_batch
from skytide.spark.compat import session_of
from skytide.spark.scaling import Scaler, ScalingEvent, autoscale
from skytide.spark.scaling.attach import each_query
from skytide.spark.scaling.priorities import checked
from skytide.watch.serving import check_installed
from skytide.windows import duration_s, duration_us

MAX_NAME = 150  # letters of a file's name
APPLICATION = "application"  # what the auto-scaler of all queries is called
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def run(
    script: Path,
    arguments: Sequence[str],
    *,
    controller: str,
    executors: tuple[int, int],
    interval: str | None,
    mode: Mode,
    store: str | None,
    drain: str = "60 s",
    bounds: dict[str, str] | None = None,
    priorities: dict[str, Any] | None = None,
    history: Path | None = None,
    serve: Endpoint | None = None,
    metrics: Endpoint | None = None,
) -> int:
    """Run the script, and return its exit status."""
    if not script.is_file():
        raise InvalidInput(value=str(script), reason="there is no such file", remedy="name a Python script")
    controller_of(controller), Guard(*executors)  # refused now, and not when the first query starts
    if interval is not None:
        duration_us(interval, "interval")
    duration_s(drain, "drain")
    priorities = checked(priorities) if priorities else None
    for folder in (None if store is None or _URI.match(store) else Path(store), history):
        if folder is not None:
            writable(folder)
    check_installed(page=serve is not None, metrics=metrics is not None)
    scalers: dict[str, Scaler] = {}
    ctrl_c, show = _CtrlC(), _Show(serve, metrics)

    def attach(query: Any) -> None:
        ctrl_c.ends(query)
        if isinstance(query, Run):
            show(query)
        if any(scaler.follows(query) for scaler in scalers.values() if scaler.is_active):
            return  # it was started again, and its scaler stays with it
        spark = session_of(getattr(query, "query", query))
        alone = not (bounds or priorities) and str(spark.sparkContext.master).startswith("local")
        name = _file_name(query) if alone else APPLICATION
        of_all: dict[str, Any] = {} if alone else {"bounds": bounds or None, "priorities": priorities}
        try:
            scaler = autoscale(
                query if alone else spark,
                controller,
                executors,
                interval=interval,
                mode=mode,
                drain=drain,
                store=store and f"{store.rstrip('/')}/{name}.json",
                on_event=_Printer(_name(query) if alone else name),
                **of_all,
            )
        except Exception as refused:  # the query belongs to the script, and goes on
            _print(f"not scaled: {refused}")
            return
        scalers[name] = scaler
        show(scaler)

    with each_query(attach), ctrl_c:
        try:
            return _run_as_main(script, arguments)
        finally:
            for scaler in scalers.values():
                scaler.stop()
            _save(history, scalers)


def _save(folder: Path | None, scalers: dict[str, Scaler]) -> None:
    """Write what scalers have seen, one file per query; for a query that was started anew, since its latest start."""
    for name, scaler in scalers.items() if folder is not None else ():
        path = _free(folder, name)  # type: ignore[arg-type]
        scaler.history().save(path)
        if path.stem != name:
            _print(f"the history is in {path}: {name}.parquet is no recording of an auto-scaler")


def _free(folder: Path, name: str) -> Path:
    """Return the file for a recording: one that does not exist, or is an earlier recording."""
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(path for stem in names if is_recording(path := folder / f"{stem}.parquet") or not path.exists())


class _CtrlC:
    """Lets queries end after their current batch, so that a script that waits for them ends, too; the second Ctrl-C aborts.

    Spark's own handler kills the jobs of a batch. It is installed when Spark starts, and replaced here when a query starts.
    """

    def __init__(self) -> None:
        self._queries: list[Any] = []

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before)

    def ends(self, query: Any) -> None:
        self._queries.append(query)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _print("Ctrl-C: all queries end after their current batch; press it again to abort")
        threading.Thread(target=self._end, daemon=True).start()  # the main thread may be in the middle of a call to Spark

    def _end(self) -> None:
        for query in self._queries:
            with contextlib.suppress(Exception):  # it has ended, or Spark has
                query.stop() if isinstance(query, Run) else stop_after_batch(query)


class _Show:
    """Shows queries and auto-scalers where that is wanted, and prints where."""

    def __init__(self, serve: Endpoint | None, metrics: Endpoint | None) -> None:
        self._serve, self._metrics, self._printed = serve, metrics, set[str]()

    def __call__(self, shown: Run | Scaler) -> None:
        try:
            if self._serve is not None:
                self._print("live page", shown.serve(self._serve.address, self._serve.port).url)
            if self._metrics is not None and self._metrics.port is not None:
                self._print("metrics", shown.metrics(self._metrics.port, self._metrics.address).url)
        except Exception as refused:  # as with scaling, the query goes on
            self._print("not shown", str(refused))

    def _print(self, what: str, text: str) -> None:
        if text not in self._printed:
            self._printed.add(text)
            _print(f"{what}: {text}")


class _Printer:
    """Writes a line for each event."""

    lock = threading.Lock()

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, event: ScalingEvent) -> None:
        with self.lock:
            _print(f"{self._name}: {event}")


def _run_as_main(script: Path, arguments: Sequence[str]) -> int:
    """Run a script as Python itself would, and return its exit status."""
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:] = [str(script), *arguments], [str(script.resolve().parent), *sys.path]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _name(query: Any) -> str:
    spark_query = getattr(query, "query", query)
    return str(spark_query.name or spark_query.id)


def _file_name(query: Any) -> str:
    """Return a name for files of a query: another one for every name of a query, and never one in another folder.

    >>> from types import SimpleNamespace
    >>> [_file_name(SimpleNamespace(name=name)) for name in ("a b", "a-b", "../x")]
    ['a%20b', 'a-b', '..%2Fx']
    """
    name = quote(_name(query), safe="")
    if len(name) <= MAX_NAME:
        return name
    return f"{name[:MAX_NAME]}-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def _print(text: str) -> None:
    print(f"skytide: {text}", file=sys.stderr, flush=True)
