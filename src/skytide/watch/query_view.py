"""What is shown of a continuous query: pure functions of its snapshots."""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from skytide.records import Status, Step, WindowRow
from skytide.records.printing import LIVE_S, moment
from skytide.watch.panel import (
    BAD,
    GOOD,
    MINUTE_S,
    QUIET,
    WARN,
    Bar,
    Bars,
    Chart,
    Panel,
    Scatter,
    Series,
    Table,
    Tile,
    Verdict,
    count,
    load_level,
    share,
    span,
)
from skytide.watch.snapshots import OVER, Points, QuerySnapshot
from skytide.watch.trail import Point, Trail

RECENT_S = 15.0  # what counts as now, in verdicts
QUIET_S = 2.0  # without a batch for this long, nothing comes in
MUCH_LATE = 0.01  # of the tuples of a minute
UNEVEN = 2.0  # times the mean load: a slot above it stands out
WINDOWS_SHOWN = 12
FIELDS = {
    Step.PANE_LEVEL: "panes_s",
    Step.WINDOW_LEVEL: "windows_s",
    Step.KEY_LEVEL: "keys_s",
    Step.SINK: "sink_s",
    Step.COMMIT: "commit_s",
}

_LOAD = Chart(
    "Does it keep up?",
    "%",
    (Series("load", "batch"), Series("pane_load", "pane slots")),
    limit=100,
    top=300,
    note="time of a batch over its interval",
)
_BACKLOG = Chart("Backlog", "s", (Series("backlog_s", "behind the clock"),), note="how far the newest tuple is behind the clock")
_INPUT = Chart("Input", "tuples/s", (Series("input_hz", "came in"),))
_LATENCY = Chart(
    "Latency of windows",
    "s",
    (Series("slack_s", "slack"), Series("work_s", "trigger and work")),
    "stack",
    note="from the end of a window to its result",
)
_LATE = Chart("Late and invalid", "tuples/s", (Series("late_hz", "late"), Series("invalid_hz", "invalid")))
_RESULTS = Chart("Size of results", "rows", (Series("kept", "rows of a window"),))
_SLOTS = Chart(
    "Slots",
    "",
    (Series("pane_slots", "pane slots"), Series("window_slots", "window slots"), Series("splitting", "splitting factor")),
    "step",
)
_STEPS = Chart(
    "Where the time of a batch goes",
    "s",
    (*(Series(field, name) for name, field in FIELDS.items() if name != Step.KEY_LEVEL),),
    "stack",
)
_KEY_STEPS = Chart(
    "Where the time of a batch goes",
    "s",
    (*(Series(field, name) for name, field in FIELDS.items() if name != Step.WINDOW_LEVEL),),
    "stack",
)
_KEYS = Chart("Slots of keys", "", (Series("slots", "slots"), Series("imbalance", "most loaded over mean")), "step")
_MOVED = Chart("Moved groups of keys", "groups", (Series("moved", "moved"), Series("own", "groups of one key")), "step")


def point(before: QuerySnapshot | None, now: QuerySnapshot) -> Point | None:
    """Return what the charts get from a snapshot; None if there is nothing new."""
    status = now.status
    if status.batch < 0 or now.state == "starting":
        return None
    if before is not None and before.status.batch == status.batch and before.status.tuples == status.tuples:
        return None
    earlier = before.status if before else Status()
    batches = max(status.batch - max(earlier.batch, -1), 1) if before else 1
    since_s = max(now.at_s - before.at_s, 1e-3) if before else None
    last = _new_window(before, now)
    live = is_live(status)
    slack_s = status.slack_us / 1e6
    values: dict[str, float | None] = {
        "t": now.at_s,
        "input_hz": status.input_rate_hz,
        "load": 100 * status.trigger_share if now.trigger_s else None,
        "pane_load": None if status.pane_utilisation is None else 100 * status.pane_utilisation,
        "backlog_s": status.backlog_s if live else None,
        "slack_s": min(slack_s, last.latency_s) if live and last else None,
        "work_s": max(last.latency_s - slack_s, 0.0) if live and last else None,
        "late_hz": None if since_s is None else (status.late - earlier.late) / since_s,
        "invalid_hz": None if since_s is None else (status.invalid - earlier.invalid) / since_s,
        "kept": None if last is None else last.kept,
        "pane_slots": status.pane_slots,
        "window_slots": status.window_slots,
        "splitting": status.splitting_factor,
        **{field: _step_s(before, now, name) / batches for name, field in FIELDS.items()},
    }
    if status.slots:
        values |= {"slots": status.slots, "imbalance": status.imbalance, "moved": status.moved_groups, "own": status.own_groups}
    return {
        name: None if value is None else round(value, 3) if name == "t" else float(f"{value:.4g}") for name, value in values.items()
    }


