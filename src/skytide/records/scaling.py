"""What an auto-scaler observes, decides and reports."""

import time
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal

from skytide.errors.deprecation import warn_renamed
from skytide.records.printing import Printed, number, seconds

Mode = Literal["act", "recommend"]
"""Whether an auto-scaler changes something, or only says what it would do."""
OutcomeKind = Literal["done", "asked", "kept", "limited", "refused", "recommended", "paused"]
ScalerState = Literal["acts", "recommends", "paused", "ended"]


@dataclass(frozen=True)
class Allocation:
    """What a query works with."""

    workers: int
    """Executors of a cluster; where there are none, the slots of all levels together."""
    pane_slots: int | None = None
    window_slots: int | None = None
    """None: the query has no such level."""
    frequency_ghz: float | None = None
    """None: the machine chooses it."""
    shares_workers: bool = False
    """Whether both levels use all workers, one after the other; otherwise each has its own."""

    def with_workers(self, workers: int) -> "Allocation":
        """Return the same with another number of workers; the slots follow in proportion, and each level keeps at least one.

        >>> Allocation(4, pane_slots=1, window_slots=3).with_workers(8)
        Allocation(workers=8, pane_slots=2, window_slots=6, frequency_ghz=None, shares_workers=False)
        """
        if self.pane_slots is None or self.window_slots is None:
            return replace(self, workers=workers)
        if self.shares_workers:
            panes = round(self.pane_slots * workers / self.workers)
            windows = min(max(1, round(self.window_slots * workers / self.workers)), panes)
            return replace(self, workers=workers, pane_slots=panes, window_slots=windows)
        workers = max(2, workers)
        panes = round(self.pane_slots * workers / max(1, self.pane_slots + self.window_slots))
        panes = min(max(1, panes), workers - 1)
        return replace(self, workers=workers, pane_slots=panes, window_slots=workers - panes)


@dataclass(frozen=True)
class MicroBatch:
    """What the batches of an interval were like, on average; [its model](scaling.md#the-model) tells what others would be like."""

    rows: float
    fixed_s: float
    """The part of a batch that no worker makes shorter: planning, logs, the sink, waiting for the slowest task."""
    work_s: float
    """The time of all its tasks, added up."""
    trigger_s: float | None = None
    """The interval that was asked for; None: the next batch begins at once."""
    tasks: int | None = None
    """How many tasks can run at once: Kafka's partitions, or those of a shuffle; None: not known."""
    cores: float = 1.0
    """Tasks that a worker runs at once."""
    spread_s: float = 0.0
    """The standard deviation of how long batches take."""

    @property
    def most_workers(self) -> int | None:
        """The number of workers beyond which more do nothing, as there are no more tasks; None: not known.

        >>> MicroBatch(900, 0.2, 1.8, tasks=12, cores=4).most_workers
        3
        """
        return None if self.tasks is None else max(1, ceil(self.tasks / self.cores))


@dataclass(frozen=True)
class Observation:
    """What was measured over one interval. What could not be measured is None."""

    at_s: float
    """The end of the interval."""
    interval_s: float
    allocation: Allocation
    """What was at work in it."""
    arrival_rate_hz: float
    processed_rate_hz: float
    utilisation: float
    """What came in over what could have been served; above 1 the query falls behind."""
    service_s: float | None = None
    """The time one worker takes for one tuple."""
    backlog: float = 0.0
    """Tuples that wait at the end of the interval."""
    latency_s: float | None = None
    """The mean latency of a tuple, from its arrival to its result."""
    arrival_cv: float = 1.0
    service_cv: float = 1.0
    """The coefficients of variation of the time between two tuples, and of the time for one."""
    loads: tuple[tuple[str, float], ...] = ()
    """The share of the interval in which each worker was busy."""
    pane_utilisation: float | None = None
    splitting_factor: float | None = None
    window_utilisation: float | None = None
    """These three are of the two levels of a continuous query: a level above 1 is why batches do not fit into their interval."""
    power_w: float | None = None
    expected_rate_hz: float | None = None
    """Tuples per second that the source itself expects soon; None if it cannot say."""
    frequencies_ghz: tuple[float, ...] = ()
    """The CPU frequencies that can be chosen, slowest first; none if the machine alone chooses."""
    batch: MicroBatch | None = None
    """What its batches were like; None where tuples are served one by one."""
    state_rows: float | None = None
    state_bytes: float | None = None
    """What stateful operators of Spark have in memory; None: the query has none."""
    reload_s: float = 0.0
    """How much longer the first batches after a change of size take, all together, as state has to be loaded elsewhere: measured at the latest changes."""


