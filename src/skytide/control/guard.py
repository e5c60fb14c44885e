"""Limits for every controller (SPEC E9): what it wants is limited to what is safe, and the reason says so."""

from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, check_bool, is_integer, is_real, refused
from skytide.records import Allocation, Decision, Evaluation
from skytide.windows import Duration, duration_s

DAY_S = 86_400
HELPED = 0.1  # share of the expected gain in throughput; less than this counts as no help
CHANGED = 0.2  # relative change of the input rate after which more workers may help again
FORGET_S = 1_800.0  # time after which they may help again
NEVER = timedelta(days=36_500)
LOOKS = 2  # observations of new workers before they are judged: the first may include batches from before


@dataclass(frozen=True)
class Guard:
    """Limits that no controller may exceed.

    See [The guard](scaling.md#the-guard).

    Parameters
    ----------
    minimum
        The fewest workers.
    maximum
        The most workers.
    step_factor
        The largest factor by which the number of workers may grow or shrink in one step; those that are on their way count as there.
    scale_down_after
        Workers are removed only when fewer have been wanted all this time.
    cool_down
        The time after a change in which there is no other.
    stale_after
        Older metrics count as missing, and without metrics nothing is done.
    notice_no_help
        Go back, and do not try again for a while, if more workers did not increase throughput.
    maintenance
        Times of day (UTC) in which nothing is changed, such as ("02:00", "03:30").

    Raises
    ------
    InvalidInput
        If a limit makes no sense.

    Examples
    --------
    >>> from skytide.records import Observation
    >>> seen = Evaluation(Observation(60, 10, Allocation(2), 900, 800, utilisation=4.5), 900, None, 4.5, lead_s=6)
    >>> limited = Guard(maximum=8).build().limit(Decision(Allocation(9), "2 to 9"), seen, requested=Allocation(2), now_s=60)
    >>> limited.allocation.workers, limited.reason
    (4, '2 to 9; at most 2 times as many per step')
    """

    minimum: int = 1
    maximum: int = 8
    step_factor: float = 2.0
    scale_down_after: Duration | int = "2 min"
    cool_down: Duration | int = 0
    stale_after: Duration | int = "1 min"
    notice_no_help: bool = True
    maintenance: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse limits that make no sense."""
        if not (is_integer(self.minimum, 1) and is_integer(self.maximum, self.minimum)):
            raise InvalidInput(
                value=f"minimum={brief(self.minimum)}, maximum={brief(self.maximum)}",
                reason="there must be at least one worker, and no more than the maximum",
                remedy="choose whole numbers 1 <= minimum <= maximum",
            )
        if not (is_real(self.step_factor) and self.step_factor > 1):
            raise refused("step_factor", self.step_factor, "nothing could change", "choose a number above 1")
        for name in ("scale_down_after", "cool_down", "stale_after"):
            duration_s(getattr(self, name), name)
        check_bool("notice_no_help", self.notice_no_help)
        if not isinstance(self.maintenance, tuple | list):
            raise refused("maintenance", self.maintenance, "not a list of times of day", 'write (("02:00", "03:30"),)')
        for span in self.maintenance:
            if not isinstance(span, tuple | list) or len(span) != 2:
                raise refused("maintenance", self.maintenance, "not pairs of a start and an end", 'write (("02:00", "03:30"),)')
            list(map(_of_day_s, span))

    @property
    def scale_down_after_s(self) -> float:
        """Return the same in seconds."""
        return duration_s(self.scale_down_after, "scale_down_after")

    @property
    def cool_down_s(self) -> float:
        """Return the same in seconds."""
        return duration_s(self.cool_down, "cool_down")

    @property
    def stale_after_s(self) -> float:
        """Return the same in seconds."""
        return duration_s(self.stale_after, "stale_after")

    def patient(self, interval_s: float) -> "Guard":
        """Return a guard for which metrics that are `interval_s` old are not stale."""
        return self if self.stale_after_s >= interval_s else replace(self, stale_after=timedelta(seconds=interval_s))

    @staticmethod
    def bounds(minimum: int, maximum: int) -> "Guard":
        """Return a guard with no limits but a minimum and a maximum."""
        return Guard(minimum, maximum, float("inf"), 0, 0, NEVER, notice_no_help=False)

    def build(self, resume: dict[str, Any] | None = None) -> "GuardLogic":
        """Return the logic, from a snapshot if there is one."""
        return GuardLogic(self, **(resume or {}))


class GuardLogic:
    """Applies the limits, and remembers what was wanted and done recently."""

    def __init__(
        self,
        config: Guard,
        changed_s: float | None = None,
        wanted: list[list[float]] | None = None,
        trial: list[float] | None = None,
        useless: list[float] | None = None,
    ) -> None:
        """Start without a past, or continue from a snapshot."""
        self.config = config
        self._changed_s = changed_s
        self._wanted: deque[tuple[float, int]] = deque((at, int(n)) for at, n in wanted or [])
        self._trial = trial  # before the latest growth under overload: workers, processed and input rate; then workers after it, and observations since
        self._useless = useless  # the number of workers beyond which more did not help, the input rate and the time of that

    def snapshot(self) -> dict[str, Any]:
        """Return the state, from which `Guard.build` can continue."""
        wanted = [[at, n] for at, n in self._wanted]
        return {"changed_s": self._changed_s, "wanted": wanted, "trial": self._trial, "useless": self._useless}

    def limit(self, decided: Decision, seen: Evaluation, *, requested: Allocation, now_s: float) -> Decision:
        """Return the decision within the limits; `requested` is what was requested last, whether it is there yet or not."""
        config, base, wanted = self.config, max(1, seen.seen.allocation.workers), decided.allocation.workers
        if (until := self._maintenance(now_s)) is not None:
            self.forget()
            return _stay(decided, requested, f"no changes during maintenance until {until} (UTC)")
        limit, why = self._helpful(wanted, seen, now_s)
        limit = self._persistent(limit, base, max(base, requested.workers), now_s, seen.seen.interval_s)
        if limit > wanted:
            why.append(f"scaling down only after {config.scale_down_after_s:g} s of lower demand")
        coming = max(base, requested.workers)
        if limit > coming * config.step_factor:
            limit = max(coming + 1, int(coming * config.step_factor))
            why.append(f"at most {config.step_factor:g} times as many per step")
        elif limit < base / config.step_factor:
            limit = -int(-base // config.step_factor)
            why.append(f"at most {config.step_factor:g} times fewer per step")
        if not config.minimum <= limit <= config.maximum:
            limit = min(max(limit, config.minimum), config.maximum)
            why.append(f"within {config.minimum} to {config.maximum}")
        if not seen.settled and limit <= requested.workers:
            return _stay(decided, requested, f"not all of {requested.workers} requested workers have started yet")
        if limit != requested.workers and self._changed_s is not None and 0 <= now_s - self._changed_s < config.cool_down_s:
            ago = f"changed {now_s - self._changed_s:.0f} s ago"
            return _stay(decided, requested, f"{ago}, cooling down for {config.cool_down_s:g} s")
        if limit != requested.workers:
            self._begin_trial(seen, base, limit)
            self._changed_s = now_s
        elif limit != wanted:
            return _stay(decided, requested, *why)
        if limit == wanted:
            return decided
        return Decision(decided.allocation.with_workers(limit), "; ".join([decided.reason, *why]))

    def forget(self) -> None:
        """Forget that fewer workers were wanted, and the current trial, after a time in which nothing was observed or changed."""
        self._wanted.clear()
        self._trial = None

    def _helpful(self, wanted: int, seen: Evaluation, now_s: float) -> tuple[int, list[str]]:
        """Return the wanted number of workers, at most as many as helped before, and the reasons."""
        verdict = self._judge_trial(seen, now_s)
        most = seen.batch.most_workers if seen.batch and self.config.notice_no_help else None
        if most is not None and wanted > most:
            wanted, has = most, f"{seen.batch and seen.batch.tasks} tasks at once"
            verdict = "; ".join(filter(None, [verdict, f"more than {most} would have nothing to do ({has})"]))
        if self._useless:
            limit, rate_hz, since_s = self._useless
            if abs(seen.seen.arrival_rate_hz - rate_hz) > CHANGED * rate_hz or not 0 <= now_s - since_s < FORGET_S:
                self._useless = None
            elif wanted > limit:
                return int(limit), [verdict or f"more than {int(limit)} workers did not help before"]
        return wanted, [verdict] if verdict else []

    def _persistent(self, wanted: int, present: int, coming: int, now_s: float, interval_s: float) -> int:
        """Return the highest number of workers that was wanted recently, of those that came; after a gap in time this begins anew."""
        keep_s = self.config.scale_down_after_s
        gap_s = max(keep_s, self.config.stale_after_s, 3 * interval_s)
        if self._wanted and not 0 <= now_s - self._wanted[-1][0] <= gap_s:
            self._wanted.clear()
        if not self._wanted and keep_s > 0:
            self._wanted.append((now_s, max(wanted, present)))
        self._wanted.append((now_s, wanted))
        while len(self._wanted) > 1 and self._wanted[0][0] <= now_s - keep_s:
            self._wanted.popleft()
        return max(wanted, min(coming, max(n for _, n in self._wanted)))

    def _begin_trial(self, seen: Evaluation, base: int, limit: int) -> None:
        overloaded = seen.demand_ratio > 1 and limit > base
        self._trial = [base, seen.seen.processed_rate_hz, seen.seen.arrival_rate_hz, limit, 0] if overloaded else None

    def _judge_trial(self, seen: Evaluation, now_s: float) -> str | None:
        """Check whether the latest growth helped; if not, remember it and return a message."""
        if not self.config.notice_no_help or not self._trial or not seen.settled:
            return None
        before, rate_hz, came_hz, after, looks = self._trial
        now = seen.seen
        if now.allocation.workers < after:  # not what was requested, so it cannot be judged
            self._trial = None
        elif now.allocation.workers == after:
            self._trial[-1] = looks + 1
        if not self._trial or self._trial[-1] < LOOKS:
            return None
        self._trial = None
        hoped = HELPED * (after / before - 1)
        more_came = now.arrival_rate_hz > came_hz * (1 + CHANGED)
        if seen.demand_ratio <= 1 or more_came or now.processed_rate_hz > rate_hz * (1 + hoped):
            return None
        self._useless = [before, now.arrival_rate_hz, now_s]
        did, had = (
            f"{int(after)} workers processed {now.processed_rate_hz:,.0f} tuples/s",
            f"{int(before)} processed {rate_hz:,.0f}",
        )
        return f"{did}, {had}: that did not help, going back to {int(before)}"

    def _maintenance(self, now_s: float) -> str | None:
        for begin, end in self.config.maintenance:
            first, last, now = _of_day_s(begin), _of_day_s(end), now_s % DAY_S
            if first <= now < last or (last < first and (now >= first or now < last)):
                return end
        return None


def _stay(decided: Decision, requested: Allocation, *why: str) -> Decision:
    """Return a decision to change nothing, with the reasons."""
    return Decision(requested, "; ".join([decided.reason, *why]))


def _of_day_s(clock: str) -> float:
    try:
        hours, minutes = map(int, clock.split(":"))
        if 0 <= hours <= 24 and 0 <= minutes < 60:
            return hours * 3600.0 + minutes * 60.0
    except (AttributeError, ValueError):
        pass
    raise refused("maintenance", clock, "not a time of day", 'write it as "02:30"')
