"""`skytide fleet`: windows over hundreds of streams that come and go, read by few tasks."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from skytide import fleet, stream
from skytide.admission import Admission
from skytide.errors.checks import check_number
from skytide.slacks import DropRatio
from skytide.spark.clock import now_us
from skytide.spark.session.interrupt import Interrupt
from skytide.spark.session.local import local_session
from skytide_lab.dashboard.fleet_history import FleetHistory
from skytide_lab.dashboard.fleet_live import by_state, line, lost, plural, view
from skytide_lab.dashboard.fleet_picture import draw
from skytide_lab.dashboard.history import read_windows
from skytide_lab.dashboard.live import WARMING_UP
from skytide_lab.data.real_data import data
from skytide_lab.data.traffic import Cabs, FleetTraffic, Generated
from skytide_lab.data.writer import Writer
from skytide_lab.demonstrations.folders import make_room, save_picture
from skytide_lab.demonstrations.run import DROP_RATIO, ECHO, ENDING, LINE_EVERY_S, LOOK_EVERY_S, end

TRIGGER = "500 ms"
MAX_SPLITS = 8
IDLE_S = 3.0  # if nothing has come for this long after all was written, it is over
WARM_UP_S = 5.0  # of the streams

Show = Callable[[FleetHistory, str], None]


def run(*, seconds: float, streams: int, rate: float, cabs: Path | None, speed: float, capacity: float, out: Path) -> None:
    """Read streams for some seconds, show what happens, and leave results, a picture and a summary."""
    check_number("seconds", seconds, above=0, meaning="a time to stream, more than 0")
    traffic = Generated(streams, rate, seconds) if cabs is None else Cabs(cabs if cabs.exists() else data(str(cabs)), speed)
    folder, picture = out / "fleet", out / "fleet.png"
    make_room(folder, picture)
    console = Console(highlight=False, soft_wrap=True)
    with Interrupt() as interrupt, Writer(folder / "feeds", traffic) as writer:
        console.print("Starting Spark ... (Ctrl-C ends the run at any time)")
        spark = local_session("skytide fleet")
        interrupt.spark_runs()
        spark.sparkContext.setLogLevel("OFF")  # a failure is reported below, once
        try:
            with _shown(console, traffic.title) as show:
                _warm_up(traffic, folder / "warm-up", interrupt, show)
                history = _watch(traffic, writer, folder, seconds, capacity, interrupt, show)
        except Exception:  # not when aborted: Spark ends with this process then, and without a word
            spark.stop()
            raise
        writer.stop()
        spark.stop()
        _conclude(console, traffic, history, folder, picture)


def _start(traffic: FleetTraffic, folder: Path, trigger: str, capacity: float | None = None) -> tuple[Any, Any]:
    """Start the query, and return the fleet and the run."""
    streams = fleet(
        folder / "feeds",
        schema=traffic.schema,
        interval=TRIGGER,
        splits=MAX_SPLITS,
        capacity_hz=capacity,
        invalid=folder / "broken",
    )
    running = (
        stream(streams)
        .window(*traffic.window, slack=DropRatio(DROP_RATIO))
        .aggregate(*traffic.measures, keys="stream")
        .start("parquet", path=str(folder / "results"), checkpoint=str(folder / "checkpoint"), trigger=trigger)
    )
    return streams, running


def _warm_up(traffic: FleetTraffic, folder: Path, interrupt: Interrupt, show: Show) -> None:
    """Run the query over the first moments of the streams: while a fresh Spark does its first batches, a live one would wait.

    It is not cut short: a source of Spark's that is stopped while it starts complains loudly.
    """
    if interrupt.requested:
        return
    (folder / "feeds").mkdir(parents=True)
    for name, lines in traffic.due(0.0, WARM_UP_S, now_us()):
        (folder / "feeds" / f"{name}.jsonl").write_bytes(lines)
    _, running = _start(traffic, folder, trigger="availableNow")
    while running.query.isActive:
        show(FleetHistory(), ENDING if interrupt.requested else WARMING_UP)
        time.sleep(LOOK_EVERY_S)
    end(running, folder.parent)
    shutil.rmtree(folder)


def _watch(
    traffic: FleetTraffic, writer: Writer, folder: Path, seconds: float, capacity: float, interrupt: Interrupt, show: Show
) -> FleetHistory:
    """Run the query until the time is up, all was read, somebody presses Ctrl-C, or it fails; return what was seen meanwhile."""
    history, since_s, began_us = FleetHistory(), 0.0, now_us()
    if interrupt.requested:
        return history
    writer.begin(began_us)
    streams, running = _start(traffic, folder, TRIGGER, capacity)

    def look() -> FleetHistory:
        windows = [traffic.in_real_time(row, began_us) for row in running.windows()]
        return history.after((now_us() - began_us) / 1e6, streams.status(), streams.splits(), running.status(), windows)

    while running.query.isActive and since_s < seconds and not (interrupt.requested and history.query.batches):
        progress = f"{since_s:.0f} of {min(seconds, traffic.seconds):.0f} s" if history.query.batches else WARMING_UP
        show(history, ENDING if interrupt.requested else progress)
        time.sleep(LOOK_EVERY_S)
        writer.check()
        history = look()
        since_s = (now_us() - history.query.out_us) / 1e6 if history.query.out_us else 0.0
        if _is_over(traffic, history, (now_us() - began_us) / 1e6):
            break
    show(history, ENDING)
    end(running, folder)
    history = look()
    show(history, "done")
    return history


def _is_over(traffic: FleetTraffic, history: FleetHistory, at_s: float) -> bool:
    """Return whether all was written and read."""
    read_s = max((look.at_s for look in history.looks if look.query.batch < history.looks[-1].query.batch), default=inf)
    return at_s > max(traffic.seconds, read_s) + IDLE_S


@contextmanager
def _shown(console: Console, title: str) -> Iterator[Show]:
    """Yield what shows a history: in place on a terminal, otherwise a line now and then."""
    if not console.is_interactive:
        yield _lines(console)
        return
    with Live(console=console, refresh_per_second=1 / LOOK_EVERY_S) as live:
        yield lambda history, progress: live.update(view(history, title=title, progress=progress, width=console.width - ECHO))


def _lines(console: Console) -> Show:
    due_s, was_out = 0.0, False

    def show(history: FleetHistory, progress: str) -> None:
        nonlocal due_s, was_out
        out = history.query.out_us is not None
        if time.monotonic() >= due_s or out > was_out:
            console.print(line(history, progress=progress))
            due_s, was_out = time.monotonic() + LINE_EVERY_S, out

    return show


def _conclude(console: Console, traffic: FleetTraffic, history: FleetHistory, folder: Path, picture: Path) -> None:
    results, broken, latest = folder / "results", folder / "broken", history.latest
    windows = read_windows(results / "_windows")
    if latest is None or not windows:
        console.print("It ended before the first window came out, so there is no picture.")
        return
    planner = Admission()
    save_picture(draw(history, name=traffic.title, ahead_s=planner.ahead * planner.period_s), picture)
    seen, steady, most = latest.fleet, history.query.latency(), max(look.fleet.splits for look in history.looks)
    latency = f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else "not known"
    console.print(
        f"Streams:  {seen.streams:,} ({by_state(seen)})\n"
        f"Splits:   up to {most:,}, and {seen.redirections:,} {plural(seen.redirections, 'redirection')} of streams to another one\n"
        f"Tuples:   {latest.query.tuples:,}, {lost(seen, latest.query)}; up to {max(look.fleet.buffered for look in history.looks):,} "
        f"waited to be let in\n"
        f"Windows:  {len(windows):,}, with up to {max(row.kept for row in windows):,} rows, one per stream\n"
        f"Latency:  {latency}\n"
        f"Planning: up to {max(look.fleet.planning_s for look in history.looks) * 1e3:,.0f} ms per batch\n"
        f"Results:  {results}, and a row per window in {results / '_windows'}"
        + (f"; broken records in {broken}\n" if broken.exists() else "\n")
        + f"Picture:  {picture}\n"
        f'In Spark: spark.read.parquet("{results}").show()'
    )
