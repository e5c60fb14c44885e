"""What is shown of a fleet of streams: pure functions of its snapshots."""

from skytide.watch.panel import (
    BAD,
    GOOD,
    QUIET,
    WARN,
    Bar,
    Bars,
    Chart,
    Panel,
    Series,
    Table,
    Tile,
    Verdict,
    count,
    load_level,
    share,
    span,
)
from skytide.watch.snapshots import FleetSnapshot
from skytide.watch.trail import Point, Trail

MUCH_BUFFERED_S = 5.0  # of work: more than that, and the fleet falls behind
SPLITS_SHOWN = 32

_RATES = Chart(
    "Input",
    "tuples/s",
    (Series("rate_hz", "comes in"), Series("expected_hz", "expected"), Series("capacity_hz", "capacity of open splits")),
)
_SPLITS = Chart("Splits", "", (Series("splits", "open"),), "step")
_BUFFERED = Chart("Buffered", "tuples", (Series("buffered", "not let in yet"),))
_MOVED = Chart("Redirections", "streams", (Series("moved", "moved to another split"),), "step")
_STREAMS = Chart(
    "Streams",
    "",
    (Series("streams", "there"), Series("silent", "silent"), Series("suspended", "suspended"), Series("missing", "missing")),
    "step",
)
_PLANNING = Chart("Planning", "s", (Series("planning_s", "discover, assign and log"),))


def point(before: FleetSnapshot | None, now: FleetSnapshot) -> Point | None:
    """Return what the charts get from a snapshot; None if the fleet has not looked since the one before."""
    status = now.status
    if not status.streams + status.missing or (before and before.status == status):
        return None
    moved = status.redirections - (before.status.redirections if before else 0)
    values = {
        "rate_hz": status.rate_hz,
        "expected_hz": status.expected_hz,
        "capacity_hz": status.capacity_hz * status.splits,
        "splits": status.splits,
        "buffered": status.buffered,
        "moved": moved,
        "streams": status.streams,
        "silent": status.silent,
        "suspended": status.suspended,
        "missing": status.missing,
        "planning_s": status.planning_s,
    }
    return {"t": round(now.at_s, 3)} | {name: float(f"{value:.5g}") for name, value in values.items()}


def idle_point(now: FleetSnapshot, latest: Point | None) -> Point | None:
    """Return nothing: a fleet that is read looks at its streams with every batch."""
    return None


def panel(now: FleetSnapshot, trail: Trail) -> Panel:
    """Return what a page shows."""
    away = [stream for stream in now.streams if stream.suspended or stream.missing]
    fastest = [stream for stream in now.streams if not (stream.suspended or stream.missing)]
    rows = tuple(
        (stream.name, str(stream.split), f"{count(stream.rate_hz)}/s", f"{count(stream.expected_hz)}/s", count(stream.buffered))
        for stream in fastest
    )
    kept = tuple((stream.name, "suspended" if stream.suspended else "missing", count(stream.buffered)) for stream in away)
    unknown = tuple((name, "unknown: no stream has this name", "") for name in now.status.unknown)
    return Panel(
        verdict=verdict(now),
        tiles=_tiles(now),
        charts=(_RATES, _SPLITS, _BUFFERED, _MOVED, _STREAMS, _PLANNING),
        tables=(
            Table("Streams by rate", ("Stream", "Split", "Rate", "Expected", "Buffered"), rows, "No stream yet."),
            Table("Suspended and missing", ("Stream", "Is", "Buffered"), kept + unknown, "None: all streams are read."),
        ),
        bars=_loads(now),
        over=now.over,
    )


def verdict(now: FleetSnapshot) -> Verdict:
    """Return the verdict: is all that comes in let in?"""
    status = now.status
    if now.over:
        return Verdict(QUIET, "Ended", "its query has; what is shown is its last state")
    if not status.streams + status.missing:
        return Verdict(QUIET, "Waiting", "no query has looked at the streams yet")
    takes_hz = status.capacity_hz * status.splits
    behind_s = status.buffered / takes_hz if takes_hz else 0.0
    if behind_s > MUCH_BUFFERED_S:
        return Verdict(BAD, "Falls behind", f"{count(status.buffered)} tuples wait, which is {span(behind_s)} of work")
    if what := lost(now):
        return Verdict(WARN, "Keeps up, with losses", what)
    return Verdict(GOOD, "Keeps up", f"{count(status.streams)} streams in {count(status.splits)} split{'s' * (status.splits != 1)}")


def lost(now: FleetSnapshot) -> str:
    """Return what is missing or was lost, as text."""
    status = now.status
    parts = [f"{count(status.missing)} {'stream is' if status.missing == 1 else 'streams are'} missing"] if status.missing else []
    parts += [f"{count(status.unreadable)} stream{'s' * (status.unreadable != 1)} cannot be read now"] if status.unreadable else []
    parts += (
        [f"{count(status.forgotten)} {'stream was' if status.forgotten == 1 else 'streams were'} forgotten"]
        if status.forgotten
        else []
    )
    parts += [f"{count(status.invalid)} records could not be read"] if status.invalid else []
    parts += [f"{count(number)} {reason}" for reason, number in sorted(status.skipped.items())]
    return ", ".join(parts)


def _tiles(now: FleetSnapshot) -> tuple[Tile, ...]:
    status = now.status
    takes_hz = status.capacity_hz * status.splits
    load = status.rate_hz / takes_hz if takes_hz else 0.0
    behind = f", which is {span(status.waits_s)} behind" if status.waits_s else ""
    waits = [Tile("Windows", "wait", f"for {status.waits_for}{behind}")] if status.waits_for else []
    behind_s = status.buffered / takes_hz if takes_hz else 0.0
    return (
        Tile("Streams", count(status.streams), f"{count(status.silent)} silent, {count(status.suspended)} suspended, {count(status.missing)} missing", WARN if status.missing else ""),
        Tile("Splits", count(status.splits), f"each takes {count(status.capacity_hz)}/s"),
        Tile("Load", share(load), "of the open splits", load_level(load), min(load, 1.0)),
        Tile("Input", f"{count(status.rate_hz)}/s", f"{count(status.tuples)} so far"),
        Tile("Expected", f"{count(status.expected_hz)}/s", "by forecasts and declarations"),
        Tile("Buffered", count(status.buffered), f"{span(behind_s)} of work", WARN if behind_s > MUCH_BUFFERED_S else ""),
        Tile("Redirections", count(status.redirections), "streams that changed their split"),
        Tile("Lost", count(status.invalid + sum(status.skipped.values())), lost(now) or "nothing", WARN if status.invalid or status.skipped else ""),
        *waits,
    )  # fmt: skip


def _loads(now: FleetSnapshot) -> Bars:
    capacity_hz = now.status.capacity_hz or 1.0
    bars = [
        Bar(f"split {split.split}", f"{count(split.rate_hz)}/s of {len(split.streams):,} streams", min(load, 1.0), load_level(load))
        for split in now.splits[:SPLITS_SHOWN]
        for load in (split.rate_hz / capacity_hz,)
    ]
    return Bars("Load of splits", tuple(bars))