def idle_point(now: QuerySnapshot, latest: Point | None) -> Point | None:
    """Return a point for a time in which nothing comes, so that charts go on."""
    if now.state != "idle" or latest is None or now.at_s - (latest["t"] or 0) < QUIET_S:
        return None
    return {"t": now.at_s, "input_hz": 0.0, "load": 0.0, "late_hz": 0.0, "invalid_hz": 0.0}


def panel(now: QuerySnapshot, trail: Trail) -> Panel:
    """Return what a page shows."""
    keyed = now.status.slots > 0
    live = is_live(now.status)
    of_time, of_slots = ([_BACKLOG, _LATENCY] if live else []), [_KEYS, _MOVED] if keyed else [_SLOTS]
    charts = [_LOAD, _INPUT, *of_time, _LATE, _RESULTS, *of_slots, _KEY_STEPS if keyed else _STEPS]
    return Panel(
        verdict=verdict(now, trail),
        tiles=_tiles(now, trail),
        charts=tuple(charts),
        tables=(_windows(now.windows, live),),
        scatter=_scatter(now.points) if now.points else None,
        bars=_slots(now.status) if keyed else None,
        over=now.state in OVER,
    )


def verdict(now: QuerySnapshot, trail: Trail) -> Verdict:
    """Return the answer to what people ask first: does it keep up?"""
    if now.state == "failed":
        return Verdict(BAD, "Failed", now.why)
    if now.state == "stopped":
        return Verdict(QUIET, "Ended", now.why or "what is shown is its last state")
    if now.status.batch < 0:
        return Verdict(QUIET, "Starting", "the first batch has not ended yet")
    if now.state == "stopping":
        return Verdict(QUIET, "Stopping", now.why)
    if now.trigger_s is None:
        return Verdict(GOOD, "Works through what is there", "all that had come before it started")
    loads = trail.values("load", now.at_s - RECENT_S)
    load = median(loads) / 100 if loads else now.status.trigger_share
    takes = f"a batch takes {share(load)} of its interval of {span(now.trigger_s)}"
    if now.state == "idle" and not any(trail.values("input_hz", now.at_s - RECENT_S)):
        return Verdict(GOOD, "Keeps up", "nothing comes at the moment")
    level = load_level(load)
    text = {GOOD: "Keeps up", WARN: "Hardly keeps up", BAD: "Falls behind"}[level]
    return Verdict(level, text, takes)


def is_live(status: Status) -> bool:
    """Return whether event time is the time of day, so that latencies mean something."""
    return status.backlog_s is not None and status.backlog_s < LIVE_S


def latencies_s(windows: Sequence[WindowRow]) -> tuple[float, float] | None:
    """Return the mean and the 99th percentile of latencies; None if no window has tuples."""
    seconds = [row.latency_s for row in windows if row.tuples]
    return (float(np.mean(seconds)), float(np.quantile(seconds, 0.99))) if seconds else None