@dataclass(frozen=True)
class Evaluation:
    """What an observation means, in the light of those before it."""

    seen: Observation
    demand_hz: float
    """Tuples per second that have to be served: those that come, or are about to, and a share of those that wait."""
    service_s: float | None
    """The time one worker takes for one tuple, over the latest intervals."""
    demand_ratio: float
    """The demand over what the present workers can serve."""
    lead_s: float
    """How long it takes until an added worker works."""
    settled: bool = True
    """False as long as workers that were asked for are not there yet, or have not worked for a whole interval."""
    batch: MicroBatch | None = None
    """What batches are like, over the latest intervals; None where tuples are served one by one."""

    @property
    def utilisation(self) -> float:
        """The former name of `demand_ratio`; what was measured is `seen.utilisation`."""
        warn_renamed("Evaluation.utilisation", "Evaluation.demand_ratio")
        return self.demand_ratio


@dataclass(frozen=True)
class Expected:
    """A forecast of what comes in, with the interval in which it probably lies."""

    ahead_s: float
    mean_hz: float
    low_hz: float
    high_hz: float


@dataclass(frozen=True)
class Decision:
    """What a query should work with, and why."""

    allocation: Allocation
    reason: str
    expected: Expected | None = field(default=None, compare=False)
    """The forecast that it rests on, if any."""


@dataclass(frozen=True)
class Outcome:
    """What became of a request for another size.

    >>> Outcome("asked", "requesting 2 more executors (3 in total)").changed, Outcome("refused").changed
    (True, False)
    """

    kind: OutcomeKind
    """What was requested: "done" is there, or is from the next batch on; "asked" comes later; "kept" was there, or asked for, before;
    "limited" stays as it is, as the cluster gives no more; "refused" was not accepted; "recommended" was only said; "paused" has to wait."""
    text: str = ""
    """The same for people; empty if nothing was requested."""

    @property
    def changed(self) -> bool:
        """Whether something is different now, or will be."""
        return self.kind in ("done", "asked")


@dataclass(frozen=True)
class ScalingEvent:
    """Something that an auto-scaler did, or noticed.

    >>> print(ScalingEvent(1_790_000_000.0, "requesting 2 more executors (3 in total)"))
    14:13:20 requesting 2 more executors (3 in total)
    """

    at_s: float
    text: str

    def __str__(self) -> str:
        """Return the text after the time of day (UTC)."""
        return f"{time.strftime('%H:%M:%S', time.gmtime(self.at_s))} {self.text}"


@dataclass(frozen=True)
class ScalerStatus(Printed):
    """How an auto-scaler is doing: what `Scaler.status()` returns. Printed, it is a few lines.

    See [Auto-scaling](scaling.md).

    Examples
    --------
    >>> status = ScalerStatus(True, False, True, workers=2, wanted=3, reason="utilisation 95 %, over 90 %: 2 to 3", lead_s=6.0, seen=None)
    >>> status.state
    'acts'
    >>> print(status)
    state    acts
    workers  2, 3 wanted
    why      utilisation 95 %, over 90 %: 2 to 3
    """

    running: bool
    paused: bool
    acts: bool
    workers: int
    wanted: int
    """The number of workers that the latest cycle wanted."""
    reason: str
    lead_s: float
    """The time from asking for a worker to its first work, as measured."""
    seen: Observation | None
    """The latest observation."""
    failure: str = ""
    """Why the latest cycle failed, or what ended the auto-scaler before its query; empty if all is well."""
    cycles: int = 0
    changes: int = 0
    """How often it changed the size, or asked for another one that was accepted."""
    limited: int = 0
    """How often the guard changed what the controller wanted."""

    @property
    def state(self) -> ScalerState:
        """What it does at the moment."""
        return "ended" if not self.running else "paused" if self.paused else "acts" if self.acts else "recommends"

    def lines(self) -> list[tuple[str, str]]:
        """Return what is worth knowing, in a few lines."""
        seen, measured = self.seen, ""
        if seen is not None:
            latency = "" if seen.latency_s is None else f", latency {seconds(seen.latency_s)}"
            waits = f", {number(seen.backlog)} tuples wait" if seen.backlog else ""
            measured = f"{number(seen.arrival_rate_hz)} tuples/s, used {seen.utilisation:.0%}{latency}{waits}"
        return [
            ("state", self.state),
            ("workers", f"{self.workers:,}" + (f", {self.wanted:,} wanted" if self.wanted != self.workers else "")),
            ("why", self.reason),
            ("measured", f"{measured}; a new worker takes {seconds(self.lead_s)}" if measured else ""),
            ("keeps", _state(seen) if seen is not None else ""),
            ("failure", self.failure),
        ]


def _state(seen: Observation) -> str:
    """Return what a query with state has, in words; nothing for another."""
    if seen.state_rows is None:
        return ""
    size = "" if seen.state_bytes is None else f", {number(seen.state_bytes / 1e6)} MB"
    reload = f"; after a change of size, loading it takes {seconds(seen.reload_s)}" if seen.reload_s else ""
    return f"a state of {number(seen.state_rows)} rows{size}{reload}"
