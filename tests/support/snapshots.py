"""Views of a query that the test plays batch by batch, as an engine would."""

from dataclasses import replace

from skytide.loop.cycle import Cycle
from skytide.records import (
    Allocation,
    Decision,
    Evaluation,
    Expected,
    Observation,
    Outcome,
    ScalerStatus,
    ScalingEvent,
    Status,
    WindowRow,
)
from skytide.records.fleet import FleetStatus, SplitStatus
from skytide.watch.snapshots import FleetSnapshot, Points, QuerySnapshot, ScalerAbout, ScalerSnapshot, StreamRow, Subject

NOW_S = 1_790_000_000.0
STEPS = {"pane level": 0.1, "window level": 0.05, "sink": 0.02, "commit": 0.03}


class TalkingQuery:
    """A query that does what the test lets it do."""

    def __init__(self, name: str = "prices", trigger_s: float | None = 0.5) -> None:
        self.name, self.fails = name, False
        self.latest = QuerySnapshot(NOW_S, Status(), trigger_s=trigger_s, state="starting")

    def subject(self) -> Subject:
        return Subject(
            f"id of {self.name}", "query", self.name, "Skyline(low('x0') * low('x1')) over windows of 1 s", self.snapshot
        )

    def snapshot(self) -> QuerySnapshot:
        if self.fails:
            raise ConnectionError("gone")
        return self.latest

    def batch(
        self, *, tuples: int = 1_000, late: int = 0, invalid: int = 0, trigger_share: float = 0.4, latency_s: float = 1.5
    ) -> None:
        """Do one more batch, half a second after the one before, with one window."""
        status = self.latest.status
        number, at_s = status.batch + 1, self.latest.at_s + 0.5
        start_us = round((at_s - 1) * 1e6)
        window = WindowRow(start_us, start_us + 1_000_000, tuples, kept=10 + number, late=late, latency_s=latency_s)
        after = replace(
            status,
            batch=number,
            input_rate_hz=2.0 * tuples,
            trigger_share=trigger_share,
            pane_utilisation=0.2,
            backlog_s=0.3,
            slack_us=400_000,
            tuples=status.tuples + tuples,
            late=status.late + late,
            invalid=status.invalid + invalid,
            windows_out=status.windows_out + 1,
            last_window=window,
            pane_slots=2,
        )
        seconds = {step: took_s * (number + 1) for step, took_s in STEPS.items()}
        points = Points(("x0", "x1"), ((0.1, 0.9), (0.5, 0.5), (0.9, 0.1)))
        windows = (*self.latest.windows, window)[-1_000:]
        self.latest = replace(
            self.latest, at_s=at_s, status=after, windows=windows, seconds=seconds, state="running", points=points
        )

    def set_state(self, state: str, why: str = "", after_s: float = 0.5) -> None:
        self.latest = replace(self.latest, at_s=self.latest.at_s + after_s, state=state, why=why)


class TalkingScaler:
    """An auto-scaler whose cycles the test does."""

    about = ScalerAbout("Mpc()", "1 to 8 executors", 8, 10.0)

    def __init__(self, name: str = "prices") -> None:
        self.name = name
        self.latest = ScalerSnapshot(NOW_S, self.about, ScalerStatus(True, False, True, 2, 2, "no decision yet", 6.0, None))

    def subject(self) -> Subject:
        actions = {"pause": lambda: self._set_paused(True), "resume": lambda: self._set_paused(False)}
        return Subject(
            f"scaler of {self.name}", "scaler", self.name, "Mpc() every 10 s: 1 to 8 executors", lambda: self.latest, actions
        )

    def cycle(self, *, rate_hz: float, wanted: int, limited: int, utilisation: float, reason: str) -> None:
        """Observe a rate, want some workers, and get what the guard allows."""
        at_s, before = self.latest.at_s + 10, self.latest.status
        present = Allocation(before.wanted)
        seen = Observation(
            at_s, 10, present, rate_hz, rate_hz, utilisation, loads=(("1", 0.5), ("2", 0.9)), backlog=120.0, latency_s=0.8
        )
        evaluation = Evaluation(seen, rate_hz, 1e-4, utilisation, lead_s=6.0)
        expected = Expected(20.0, 1.2 * rate_hz, 0.9 * rate_hz, 1.5 * rate_hz)
        decided = Decision(Allocation(wanted), reason, expected)
        left = Decision(Allocation(limited), reason if limited == wanted else f"{reason}; at most 2 times as many per step")
        outcome = Outcome("asked", f"{present.workers} to {limited}") if limited != present.workers else Outcome("kept")
        cycle = Cycle(at_s, evaluation, decided, left, outcome)
        status = replace(
            before,
            workers=present.workers,
            wanted=limited,
            reason=left.reason,
            seen=seen,
            cycles=before.cycles + 1,
            changes=before.changes + outcome.changed,
            limited=before.limited + cycle.is_limited,
        )
        events = (*self.latest.events, ScalingEvent(at_s, f"{left.reason}. {outcome.text}")) if outcome.text else self.latest.events
        self.latest = replace(self.latest, at_s=at_s, status=status, cycles=(*self.latest.cycles, cycle), events=events)

    def _set_paused(self, paused: bool) -> None:
        self.latest = replace(self.latest, status=replace(self.latest.status, paused=paused))


class TalkingFleet:
    """A fleet of a few streams."""

    def __init__(self, name: str = "cabs") -> None:
        self.name, self.latest = name, FleetSnapshot(NOW_S, FleetStatus())

    def subject(self) -> Subject:
        return Subject(f"fleet {self.name}", "fleet", self.name, "id string, ts timestamp", lambda: self.latest)

    def look_again(self, *, rate_hz: float = 9_000.0, buffered: int = 100, redirections: int = 0) -> None:
        before = self.latest.status
        status = FleetStatus(
            streams=4,
            missing=1,
            suspended=1,
            silent=1,
            splits=2,
            batches=before.batches + 1,
            tuples=before.tuples + round(rate_hz / 2),
            buffered=buffered,
            rate_hz=rate_hz,
            expected_hz=1.1 * rate_hz,
            capacity_hz=10_000.0,
            redirections=before.redirections + redirections,
            invalid=3,
            skipped={"vanished": 2},
            planning_s=0.012,
            seen_s=self.latest.at_s + 0.4,
        )
        splits = tuple(
            SplitStatus(number, (f"cab-{number}", f"cab-{number + 2}"), rate_hz / 2, rate_hz / 2, buffered // 2, 0.1)
            for number in range(2)
        )
        streams = (
            *(StreamRow(f"cab-{number}", number % 2, rate_hz / (number + 2), rate_hz / 2, 10) for number in range(3)),
            StreamRow("cab-3", 1, 0.0, 0.0, 40, suspended=True),
            StreamRow("cab-4", 1, 0.0, 0.0, 0, missing=True),
        )
        self.latest = FleetSnapshot(self.latest.at_s + 0.5, status, splits, streams)