def _tiles(now: QuerySnapshot, trail: Trail) -> tuple[Tile, ...]:
    status, live = now.status, is_live(now.status)
    last, minute_s = status.last_window, now.at_s - MINUTE_S
    rates = trail.values("input_hz", minute_s)
    latency_s = latencies_s([row for row in now.windows if row.window_end_us / 1e6 > minute_s])
    late = share(status.late / max(status.tuples, 1))
    late_hz, came_hz = _mean(trail.values("late_hz", minute_s)), _mean(rates)
    much = late_hz > MUCH_LATE * max(came_hz, 1e-9)
    load = status.trigger_share if now.state != "idle" else 0.0
    tiles = [
        Tile("Batch time", share(load), f"of each {span(now.trigger_s)}", load_level(load), min(load, 1.0))
        if now.trigger_s
        else Tile("Batches", count(status.batch + 1), "the trigger has no interval"),
        Tile("Backlog", span(status.backlog_s or 0.0), "behind the clock") if live else Tile("Backlog", "–", "event times are not the time of day"),
        Tile("Input", f"{count(0.0 if now.state == 'idle' else status.input_rate_hz)}/s", f"up to {count(max(rates, default=0.0))}/s in a minute; {count(status.tuples)} so far"),
        Tile("Latency", span(last.latency_s), f"mean {span(latency_s[0])}, p99 {span(latency_s[1])}; slack {span(status.slack_us / 1e6)}")
        if live and last and latency_s
        else Tile("Latency", "–", f"slack {span(status.slack_us / 1e6)}"),
        Tile("Late", late, f"{count(status.late)} dropped, {count(late_hz)}/s in the last minute", WARN if much else ""),
        Tile("Invalid", count(status.invalid), f"and {count(status.held)} held: their time is not believed yet", WARN if status.invalid else ""),
        Tile("Windows", count(status.windows_out), f"the latest has {count(last.kept)} rows of {count(last.tuples)} tuples" if last else "none yet"),
    ]  # fmt: skip
    if status.slots:
        of_keys = f"the most loaded has {status.imbalance:.2f} times the mean; {count(status.moved_groups)} groups moved"
        tiles.append(Tile("Slots of keys", count(status.slots), of_keys, WARN if status.imbalance > UNEVEN else ""))
    else:
        tiles.append(
            Tile(
                "Slots",
                f"{status.pane_slots} + {status.window_slots}",
                f"panes + windows; a pane is split {status.splitting_factor:.1f} times",
            )
        )
    return tuple(tiles)


def _scatter(points: Points) -> Scatter:
    undrawn = f", and {points.undrawn:,} without two finite values" if points.undrawn else ""
    return Scatter(f"The latest window: {len(points.rows):,} rows{undrawn}", points.columns, points.rows)


def _slots(status: Status) -> Bars:
    """Return how much came to each slot of an operator on keys, relative to the most loaded one."""
    most, mean = max(status.slot_tuples, default=0), sum(status.slot_tuples) / max(len(status.slot_tuples), 1)
    bars = [
        Bar(
            f"slot {slot}",
            f"{count(tuples)} tuples",
            tuples / most if most else 0.0,
            WARN if mean and tuples > UNEVEN * mean else GOOD,
        )
        for slot, tuples in enumerate(status.slot_tuples)
    ]
    return Bars("Load of slots, latest batch", tuple(bars))


def _windows(rows: Sequence[WindowRow], live: bool) -> Table:
    shown = [
        (_clock(row.window_start_us), _clock(row.window_end_us), count(row.tuples), count(row.kept), count(row.late), span(row.latency_s) if live else "–")
        for row in reversed(rows[-WINDOWS_SHOWN:])
    ]  # fmt: skip
    columns = ("From", "To", "Tuples", "Rows", "Late", "Latency")
    return Table("Latest windows", columns, tuple(shown), "No window has come out yet.")


def _new_window(before: QuerySnapshot | None, now: QuerySnapshot) -> WindowRow | None:
    """Return the slowest of the windows that came out since the snapshot before."""
    before_us = before.windows[-1].window_end_us if before and before.windows else -1
    new = [row for row in now.windows if row.window_end_us > before_us]
    return max(new, key=lambda row: row.latency_s, default=None)


def _step_s(before: QuerySnapshot | None, now: QuerySnapshot, step: str) -> float:
    earlier: Mapping[str, float] = before.seconds if before else {}
    return max(now.seconds.get(step, 0.0) - earlier.get(step, 0.0), 0.0)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _clock(time_us: int) -> str:
    whole_s, rest_us = divmod(time_us, 1_000_000)
    return f"{moment(whole_s * 1_000_000).split(' ')[1]}.{rest_us // 10_000:02}"
