"""What is shown of an auto-scaler: pure functions of its snapshots."""

import time

from skytide.loop.cycle import Cycle
from skytide.watch.panel import (
    BAD,
    GOOD,
    QUIET,
    WARN,
    Bar,
    Bars,
    Chart,
    Mark,
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
from skytide.watch.snapshots import ScalerSnapshot
from skytide.watch.trail import Point, Trail

SHOWN = 15  # decisions and events
MARKED = 200  # changes

_LOAD = Chart(
    "Load and capacity",
    "tuples/s",
    (
        Series("arrival_hz", "comes in"),
        Series("capacity_hz", "capacity"),
        Series("expected_hz", "forecast"),
        Series("low_hz", "at least"),
        Series("high_hz", "at most"),
    ),
    note="tuples/s; a mark is a change",
    band=("low_hz", "high_hz"),
    marked=True,
    wide=True,
)
_WORKERS = Chart(
    "Workers",
    "",
    (Series("workers", "at work"), Series("wanted", "wanted"), Series("decided", "without the guard")),
    "step",
    marked=True,
)
_USED = Chart("Utilisation", "%", (Series("load", "of all workers"),), limit=100, top=300)
_BACKLOG = Chart("Backlog", "tuples", (Series("backlog", "wait"),))
_LATENCY = Chart("Latency of a tuple", "s", (Series("latency_s", "on average"),))


def point(before: ScalerSnapshot | None, now: ScalerSnapshot) -> Point | None:
    """Return what the charts get from a snapshot; None if there was no cycle since the one before."""
    latest = now.cycles[-1] if now.cycles else None
    if latest is None or latest.evaluation is None or (before and before.cycles and before.cycles[-1].at_s == latest.at_s):
        return None
    seen, expected = latest.evaluation.seen, latest.decided.expected
    values = {
        "arrival_hz": seen.arrival_rate_hz,
        "capacity_hz": seen.arrival_rate_hz / seen.utilisation if seen.utilisation > 0 else None,
        "expected_hz": expected.mean_hz if expected else seen.expected_rate_hz,
        "high_hz": expected.high_hz if expected else None,
        "low_hz": expected.low_hz if expected else None,
        "workers": seen.allocation.workers,
        "wanted": latest.limited.allocation.workers,
        "decided": latest.decided.allocation.workers,
        "load": 100 * seen.utilisation,
        "backlog": seen.backlog,
        "latency_s": seen.latency_s,
    }
    return {"t": round(latest.at_s, 3)} | {name: None if value is None else float(f"{value:.5g}") for name, value in values.items()}


def idle_point(now: ScalerSnapshot, latest: Point | None) -> Point | None:
    """Return nothing: cycles come whether or not tuples do."""
    return None


def panel(now: ScalerSnapshot, trail: Trail) -> Panel:
    """Return what a page shows."""
    seen = now.status.seen
    changes = [cycle for cycle in now.cycles if cycle.outcome.changed or cycle.outcome.kind == "recommended"]
    return Panel(
        verdict=verdict(now),
        tiles=_tiles(now),
        charts=(_LOAD, _WORKERS, _USED, _BACKLOG, *([_LATENCY] if trail.values("latency_s") else [])),
        tables=(_decisions(changes, now), _events(now)),
        bars=Bars("Load of workers", tuple(Bar(name, share(load), min(load, 1.0), load_level(load)) for name, load in seen.loads))
        if seen and seen.loads
        else None,
        marks=tuple(Mark(cycle.at_s, cycle.limited.reason, WARN if cycle.is_limited else "") for cycle in changes[-MARKED:]),
        actions=("resume",) if now.status.paused else ("pause",),
        over=not now.status.running,
    )


def verdict(now: ScalerSnapshot) -> Verdict:
    """Return the verdict: does it do its work, and why did it decide as it did?"""
    status = now.status
    if not status.running:
        return Verdict(QUIET, "Ended", status.failure or "what is shown is its last state")
    if status.failure:
        return Verdict(BAD, "Fails", status.failure)
    if status.paused:
        return Verdict(WARN, "Paused", "it keeps watching, but changes nothing until it is resumed")
    if status.seen is None:
        return Verdict(QUIET, "Watching", f"the first decision comes within {span(now.about.interval_s)}")
    if not status.acts:
        return Verdict(GOOD, f"Recommends {status.wanted}", status.reason)
    if status.wanted != status.workers:
        return Verdict(GOOD, f"From {status.workers} to {status.wanted}", status.reason)
    if status.seen.utilisation > 1 and status.workers >= now.about.maximum:
        return Verdict(BAD, "At its limit", f"all {status.workers} are in use, and that is not enough: {status.reason}")
    return Verdict(GOOD, "In balance", status.reason)


def _tiles(now: ScalerSnapshot) -> tuple[Tile, ...]:
    status, seen = now.status, now.status.seen
    latest = now.cycles[-1] if now.cycles else None
    expected = latest.decided.expected if latest else None
    tiles = [Tile("Workers", str(status.workers), f"{status.wanted} wanted; {now.about.limits}")]
    if seen:
        tiles += [
            Tile("Utilisation", share(seen.utilisation), f"over {span(seen.interval_s)}", load_level(seen.utilisation), min(seen.utilisation, 1)),
            Tile("Input", f"{count(seen.arrival_rate_hz)}/s", f"{count(seen.processed_rate_hz)}/s done"),
            Tile("Backlog", count(seen.backlog), "tuples wait"),
        ]  # fmt: skip
    if expected:
        between = f"{count(expected.low_hz)} to {count(expected.high_hz)}, in {span(expected.ahead_s)}"
        tiles.append(Tile("Forecast", f"{count(expected.mean_hz)}/s", between))
    elif seen and seen.expected_rate_hz is not None:
        tiles.append(Tile("Forecast", f"{count(seen.expected_rate_hz)}/s", "as the source expects"))
    tiles.append(Tile("Lead time", span(status.lead_s), "from asking for a worker to its first work"))
    if seen and seen.latency_s is not None:
        tiles.append(Tile("Latency", span(seen.latency_s), "of a tuple, on average"))
    tiles.append(
        Tile(
            "Guard",
            count(status.limited),
            f"changes of what was wanted; {count(status.changes)} changes in {count(status.cycles)} cycles",
        )
    )
    return tuple(tiles)


def _decisions(changes: list[Cycle], now: ScalerSnapshot) -> Table:
    rows = []
    for cycle in reversed(changes[-SHOWN:]):
        before = cycle.evaluation.seen.allocation.workers if cycle.evaluation else 0
        wanted, got = cycle.decided.allocation.workers, cycle.limited.allocation.workers
        rows.append((_clock(cycle.at_s), str(before), str(wanted), str(got), cycle.limited.reason))
    empty = f"Nothing has been changed so far: {now.status.reason}."
    return Table("Changes", ("Time", "From", "Controller", "After guard", "Why"), tuple(rows), empty)


def _events(now: ScalerSnapshot) -> Table:
    rows = tuple((_clock(event.at_s), event.text) for event in reversed(now.events[-SHOWN:]))
    return Table("Events", ("Time", "What happened"), rows)


def _clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at_s))
