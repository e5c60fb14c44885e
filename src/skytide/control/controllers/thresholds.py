"""Thresholds for the load of each worker, or for the mean load of all (P4 §IV-A and B, SPEC E6)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from skytide.control.controller import State
from skytide.control.judging import Judge, Verdict, WorkersByLoad
from skytide.errors.checks import is_integer, refused


@dataclass(frozen=True)
class Thresholds(WorkersByLoad):
    """The options that both kinds have in common."""

    intervals: int = 3
    """How many times in a row a threshold has to be violated."""

    def __post_init__(self) -> None:
        """Refuse options that make no sense."""
        super().__post_init__()
        if not is_integer(self.intervals, 1):
            raise refused("intervals", self.intervals, "not a number of intervals", "choose 1 or more")


@dataclass(frozen=True)
class LocalThresholds(Thresholds):
    """Scales out when a worker is over the upper threshold for some intervals, and in when one is under the lower.

    The loads are those of the executors (P4). See [Controllers](scaling.md#controllers).

    Parameters
    ----------
    lower
        A worker with less load may be released.
    upper
        A worker with more load gives load away.
    target
        The load that is left then.
    grace
        How long workers that a change affected are left alone.
    intervals
        How many times in a row a threshold has to be violated.

    Raises
    ------
    InvalidInput
        Unless 0 < lower < target < upper <= 1, at least 0.1 apart, and there is an interval.

    Examples
    --------
    >>> judge = LocalThresholds(intervals=2).judge()
    >>> judge.judge({"1": 0.5, "2": 0.91}, now_s=0)
    []
    >>> [verdict.why for verdict in judge.judge({"1": 0.5, "2": 0.93}, now_s=10)]
    ['load 0.93 of worker 2 over 0.80 for 2 intervals']
    """

    def judge(self, resume: State | None = None) -> Judge:
        """Return the judge."""
        return _Local(self, **(resume or {}))


@dataclass(frozen=True)
class GlobalThresholds(Thresholds):
    """Scales out when the mean load of all workers is over the upper threshold for some intervals, and in when it is under the lower.

    The loads are those of the executors (P4). See [Controllers](scaling.md#controllers).

    Parameters
    ----------
    lower
        A worker with less load may be released.
    upper
        A worker with more load gives load away.
    target
        The load that is left then.
    grace
        How long workers that a change affected are left alone.
    intervals
        How many times in a row a threshold has to be violated.

    Raises
    ------
    InvalidInput
        Unless 0 < lower < target < upper <= 1, at least 0.1 apart, and there is an interval.

    Examples
    --------
    >>> judge = GlobalThresholds(intervals=1).judge()
    >>> [verdict.why for verdict in judge.judge({"1": 0.9, "2": 0.8}, now_s=0)]
    ['mean load 0.85 of 2 workers over 0.80 for 1 interval', 'mean load 0.85 of 2 workers over 0.80 for 1 interval']
    """

    def judge(self, resume: State | None = None) -> Judge:
        """Return the judge."""
        return _Global(self, **(resume or {}))


class _Counting(Judge):
    """Counts violations in a row: above 0 over the upper threshold, below 0 under the lower."""

    def __init__(
        self, config: Thresholds, violations: Mapping[str, int] | None = None, resting_since_s: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(config.grace_s, resting_since_s)
        self._config = config
        self._violations = dict(violations or {})

    def snapshot(self) -> State:
        return {**super().snapshot(), "violations": dict(self._violations)}

    def _count(self, name: str, load: float) -> int:
        before = self._violations.get(name, 0)
        if load > self._config.upper:
            now = max(0, before) + 1
        elif load < self._config.lower:
            now = min(0, before) - 1
        else:
            now = 0
        self._violations[name] = now
        return now if abs(now) >= self._config.intervals else 0

    def _violation(self, count: int) -> str:
        side = f"over {self._config.upper:.2f}" if count > 0 else f"under {self._config.lower:.2f}"
        return f"{side} for {abs(count)} interval{'s' if abs(count) > 1 else ''}"


class _Local(_Counting):
    def judge(self, loads: Mapping[str, float], *, now_s: float) -> list[Verdict]:
        self._forget(loads)
        self._violations = {host: count for host, count in self._violations.items() if host in loads}
        verdicts = []
        for host, load in loads.items():
            if self._rests(host, now_s):
                self._violations[host] = 0  # what is measured while operators move says nothing
            elif count := self._count(host, load):
                why = f"load {load:.2f} of worker {host} {self._violation(count)}"
                verdicts.append(Verdict(host, "out" if count > 0 else "in", load, why))
        return verdicts


ALL = "all"


class _Global(_Counting):
    def acted(self, hosts: Collection[str], *, touched: Collection[str], now_s: float) -> None:
        """Let all hosts rest, as the mean is over all of them."""
        super().acted(hosts, touched=[ALL], now_s=now_s)

    def judge(self, loads: Mapping[str, float], *, now_s: float) -> list[Verdict]:
        if not loads or self._rests(ALL, now_s):
            self._violations = {}
            return []
        mean = sum(loads.values()) / len(loads)
        count = self._count(ALL, mean)
        why = f"mean load {mean:.2f} of {len(loads)} worker{'s' if len(loads) > 1 else ''} {self._violation(count)}"
        if count > 0:
            over = {host: load for host, load in loads.items() if load > self._config.target}
            return [Verdict(host, "out", load, why) for host, load in over.items()]
        if count < 0:
            host = min(loads, key=lambda name: (loads[name], name))
            return [Verdict(host, "in", loads[host], why)]
        return []
