"""`skytide submit job.py ...`: runs a script as it is, with an auto-scaler on every streaming query that it starts.

The script chooses its Spark as ever. What `spark-submit` would be told goes into PYSPARK_SUBMIT_ARGS, for instance
`PYSPARK_SUBMIT_ARGS="--master spark://host:7077 --executor-cores 1 pyspark-shell"`.
"""

import re
import runpy
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skytide.cli.folders import writable
from skytide.cli.place import Place
from skytide.control import Guard, controller_of
from skytide.errors import InvalidInput
from skytide.spark.run import Run
from skytide.spark.scaling import Event, Scaler, autoscale
from skytide.spark.scaling.attach import each_query
from skytide.watch.serving import check_installed
from skytide.windows import duration_us


def run(
    script: Path,
    arguments: Sequence[str],
    *,
    controller: str,
    executors: tuple[int, int],
    interval: str | None,
    mode: str,
    store: Path | None,
    serve: Place | None = None,
    metrics: Place | None = None,
) -> int:
    """Run the script, and give its status."""
    if not script.is_file():
        raise InvalidInput(value=str(script), reason="there is no such file", remedy="name a Python script")
    controller_of(controller), Guard(*executors)  # refused now, and not when the first query starts
    if interval is not None:
        duration_us(interval, "interval")
    if store is not None:
        writable(store)
    check_installed(page=serve is not None, metrics=metrics is not None)
    scalers: list[Scaler] = []
    show = _Show(serve, metrics)

    def attach(query: Any) -> None:
        if isinstance(query, Run):
            show(query)
        scalers[:] = [each for each in scalers if each.status().running]
        if any(each.follows(query) for each in scalers):
            return  # it was started again, and its scaler goes on with it
        try:
            kept = store and store / f"{_file_name(query)}.json"
            scaler = autoscale(query, controller, executors, interval=interval, mode=mode, store=kept, tell=_Teller(query).tell)
        except Exception as refused:  # the query is the script's, and goes on
            _say(f"not scaled: {refused}")
            return
        scalers.append(scaler)
        show(scaler)

    with each_query(attach):
        try:
            return _run_as_main(script, arguments)
        finally:
            for scaler in scalers:
                scaler.stop()


class _Show:
    """Shows queries and auto-scalers where that is wanted, and says where."""

    def __init__(self, serve: Place | None, metrics: Place | None) -> None:
        self._serve, self._metrics, self._said = serve, metrics, set[str]()

    def __call__(self, shown: Run | Scaler) -> None:
        try:
            if self._serve is not None:
                self._say("live page", shown.serve(self._serve.address, self._serve.port).url)
            if self._metrics is not None and self._metrics.port is not None:
                self._say("metrics", shown.metrics(self._metrics.port, self._metrics.address).url)
        except Exception as refused:  # as with scaling, the query goes on
            self._say("not shown", str(refused))

    def _say(self, what: str, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            _say(f"{what}: {text}")


class _Teller:
    """Writes a line for each event."""

    lock = threading.Lock()

    def __init__(self, query: Any) -> None:
        self._name = _name(query)

    def tell(self, event: Event) -> None:
        with self.lock:
            _say(f"{self._name}: {event}")


def _run_as_main(script: Path, arguments: Sequence[str]) -> int:
    """Run a script as Python itself would, and give its status."""
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
    return re.sub(r"\W+", "-", _name(query))


def _say(text: str) -> None:
    print(f"skytide: {text}", file=sys.stderr, flush=True)
