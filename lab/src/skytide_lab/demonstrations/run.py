"""`skytide run`: the skyline of the last second of a bursty, late stream, five times per second."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from skytide import low, stream, workload
from skytide.cli.endpoint import Endpoint
from skytide.errors import SkytideError
from skytide.errors.checks import check_number
from skytide.slacks import DropRatio
from skytide.spark.clock import now_us
from skytide.spark.session.failure import reason
from skytide.spark.session.interrupt import Interrupt
from skytide.spark.session.local import local_session
from skytide.spark.sources.workload import WorkloadStream
from skytide.watch.serving import check_installed
from skytide_lab.dashboard.history import History, latency, read_windows
from skytide_lab.dashboard.live import WARMING_UP, line, view
from skytide_lab.dashboard.picture import draw
from skytide_lab.demonstrations.folders import make_room, save_picture

DIMENSIONS = 5
BURST_S = 1.0  # on average; the time from one burst to the next is four times as long
PER_BURST = 3.6  # index of dispersion, per tuple of the mean rate in a burst
DROP_RATIO = 0.01
LOOK_EVERY_S = 0.25
LINE_EVERY_S = 5.0
ECHO = 3  # columns for the ^C that a terminal writes, which would break the line of a view as wide as itself
ENDING = "ending ..."

Show = Callable[[History, str], None]


def run(*, seconds: float, rate: float, out: Path, serve: Endpoint | None = None) -> None:
    """Stream for some seconds, show what happens, and leave results, a picture and a summary."""
    check_number("seconds", seconds, above=0, meaning="a time to stream, more than 0")
    check_installed(page=serve is not None, metrics=False)
    source, first = _source(rate), _source(rate, pace="fast", batch="1 s", duration="2 s")
    folder, picture = out / "run", out / "run.png"
    make_room(folder, picture)
    console = Console(highlight=False, soft_wrap=True)
    with Interrupt() as interrupt:
        console.print("Starting Spark ... (Ctrl-C ends the run at any time)")
        spark = local_session("skytide run")
        interrupt.spark_runs()
        spark.sparkContext.setLogLevel("OFF")  # a failure is reported below, once
        try:
            with _shown(console) as show:
                _warm_up(first, folder / "warm-up", interrupt, show)
                history = _watch(source, folder, seconds, interrupt, show, _server(console, serve))
        except Exception:  # not when aborted: Spark ends with this process then, and without a word
            spark.stop()
            raise
        spark.stop()
        _conclude(console, history, folder / "results", picture)


def _source(rate: float, **played: Any) -> WorkloadStream:
    return workload(
        rate=rate, arrivals="map", dispersion=1 + PER_BURST * rate * BURST_S, delays="exponential", delay="300 ms", late_share=0.2,
        dimensions=DIMENSIONS, seed=3, **played,
    )  # fmt: skip


def _start(source: WorkloadStream, folder: Path, trigger: str) -> Any:
    return (
        stream(source)
        .window("1 second", slide="200 ms", slack=DropRatio(DROP_RATIO))
        .skyline(*(low(f"x{i}") for i in range(DIMENSIONS)))
        .start("parquet", path=str(folder / "results"), checkpoint=str(folder / "checkpoint"), trigger=trigger)
    )


def _warm_up(source: WorkloadStream, folder: Path, interrupt: Interrupt, show: Show) -> None:
    """Run the query over the first moments of the stream: while a fresh Spark does its first batches, a live one would wait.

    It is not cut short: a source of Spark's that is stopped while it starts complains loudly.
    """
    if interrupt.requested:
        return
    running = _start(source, folder, trigger="availableNow")
    while running.query.isActive:
        show(History(), ENDING if interrupt.requested else WARMING_UP)
        time.sleep(LOOK_EVERY_S)
    end(running, folder.parent)
    shutil.rmtree(folder)


def _server(console: Console, endpoint: Endpoint | None) -> Callable[[Any], None]:
    """Return a function that shows a query on a page, if a page is wanted."""

    def serve(running: Any) -> None:
        if endpoint is not None:
            console.print(f"Page:     {running.serve(endpoint.address, endpoint.port).url}")

    return serve


def _watch(
    source: WorkloadStream, folder: Path, seconds: float, interrupt: Interrupt, show: Show, serve: Callable[[Any], None]
) -> History:
    """Run the query until the time is up, somebody presses Ctrl-C, or it fails; return what was seen meanwhile."""
    history, since_s = History(), 0.0
    if interrupt.requested:
        return history
    running = _start(source, folder, trigger="500 ms")
    serve(running)
    while running.query.isActive and since_s < seconds and not (interrupt.requested and history.batches):
        show(history, ENDING if interrupt.requested else f"{since_s:.0f} of {seconds:.0f} s" if history.batches else WARMING_UP)
        time.sleep(LOOK_EVERY_S)
        history = history.after(running.status(), running.windows())
        since_s = (now_us() - history.out_us) / 1e6 if history.out_us else 0.0
    show(history, ENDING)
    end(running, folder)
    history = history.after(running.status(), running.windows())
    show(history, "done")
    return history


def end(running: Any, folder: Path) -> None:
    """End a query, and raise if it has failed."""
    running.stop()
    if failure := running.query.exception():
        report = folder / "error.txt"
        report.write_text(f"{failure}\n")
        raise SkytideError(f"the stream failed: {reason(str(failure))}; the full report is in {report}")


@contextmanager
def _shown(console: Console) -> Iterator[Show]:
    """Yield what shows a history: in place on a terminal, otherwise a line now and then."""
    if not console.is_interactive:
        yield _lines(console)
        return
    with Live(console=console, refresh_per_second=1 / LOOK_EVERY_S) as live:
        yield lambda history, progress: live.update(
            view(history, progress=progress, width=console.width - ECHO, drop_ratio=DROP_RATIO)
        )


def _lines(console: Console) -> Show:
    due_s, was_out = 0.0, False

    def show(history: History, progress: str) -> None:
        nonlocal due_s, was_out
        out = history.out_us is not None
        if time.monotonic() >= due_s or out > was_out:
            console.print(line(history, progress=progress))
            due_s, was_out = time.monotonic() + LINE_EVERY_S, out

    return show


def _conclude(console: Console, history: History, results: Path, picture: Path) -> None:
    windows = read_windows(results / "_windows")
    if not windows or history.latest is None or history.out_us is None:
        console.print("It ended before the first window came out, so there is no picture.")
        return
    save_picture(draw(history, windows, drop_ratio=DROP_RATIO), picture)
    latest, steady = history.latest, latency(windows, since_us=history.out_us)
    latencies = f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else "not known"
    slowest_s = max((row.latency_s for row in windows if row.window_end_us < history.out_us), default=0.0)
    console.print(
        f"Tuples:   {latest.tuples:,}, of which {latest.late:,} ({latest.late / max(latest.tuples, 1):.2%}) came too late and were dropped\n"
        f"Windows:  {len(windows):,}, with skylines of up to {max(row.kept for row in windows):,} rows\n"
        f"Latency:  {latencies}; not counted: up to {slowest_s:.1f} s at the start\n"
        f"Results:  {results}, and a row per window in {results / '_windows'}\n"
        f"Picture:  {picture}\n"
        f'In Spark: spark.read.parquet("{results}").show()'
    )
