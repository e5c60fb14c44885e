"""`skytide traffic`: P1's query (§1.1) over cabs that report where they are: per area, the speeds of the last hour, every minute."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.live import Live

from skytide import Guard, autoscale, collect, fleet, stream
from skytide.controllers import Proportional
from skytide.errors import InvalidInput
from skytide.errors.checks import check_integer, check_number
from skytide.errors.limits import MAX_SLOTS
from skytide.slacks import FixedSlack
from skytide.spark.clock import now_us
from skytide.spark.session.interrupt import Interrupt
from skytide.spark.session.local import local_session
from skytide_lab.dashboard.fleet_live import plural
from skytide_lab.dashboard.history import latency, read_windows
from skytide_lab.dashboard.live import WARMING_UP
from skytide_lab.dashboard.trading_history import ResultFolder
from skytide_lab.dashboard.traffic_history import City, TrafficHistory, TrafficLook
from skytide_lab.dashboard.traffic_live import late, line, view
from skytide_lab.dashboard.traffic_picture import draw
from skytide_lab.data.made_up_cabs import made_up_cabs
from skytide_lab.data.real_data import data
from skytide_lab.data.traffic import Cabs
from skytide_lab.data.writer import Writer
from skytide_lab.demonstrations.folders import make_room, save_picture
from skytide_lab.demonstrations.run import ECHO, ENDING, LINE_EVERY_S, LOOK_EVERY_S, end
from skytide_lab.traffic import QUEUE_INPUT, QueueEnd, Speeds, area, corner

REAL = Path("cabs_20080520.parquet")
MADE_UP = 600  # cabs, if there are no real ones
HOURS = 24.0
WINDOW, SLIDE = "60 minutes", "1 minute"
SPEEDS = "stream string, ts timestamp, lat double, lon double, ride boolean, speed double, before double"
TRIGGER = "500 ms"
MAX_SPLITS = 8
LATENCY = "5 s"  # P1's bound
DECIDE_EVERY = "2 s"
SHRINK_AFTER = "6 s"
TICK = "10 s"  # of the cabs' time
IDLE_S = 3.0  # if nothing has come for this long after all was written, it is over
WARM_UP_S = 8.0  # of the cabs, at their speed

Show = Callable[[TrafficHistory, str], None]


def run(
    *, seconds: float, cabs: Path | None, made_up: int | None, speed: float, metres: int, capacity: float, slots: int, out: Path
) -> None:
    """Watch the traffic for some seconds, show what happens, and leave results, a picture and a summary."""
    check_number("seconds", seconds, above=0, meaning="a time to stream, more than 0")
    check_integer("slots", slots, 1, MAX_SLOTS)
    area(metres)  # refuses a width that makes no sense
    given = _given(cabs, made_up)
    rows = made_up_cabs(MADE_UP if made_up is None else made_up, HOURS) if given is None else None
    replayed = None if given is None else Cabs(given, speed)  # which refuses a file that holds something else
    folder, picture = out / "traffic", out / "traffic.png"
    make_room(folder, picture)
    if rows is not None:
        pq.write_table(rows, folder / "cabs.parquet")
    traffic = replayed or Cabs(folder / "cabs.parquet", speed)
    title = f"{'' if replayed else 'made up: '}{traffic.title}"
    console = Console(highlight=False, soft_wrap=True)
    with Interrupt() as interrupt, Writer(folder / "feeds", traffic) as writer:
        console.print("Starting Spark ... (Ctrl-C ends the run at any time)")
        spark = local_session("skytide traffic")
        interrupt.spark_runs()
        spark.sparkContext.setLogLevel("OFF")  # a failure is reported below, once
        watch = _Watch(spark, traffic, writer, folder, metres, slots, capacity, interrupt)
        try:
            with _shown(console, title, metres) as show:
                watch.warm_up(show)
                history = watch.watch(seconds, show)
        except Exception:  # not when aborted: Spark ends with this process then, and without a word
            spark.stop()
            raise
        writer.stop()
        spark.stop()
        _conclude(console, title, watch, history, picture)


def _given(cabs: Path | None, made_up: int | None) -> Path | None:
    """Return the file to replay, or None if cabs are to be made up."""
    if cabs is not None and made_up is not None:
        raise InvalidInput(value=f"--made-up {made_up}", reason="--cabs is given beside it", remedy="leave one of the two out")
    if made_up is not None:
        return None
    if cabs is not None:
        return cabs if cabs.exists() else data(str(cabs))
    try:
        return data(str(REAL))
    except InvalidInput:
        return None


@dataclass
class _Watch:
    """Runs the two queries until the time is up, all was read, somebody presses Ctrl-C, or one fails, and looks at them meanwhile.

    The results of the operator on keys are a folder, which the query over windows reads as a stream.
    """

    spark: Any
    traffic: Cabs
    writer: Writer
    folder: Path
    metres: int
    slots: int
    capacity: float
    interrupt: Interrupt
    began_us: int = 0

    def _speeds(self, folder: Path, trigger: str, slots: int) -> tuple[Any, Any]:
        """Start the operator on keys, and return the fleet and the run."""
        feed = fleet(folder / "feeds", schema=self.traffic.schema, interval=TRIGGER, splits=MAX_SPLITS, capacity_hz=self.capacity)
        speeds = stream(feed).keyed("stream").apply(Speeds(), tick=TICK)
        return feed, speeds.start(
            "parquet",
            path=folder / "speeds",
            checkpoint=folder / "checkpoints/speeds",
            late=folder / "late",
            trigger=trigger,
            slots=slots,
        )

    def _areas(self, folder: Path, trigger: str, slots: int) -> Any:
        """Start the query over windows; results of the operator come in order of time, so nothing is late."""
        reports = self.spark.readStream.schema(SPEEDS).parquet(str(folder / "speeds"))
        on_rides = reports.where("ride").selectExpr("*", f"{area(self.metres)} AS area").where("area IS NOT NULL")
        return (
            stream(on_rides)
            .window(WINDOW, slide=SLIDE, slack=FixedSlack("0 s"))
            .group_by("area")
            .agg(
                "count(*) AS reports",
                "avg(speed) AS mean_kmh",
                "max(speed) AS max_kmh",
                collect(QueueEnd(), QUEUE_INPUT, name="queue_end"),
            )
            .start(
                "parquet", path=folder / "areas", checkpoint=folder / "checkpoints/areas", trigger=trigger,
                splitting="KEYS", pane_slots=slots, window_slots=slots,
            )
        )  # fmt: skip

    def warm_up(self, show: Show) -> None:
        """Run both queries over the first moments of the cabs: while a fresh Spark does its first batches, live ones would wait.

        They are not cut short: a source of Spark's that is stopped while it starts complains loudly.
        """
        if self.interrupt.requested:
            return
        folder = self.folder / "warm-up"
        (folder / "feeds").mkdir(parents=True)
        for name, lines in self.traffic.due(0.0, WARM_UP_S, now_us()):
            (folder / "feeds" / f"{name}.jsonl").write_bytes(lines)
        for running in self._warm_ups(folder):
            while running.query.isActive:
                show(TrafficHistory(), ENDING if self.interrupt.requested else WARMING_UP)
                time.sleep(LOOK_EVERY_S)
            end(running, self.folder)
        shutil.rmtree(folder)

    def _warm_ups(self, folder: Path) -> Iterator[Any]:
        """Start one query after the other."""
        yield self._speeds(folder, "availableNow", 2)[1]
        yield self._areas(folder, "availableNow", 2)

    def watch(self, seconds: float, show: Show) -> TrafficHistory:
        """Return what was seen."""
        history, since_s = TrafficHistory(), 0.0
        if self.interrupt.requested:
            return history
        began_us = self.began_us = now_us()
        self.writer.begin(began_us)
        feed, speeds = self._speeds(self.folder, TRIGGER, 1)
        areas = self._areas(self.folder, TRIGGER, 1)
        controller, guard = Proportional(latency=LATENCY), Guard(scale_down_after=SHRINK_AFTER)
        scalers = [
            autoscale(query, controller, (least, least * self.slots), interval=DECIDE_EVERY, guard=guard)
            for query, least in ((speeds, 1), (areas, 2))
        ]
        results = ResultFolder(self.folder / "areas")

        def look() -> TrafficHistory:
            status = areas.status()
            windows = [self.traffic.in_real_time(row, began_us) for row in areas.windows()]
            at_s, reason = (now_us() - began_us) / 1e6, scalers[1].status().reason
            seen = TrafficLook(at_s, feed.status(), speeds.status(), status, areas.next_slots(), reason)
            return history.after(seen, windows, results.new(status.batch))

        while (
            speeds.query.isActive
            and areas.query.isActive
            and since_s < seconds
            and not (self.interrupt.requested and history.query.batches)
        ):
            progress = f"{since_s:.0f} of {min(seconds, self.traffic.seconds):.0f} s" if history.query.batches else WARMING_UP
            show(history, ENDING if self.interrupt.requested else progress)
            time.sleep(LOOK_EVERY_S)
            self.writer.check()
            history = look()
            since_s = (now_us() - history.query.out_us) / 1e6 if history.query.out_us else 0.0
            if self._is_over(history, (now_us() - began_us) / 1e6):
                break
        show(history, ENDING)
        for scaler in scalers:
            scaler.stop()
        end(speeds, self.folder)
        end(areas, self.folder)
        history = look()
        show(history, "done")
        return history

    def _is_over(self, history: TrafficHistory, at_s: float) -> bool:
        """Return whether all was written and read."""
        latest = history.latest
        if latest is None:
            return False
        before = [look.at_s for look in history.looks if look.areas.windows_out < latest.areas.windows_out]
        return at_s > max(self.traffic.seconds, max(before, default=inf)) + IDLE_S


@contextmanager
def _shown(console: Console, title: str, metres: int) -> Iterator[Show]:
    """Yield what shows a history: in place on a terminal, otherwise a line now and then."""
    if not console.is_interactive:
        yield _lines(console)
        return
    with Live(console=console, refresh_per_second=1 / LOOK_EVERY_S) as live:
        yield lambda history, progress: live.update(
            view(history, title=title, metres=metres, progress=progress, width=console.width - ECHO)
        )


def _lines(console: Console) -> Show:
    due_s, was_out = 0.0, False

    def show(history: TrafficHistory, progress: str) -> None:
        nonlocal due_s, was_out
        out = history.latest_areas is not None
        if time.monotonic() >= due_s or out > was_out:
            console.print(line(history, progress=progress))
            due_s, was_out = time.monotonic() + LINE_EVERY_S, out

    return show


def _conclude(console: Console, title: str, watch: _Watch, history: TrafficHistory, picture: Path) -> None:
    results, latest = watch.folder / "areas", history.latest
    city = City.read(results)
    if latest is None or city is None:
        console.print("It ended before the first window came out, so there is no picture.")
        return
    rows = [watch.traffic.in_real_time(row, watch.began_us) for row in read_windows(results / "_windows")]
    first_us, metres = watch.traffic.first_us or 0, watch.metres
    figure = draw(history, city, rows, name=title, metres=metres, first_us=first_us, speed=watch.traffic.speed)
    save_picture(figure, picture)
    looks, steady = history.looks, latency(rows, since_us=history.query.out_us or 0)
    times = f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else "not known"
    busiest = ", ".join(
        f"{north:.3f} N {-east:.3f} W" for north, east in (corner(area.number, metres) for area in city.last.busiest(1))
    )
    share = city.last.busiest(1)[0].reports / city.reports[-1]
    count = len(city.last.queue_ends)
    console.print(
        f"Cabs:     {latest.fleet.streams:,}, {latest.speeds.tuples:,} reports, {late(latest.speeds):.2%} late; {latest.areas.tuples:,} on a ride\n"
        f"Windows:  {len(rows):,} of {WINDOW} every {SLIDE}, with up to {city.areas.max():,} areas of {metres} m\n"
        f"Busiest:  {busiest}, with {share:.1%} of the reports of the last window\n"
        f"Queues:   {count:,} {plural(count, 'area')} with the end of a queue in the last window, up to {city.queue_ends.max():,} before\n"
        f"Tasks:    {_most('split', (look.fleet.splits for look in looks))}, {_most('slot', (look.speeds.slots for look in looks))} for speeds, "
        f"{_most('pane slot', (look.slots.panes for look in looks))}, {_most('window slot', (look.slots.windows for look in looks))}\n"
        f"Latency:  {times}\n"
        f"Results:  {results}, and a row per window in {results / '_windows'}; speeds of all reports in {watch.folder / 'speeds'}\n"
        f"Picture:  {picture}\n"
        f'In Spark: spark.read.parquet("{results}").show()'
    )


def _most(what: str, counts: Iterable[int]) -> str:
    """Return the range of some counts, as text."""
    seen = {max(count, 1) for count in counts}
    low, high = min(seen), max(seen)
    return f"{high} {plural(high, what)}" if low == high else f"{low} to {high} {what}s"
