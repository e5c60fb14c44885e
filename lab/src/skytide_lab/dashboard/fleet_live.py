"""The live view of a fleet: pure functions from what was seen to what a terminal shows."""

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from skytide.records import Status
from skytide.records.fleet import FleetStatus
from skytide_lab.dashboard.fleet_history import FleetHistory, FleetLook
from skytide_lab.dashboard.live import AROUND, MAX_WIDTH, NAME, NUMBER, UNIT, gauge, sparkline

SPLITS_SHOWN = 8
GAUGE = 12  # columns


def view(history: FleetHistory, *, title: str, progress: str, width: int = 80) -> RenderableType:
    """Return a view of how a fleet is doing: `title` says what it reads, `progress` how far it has come."""
    width = min(width, MAX_WIDTH)
    latest = history.latest
    if latest is None or latest.query.batch < 0:
        body: RenderableType = Text(
            "A fresh Spark starts its workers, and looks at the streams for the first time ...", style="yellow"
        )
    else:
        body = _numbers(history, latest, max(width - AROUND, 10))
    return Panel(
        Padding(body, (1, 1)),
        title=f"[bold]skytide[/]: {title}",
        subtitle=progress,
        width=width,
        box=box.ROUNDED,
        border_style="blue",
    )


def line(history: FleetHistory, *, progress: str) -> str:
    """Return the same in one line, for logs and pipes."""
    latest, window = history.latest, history.last_window
    if latest is None or latest.query.batch < 0:
        return progress
    fleet = latest.fleet
    latency = f"latency {window.latency_s:.2f} s" if window else "no window yet"
    return (
        f"{progress}: {fleet.streams:,} streams ({by_state(fleet)}), {latest.query.input_rate_hz:,.0f} tuples/s, "
        f"{fleet.expected_hz:,.0f} expected, "
        f"{fleet.splits:,} {plural(fleet.splits, 'split')} ({_loads(latest)}), {fleet.redirections:,} redirections, "
        f"{fleet.buffered:,} buffered, planning {fleet.planning_s * 1e3:,.0f} ms, {latest.query.windows_out:,} windows, {latency}, "
        f"{lost(fleet, latest.query)}"
    )


def _loads(look: FleetLook) -> str:
    """Return how full the splits are."""
    return ", ".join(f"{load.rate_hz / look.fleet.capacity_hz:.0%}" for load in look.splits[:SPLITS_SHOWN]) + (
        ", ..." if len(look.splits) > SPLITS_SHOWN else ""
    )


def by_state(fleet: FleetStatus) -> str:
    """Return how many streams deliver nothing.

    >>> by_state(FleetStatus(streams=9, silent=2, missing=1))
    '2 silent, 0 suspended, 1 missing'
    """
    return f"{fleet.silent:,} silent, {fleet.suspended:,} suspended, {fleet.missing:,} missing"


def lost(fleet: FleetStatus, query: Status) -> str:
    """Return what was lost, and why.

    >>> lost(FleetStatus(invalid=2, skipped={"vanished": 1}), Status(tuples=1_000, late=7))
    '0.70% late, 2 broken, 1 vanished'
    """
    skipped = "".join(f", {count:,} {reason}" for reason, count in sorted(fleet.skipped.items()))
    return f"{query.late / max(query.tuples, 1):.2%} late, {fleet.invalid:,} broken{skipped}"


def plural(count: int, word: str) -> str:
    """Return a word in the form that fits a count.

    >>> plural(1, "split"), plural(2, "split")
    ('split', 'splits')
    """
    return word if count == 1 else f"{word}s"


def _numbers(history: FleetHistory, latest: FleetLook, bars: int) -> RenderableType:
    fleet, query, looks = latest.fleet, latest.query, history.looks[-bars:]
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", width=NAME)
    table.add_column(style="bold", width=NUMBER, justify="right")
    table.add_column(width=UNIT)
    table.add_column(width=bars, no_wrap=True)

    def add(name: str, number: str, unit: str, shown: RenderableType, note: str = "") -> None:
        table.add_row(name, number, unit, shown)
        if note:
            table.add_row("", "", "", Text(note, style="dim", overflow="ellipsis"))

    def spark(values: Sequence[float], colour: str) -> Text:
        return Text(sparkline(values, bars), style=colour)

    add("streams", f"{fleet.streams:,}", "there", Text(by_state(fleet), style="dim"))
    rates = spark([batch.input_rate_hz for batch in history.query.batches], "cyan")
    add("input", f"{query.input_rate_hz:,.0f}", "tuples/s", rates, f"{query.tuples:,} tuples so far")
    add("expected", f"{fleet.expected_hz:,.0f}", "tuples/s", spark([look.fleet.expected_hz for look in looks], "blue"))
    capacity = Text(f"each can take {fleet.capacity_hz:,.0f} tuples/s", style="dim")
    add("splits", f"{fleet.splits:,}", "open", capacity)
    for load in latest.splits[:SPLITS_SHOWN]:
        share = load.rate_hz / fleet.capacity_hz if fleet.capacity_hz else 0.0
        row = Table.grid(padding=(0, 1))
        note = Text(f"{load.streams:,} {plural(load.streams, 'stream')}, {load.rate_hz:,.0f}/s", style="dim", overflow="ellipsis")
        row.add_row(gauge(share, GAUGE), note)
        table.add_row(f"  split {load.split}", f"{share:.0%}", "full", row)
    if (more := len(latest.splits) - SPLITS_SHOWN) > 0:
        table.add_row("", "", "", Text(f"and {more:,} more", style="dim"))
    add("redirected", f"{fleet.redirections:,}", "streams", spark(history.moves()[-bars:], "magenta"))
    add("buffered", f"{fleet.buffered:,}", "tuples", spark([look.fleet.buffered for look in looks], "yellow"))
    add("planning", f"{fleet.planning_s * 1e3:,.0f}", "ms", spark([look.fleet.planning_s for look in looks], "green"))
    windows = [window.latency_s for window in history.query.windows if window.window_end_us >= (history.query.out_us or 0)]
    steady = history.query.latency()
    average = f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else ""
    latency = f"{window.latency_s:.2f}" if (window := history.last_window) else "-"
    add("windows", f"{query.windows_out:,}", "out", "")
    add("latency", latency, "s", spark(windows, "green"), average)
    add("lost", "", "", Text(lost(fleet, query), style="dim", overflow="ellipsis"))
    return table
