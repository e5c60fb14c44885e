"""`skytide trading`: a polynomial through the last 1,000 quotes of each symbol, and the price it predicts (P2 §5.1)."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from skytide import Guard, autoscale, fleet, stream
from skytide.controllers import Mpc
from skytide.errors.checks import check_integer, check_number
from skytide.errors.limits import MAX_SLOTS
from skytide.spark.clock import now_us
from skytide.spark.session.interrupt import Interrupt
from skytide.spark.session.local import local_session
from skytide.windows import duration_us
from skytide_lab.dashboard.live import WARMING_UP
from skytide_lab.dashboard.trading_history import ResultFolder, TradingHistory, accuracy
from skytide_lab.dashboard.trading_live import line, view
from skytide_lab.dashboard.trading_picture import draw
from skytide_lab.data.real_data import data
from skytide_lab.data.trading_day import MadeUpDay, RealDay, TradingDay
from skytide_lab.data.writer import Writer
from skytide_lab.demonstrations.folders import make_room, save_picture
from skytide_lab.demonstrations.run import ECHO, ENDING, LINE_EVERY_S, LOOK_EVERY_S, end
from skytide_lab.trading import AlgoTrader

TRIGGER = "500 ms"
TICK_S = 0.1  # of our time, not that of the exchange
WINDOW, SLIDE = 1_000, 25
AHEAD = "5 s"
DECIDE_EVERY = "2 s"
SHRINK_AFTER = "6 s"
IDLE_S = 3.0  # if nothing has come for this long after all was written, it is over
WARM_UP_S = 1.0  # of our time
SYMBOLS_JUDGED = 3

Show = Callable[[TradingHistory, str], None]


def run(*, seconds: float, quotes: Path | None, symbols: int, rate: float, speed: float, slots: int, out: Path) -> None:
    """Trade for some seconds, show what happens, and leave results, a picture and a summary."""
    check_number("seconds", seconds, above=0, meaning="a time to stream, more than 0")
    check_integer("slots", slots, 1, MAX_SLOTS)
    day: TradingDay = MadeUpDay(symbols, rate, speed) if quotes is None else RealDay(_found(quotes), speed)
    folder, picture = out / "trading", out / "trading.png"
    make_room(folder, picture)
    console = Console(highlight=False, soft_wrap=True)
    with Interrupt() as interrupt, Writer(folder / "feeds", day) as writer:
        console.print("Starting Spark ... (Ctrl-C ends the run at any time)")
        spark = local_session("skytide trading")
        interrupt.spark_runs()
        spark.sparkContext.setLogLevel("OFF")  # a failure is reported below, once
        try:
            with _shown(console, day.title) as show:
                _warm_up(day, folder / "warm-up", slots, interrupt, show)
                history = _Watch(day, writer, folder, seconds, slots, interrupt, show).watch()
        except Exception:  # not when aborted: Spark ends with this process then, and without a word
            spark.stop()
            raise
        writer.stop()
        spark.stop()
        _conclude(console, day, history, folder, picture)


def _found(quotes: Path) -> Path:
    return quotes if quotes.exists() else data(str(quotes))


def _start(day: TradingDay, folder: Path, trigger: str, slots: int) -> Any:
    feed = fleet(folder / "feeds", schema=day.schema, format=day.format, interval=TRIGGER)
    return (
        stream(feed, time="ts")
        .keyed("symbol")
        .count_window(WINDOW, slide=SLIDE, tick=timedelta(seconds=max(TICK_S * day.speed, TICK_S)))
        .apply(AlgoTrader(ahead=AHEAD))
        .start("parquet", path=folder / "results", checkpoint=folder / "checkpoint", trigger=trigger, slots=slots)
    )


def _warm_up(day: TradingDay, folder: Path, slots: int, interrupt: Interrupt, show: Show) -> None:
    """Run the query over the first moments of the day: while a fresh Spark does its first batches, a live one would wait.

    It is not cut short: a source of Spark's that is stopped while it starts complains loudly.
    """
    if interrupt.requested:
        return
    (folder / "feeds").mkdir(parents=True)
    for name, lines in day.due(0.0, WARM_UP_S, now_us()):
        (folder / "feeds" / f"{name}.{day.format}").write_bytes(lines)
    running = _start(day, folder, "availableNow", slots)
    while running.query.isActive:
        show(TradingHistory(), ENDING if interrupt.requested else WARMING_UP)
        time.sleep(LOOK_EVERY_S)
    end(running, folder.parent)
    shutil.rmtree(folder)


@dataclass
class _Watch:
    """Runs the query until the time is up, the day is over, somebody presses Ctrl-C, or it fails, and looks at it meanwhile."""

    day: TradingDay
    writer: Writer
    folder: Path
    seconds: float
    slots: int
    interrupt: Interrupt
    show: Show

    def watch(self) -> TradingHistory:
        history, since_s, began_us = TradingHistory(), 0.0, now_us()
        if self.interrupt.requested:
            return history
        self.writer.begin(began_us)
        running = _start(self.day, self.folder, TRIGGER, slots=1)
        guard = Guard(scale_down_after=SHRINK_AFTER)
        scaler = autoscale(running, Mpc.throughput(), (1, self.slots), interval=DECIDE_EVERY, guard=guard)
        results = ResultFolder(self.folder / "results")

        def look() -> TradingHistory:
            status, at_s = running.status(), (now_us() - began_us) / 1e6
            windows = [self.day.in_real_time(row, began_us) for row in running.windows()]
            return history.after(at_s, status, windows, scaler.status().reason, results.new(status.batch))

        while running.query.isActive and since_s < self.seconds and not (self.interrupt.requested and history.looks):
            progress = f"{since_s:.0f} of {min(self.seconds, self.day.seconds):.0f} s" if history.looks else WARMING_UP
            self.show(history, ENDING if self.interrupt.requested else progress)
            time.sleep(LOOK_EVERY_S)
            self.writer.check()
            history = look()
            since_s = (now_us() - history.query.out_us) / 1e6 if history.query.out_us else 0.0
            if self._is_over(history, (now_us() - began_us) / 1e6):
                break
        self.show(history, ENDING)
        scaler.stop()
        end(running, self.folder)
        history = look()
        self.show(history, "done")
        return history

    def _is_over(self, history: TradingHistory, at_s: float) -> bool:
        """Return whether all was written and read."""
        read_s = max((look.at_s for look in history.looks), default=inf)
        return at_s > max(self.day.seconds, read_s) + IDLE_S


@contextmanager
def _shown(console: Console, title: str) -> Iterator[Show]:
    """Yield what shows a history: in place on a terminal, otherwise a line now and then."""
    if not console.is_interactive:
        yield _lines(console)
        return
    with Live(console=console, refresh_per_second=1 / LOOK_EVERY_S) as live:
        yield lambda history, progress: live.update(
            view(history, title=title, ahead=AHEAD, progress=progress, width=console.width - ECHO)
        )


def _lines(console: Console) -> Show:
    due_s, was_out = 0.0, False

    def show(history: TradingHistory, progress: str) -> None:
        nonlocal due_s, was_out
        out = bool(history.symbols)
        if time.monotonic() >= due_s or out > was_out:
            console.print(line(history, progress=progress))
            due_s, was_out = time.monotonic() + LINE_EVERY_S, out

    return show


def _conclude(console: Console, day: TradingDay, history: TradingHistory, folder: Path, picture: Path) -> None:
    results, latest = folder / "results", history.latest
    if latest is None or not history.symbols:
        console.print("It ended before the first window came out, so there is no picture.")
        return
    ahead_us = duration_us(AHEAD, "ahead")
    figure = draw(history, name=day.title, ahead=AHEAD, ahead_us=ahead_us, length=WINDOW, first_us=day.opens_us, speed=day.speed)
    save_picture(figure, picture)
    query, steady, signals = latest.query, history.query.latency(), history.signals()
    latency = f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else "not known"
    console.print(
        f"Quotes:   {query.tuples:,} of {len(history.symbols):,} symbols with a window, {query.late / max(query.tuples, 1):.2%} late\n"
        f"Windows:  {query.windows_out:,} of {WINDOW:,} quotes each, {signals['buy']:,} signals to buy and {signals['sell']:,} to sell\n"
        f"{_summary(history, ahead_us)}"
        f"Latency:  {latency}\n"
        f"Slots:    {_slots(history)}\n"
        f"Results:  {results}\n"
        f"Picture:  {picture}\n"
        f'In Spark: spark.read.parquet("{results}").show()'
    )


def _summary(history: TradingHistory, ahead_us: int) -> str:
    """Return a line about how far predictions were off."""
    judged = [(symbol, accuracy(windows, ahead_us)) for symbol, windows in history.liveliest(SYMBOLS_JUDGED)]
    texts = [f"{symbol} {result.off_bp:.1f} bp ({result.unchanged_bp:.1f})" for symbol, result in judged if result]
    return f"{AHEAD} on:   off by {', '.join(texts)}; in brackets: if no change had been predicted\n" if texts else ""


def _slots(history: TradingHistory) -> str:
    slots = [look.query.slots for look in history.looks]
    changes = sum(before != after for before, after in pairwise(slots))
    return f"{min(slots)} to {max(slots)}, changed {changes} {'time' if changes == 1 else 'times'} by Mpc; {history.looks[-1].query.moved_groups:,} groups of keys moved"
