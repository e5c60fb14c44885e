"""Looks at a query that is told by the test: batch by batch, as an engine would tell it."""

from dataclasses import replace

from skytide.records import Status, WindowRow
from skytide.watch.looks import Points, QueryLook, Subject

NOW_S = 1_790_000_000.0
STEPS = {"pane level": 0.1, "window level": 0.05, "sink": 0.02, "commit": 0.03}


class TalkingQuery:
    """Says what the test lets it say."""

    def __init__(self, name: str = "prices", trigger_s: float | None = 0.5) -> None:
        self.name, self.fails = name, False
        self.told = QueryLook(NOW_S, Status(), trigger_s=trigger_s, state="starting")

    def subject(self) -> Subject:
        return Subject(f"id of {self.name}", "query", self.name, "Skyline(low('x0') * low('x1')) over windows of 1 s", self.look)

    def look(self) -> QueryLook:
        if self.fails:
            raise ConnectionError("gone")
        return self.told

    def batch(
        self, *, tuples: int = 1_000, late: int = 0, invalid: int = 0, utilisation: float = 0.4, latency_s: float = 1.5
    ) -> None:
        """Do one more batch, half a second after the one before, with one window."""
        status = self.told.status
        number, at_s = status.batch + 1, self.told.at_s + 0.5
        start_us = round((at_s - 1) * 1e6)
        window = WindowRow(start_us, start_us + 1_000_000, tuples, kept=10 + number, late=late, latency_s=latency_s)
        after = replace(
            status,
            batch=number,
            input_rate_hz=2.0 * tuples,
            utilisation=utilisation,
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
        windows = (*self.told.windows, window)[-1_000:]
        self.told = replace(self.told, at_s=at_s, status=after, windows=windows, seconds=seconds, state="running", points=points)

    def set_state(self, state: str, why: str = "", after_s: float = 0.5) -> None:
        self.told = replace(self.told, at_s=self.told.at_s + after_s, state=state, why=why)
