"""The live view of a city's traffic: pure functions from what was seen to what a terminal shows."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from skytide.records import Status
from skytide_lab.dashboard.fleet_live import plural
from skytide_lab.dashboard.live import AROUND, MAX_WIDTH, NAME, NUMBER, UNIT, gauge, sparkline
from skytide_lab.dashboard.traffic_history import Areas, TrafficHistory, TrafficLook
from skytide_lab.traffic import corner

AREAS_SHOWN = 8
PLACE, REPORTS, MEAN, MAX = 19, 8, 10, 10  # columns
SLOW_KMH, FAST_KMH = 15.0, 40.0


def view(history: TrafficHistory, *, title: str, metres: int, progress: str, width: int = 80) -> RenderableType:
    """Return a view of the traffic: `title` says who reports, `metres` how wide an area is, `progress` how far it has come."""
    width = min(width, MAX_WIDTH)
    latest = history.latest
    if latest is None or latest.speeds.batch < 0:
        body: RenderableType = Text(
            "A fresh Spark starts its workers, and looks at the cabs for the first time ...", style="yellow"
        )
    else:
        reason = Text(latest.reason, style="dim italic", no_wrap=True, overflow="ellipsis")
        body = Group(_numbers(history, latest, max(width - AROUND, 10)), reason, Text(), _areas(history.latest_areas, metres))
    return Panel(
        Padding(body, (1, 1)),
        title=f"[bold]skytide[/]: {title}",
        subtitle=progress,
        width=width,
        box=box.ROUNDED,
        border_style="blue",
    )


def line(history: TrafficHistory, *, progress: str) -> str:
    """Return the same in one line, for logs and pipes."""
    latest = history.latest
    if latest is None or latest.speeds.batch < 0:
        return progress
    fleet, windows = latest.fleet, history.query.windows
    latency = f"latency {windows[-1].latency_s:.2f} s" if windows else "no window yet"
    areas = history.latest_areas
    city = f"{clock(areas.end_us)}: {len(areas.areas):,} areas, {_queues(areas)}, " if areas else ""
    return (
        f"{progress}: {city}{fleet.streams:,} cabs, {latest.speeds.input_rate_hz:,.0f} reports/s, {fleet.expected_hz:,.0f} expected, "
        f"{fleet.splits:,} {plural(fleet.splits, 'split')}, slots {slots(latest)}, {latest.areas.windows_out:,} windows, {latency}, "
        f"{late(latest.speeds):.2%} late"
    )


def clock(at_us: int) -> str:
    """Return a time of the cabs as text.

    >>> clock(1_211_270_400_000_000)
    '08:00'
    """
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%H:%M}"


def slots(look: TrafficLook) -> str:
    """Return the slots of the three levels."""
    return f"{max(look.speeds.slots, 1)}+{look.slots.panes}+{look.slots.windows}"


def late(status: Status) -> float:
    """Return the share of the tuples that came too late."""
    return status.late / max(status.tuples, 1)


def _queues(areas: Areas) -> str:
    count = len(areas.queue_ends)
    return f"{count:,} {plural(count, 'queue')} {'ends' if count == 1 else 'end'}"


def _numbers(history: TrafficHistory, latest: TrafficLook, bars: int) -> RenderableType:
    fleet, looks = latest.fleet, history.looks[-bars:]
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", width=NAME)
    table.add_column(style="bold", width=NUMBER, justify="right")
    table.add_column(width=UNIT)
    table.add_column(width=bars, no_wrap=True)

    def spark(values: Sequence[float], colour: str) -> Text:
        return Text(sparkline(values, bars), style=colour)

    def note(text: str) -> None:
        table.add_row("", "", "", Text(text, style="dim", overflow="ellipsis"))

    table.add_row("cabs", f"{fleet.streams:,}", "there", Text(f"{fleet.silent:,} silent", style="dim"))
    rates = spark([look.speeds.input_rate_hz for look in looks], "cyan")
    table.add_row("input", f"{latest.speeds.input_rate_hz:,.0f}", "rows/s", rates)
    note(f"{latest.speeds.tuples:,} reports, of which {latest.areas.tuples:,} on a ride")
    table.add_row("expected", f"{fleet.expected_hz:,.0f}", "rows/s", spark([look.fleet.expected_hz for look in looks], "blue"))
    table.add_row("splits", f"{fleet.splits:,}", "read", spark([look.fleet.splits for look in looks], "magenta"))
    keys = spark([max(look.speeds.slots, 1) for look in looks], "magenta")
    table.add_row("slots", f"{max(latest.speeds.slots, 1):,}", "speeds", keys)
    panes = spark([look.slots.panes for look in looks], "magenta")
    table.add_row("", f"{latest.slots.panes:,}", "panes", panes)
    table.add_row("", f"{latest.slots.windows:,}", "windows", spark([look.slots.windows for look in looks], "magenta"))
    shares = (("speeds", latest.speeds.trigger_share), ("areas", latest.areas.trigger_share))
    for number, (name, share) in enumerate(shares):
        table.add_row("" if number else "triggers", f"{share:.0%}", name, gauge(share, bars))
    windows = [window.latency_s for window in history.query.windows if window.window_end_us >= (history.query.out_us or 0)]
    last = f"{history.query.windows[-1].latency_s:.2f}" if history.query.windows else "-"
    table.add_row("latency", last, "s", spark(windows, "green"))
    steady = history.query.latency()
    note(f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else "catching up with what came before")
    table.add_row(
        "windows",
        f"{latest.areas.windows_out:,}",
        "out",
        Text(f"{late(latest.speeds):.2%} of the reports came too late", style="dim"),
    )
    return table


def _areas(areas: Areas | None, metres: int) -> RenderableType:
    """Return the busiest areas of the latest window."""
    if areas is None:
        return Text("no window has come out yet", style="dim")
    table = Table(box=None, padding=(0, 1), header_style="dim")
    title = f"{clock(areas.end_us)} UTC, {len(areas.areas):,} areas"
    for name, width in ((title, PLACE), ("reports", REPORTS), ("mean km/h", MEAN), ("max km/h", MAX)):
        table.add_column(name, width=max(width, len(name)), justify="left" if name == title else "right")
    table.add_column(_queues(areas))
    for area in areas.busiest(AREAS_SHOWN):
        north, east = corner(area.number, metres)
        colour = "red" if area.mean_kmh < SLOW_KMH else "green" if area.mean_kmh >= FAST_KMH else "yellow"
        table.add_row(
            f"{north:.3f} N {-east:.3f} W",
            f"{area.reports:,}",
            Text(f"{area.mean_kmh:.1f}", style=colour),
            f"{area.max_kmh:.0f}",
            Text("◀ a queue ends" if area.queue_end else "", style="bold red"),
        )
    return table
