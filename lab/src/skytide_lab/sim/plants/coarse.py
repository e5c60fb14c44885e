"""A pane level by counts, behind the port of the control cycle: a day of a stream with thousands of workers takes seconds."""

from collections.abc import Sequence

from skytide.errors import InvalidInput
from skytide.records import Allocation, Observation, Outcome
from skytide.sim.drive import ROUNDING_S, VirtualPlant
from skytide_lab.sim.coarse import CoarseStage


class CoarsePlant(VirtualPlant):
    """Rates in steps of equal length, and workers that start some time after they are requested; they go at once.

    `observe(now)` plays up to now.
    """

    lead_s = 0.0

    def __init__(
        self, stage: CoarseStage, rates_hz: Sequence[float], step_s: float, *, workers: int = 1, lead_s: float = 0.0
    ) -> None:
        """Start with a number of workers."""
        if not rates_hz or step_s <= 0:
            raise InvalidInput(
                value=f"{len(rates_hz)} rates", reason="no time would pass", remedy="give rates, and steps above 0 s"
            )
        self.lead_s = lead_s
        self.length_s = len(rates_hz) * step_s
        self.worker_s = 0.0
        """The worker time to pay for: from the moment workers are requested."""
        self.backlog = 0.0
        self._stage, self._rates_hz, self._step_s = stage, rates_hz, step_s
        self._workers, self._coming = workers, list[tuple[float, int]]()
        self._at, self._service_s = 0, 0.0

    @property
    def finished(self) -> bool:
        """Return whether all rates have been played."""
        return self._at >= len(self._rates_hz)

    def size(self) -> Allocation:
        """Return the workers that are there."""
        return Allocation(self._workers)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Request workers, cancel requests, or release workers; return what was done."""
        if wanted.workers <= self._workers:
            going, cancelled = self._workers - wanted.workers, bool(self._coming)
            self._workers, self._coming = wanted.workers, []
            return Outcome("done" if going or cancelled else "kept", f"{going} go")
        asked, before = wanted.workers - self._workers, self._coming
        there = [(at_s, min(n, asked)) for at_s, n in self._coming]  # requested workers still come, as far as they are wanted
        self._coming = [(at_s, n) for at_s, n in there if n]
        if not self._coming or self._coming[-1][1] < asked:
            self._coming.append((now_s + self.lead_s, asked))
        return Outcome("kept" if self._coming == before else "asked", f"{asked} more, there within {self.lead_s:g} s")

    def observe(self, now_s: float) -> Observation | None:
        """Play up to now, and return what was measured since the last call."""
        began_s, came, done, work_s, could_s, min_workers = self._at * self._step_s, 0.0, 0.0, 0.0, 0.0, 0
        while self._at < len(self._rates_hz) and (self._at + 1) * self._step_s <= now_s + ROUNDING_S:
            self._join(self._at * self._step_s)
            arrived = self._rates_hz[self._at] * self._step_s
            played = self._stage.step(arrived, self._workers, self._step_s)
            capacity_s = self._workers * self._step_s
            if arrived:
                self._service_s = played.utilisation * capacity_s / arrived
            left = played.backlog_s * self._workers / self._service_s if self._service_s else 0.0
            done += self.backlog + arrived - left
            self.backlog = left
            came, work_s, could_s = came + arrived, work_s + played.utilisation * capacity_s, could_s + capacity_s
            min_workers = min(min_workers or self._workers, self._workers)
            self.worker_s += self._step_s * max([self._workers, *(self._workers + n for _, n in self._coming)])
            self._at += 1
        interval_s = self._at * self._step_s - began_s
        if not interval_s:
            return None
        return Observation(
            at_s=self._at * self._step_s,
            interval_s=interval_s,
            allocation=Allocation(min_workers),
            arrival_rate_hz=came / interval_s,
            processed_rate_hz=done / interval_s,
            utilisation=work_s / could_s,
            service_s=self._service_s or None,
            backlog=self.backlog,
            latency_s=self._service_s + self.backlog * self._service_s / self._workers,
        )

    def _join(self, now_s: float) -> None:
        """Add the workers whose time has come; each request counts from the workers that are there."""
        while self._coming and self._coming[0][0] <= now_s + ROUNDING_S:
            _, more = self._coming.pop(0)
            self._workers += more
            self._coming = [(at_s, n - more) for at_s, n in self._coming if n > more]
