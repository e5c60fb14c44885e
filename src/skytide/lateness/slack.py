"""Decides how long to wait for late tuples. Each method is a configuration that builds a logic, whose state survives a restart."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skytide.errors.checks import is_finite, refused
from skytide.lateness.crowds import FEW
from skytide.lateness.delays import BUCKETS, Arrivals, bucket_end_us
from skytide.windows import Duration, duration_us

State = dict[str, Any]

__all__ = ["SLACKS", "DropRatio", "FixedSlack", "KSlack", "Slack", "SlackLogic"]


class SlackLogic(ABC):
    """Watches arrivals, and decides how far the punctuation stays behind the newest tuple."""

    @abstractmethod
    def observe(self, arrivals: Arrivals) -> None:
        """Take in the arrivals of one batch."""

    @property
    @abstractmethod
    def slack_us(self) -> int:
        """Return how far the punctuation stays behind the newest tuple."""

    @abstractmethod
    def snapshot(self) -> State:
        """Return the state, as plain values."""


class Slack(ABC):
    """A method to choose the slack: how far the stream stays behind its newest tuple, waiting for late ones.

    To write one of your own, derive from this class, and return a `SlackLogic` from `build`.

    Examples
    --------
    >>> [slack.__name__ for slack in SLACKS]
    ['KSlack', 'DropRatio', 'FixedSlack']

    More in [late.md](late.md).
    """

    is_learned: ClassVar[bool] = True
    """Whether it depends on observed delays."""

    @abstractmethod
    def build(self, resume: State | None = None) -> SlackLogic:
        """Return a new logic, or one that continues from a snapshot.

        Parameters
        ----------
        resume
            What `snapshot` of a logic returned.
        """


@dataclass(frozen=True)
class FixedSlack(Slack):
    """Always the same slack, like Spark's watermark.

    Parameters
    ----------
    delay
        How long to wait, such as "2 s"; 0 for not at all.

    Raises
    ------
    InvalidInput
        If it is not a length of time.

    Examples
    --------
    >>> FixedSlack("2 s").build().slack_us
    2000000
    """

    delay: Duration | int
    is_learned: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse what is no length of time."""
        self._delay_us()

    def build(self, resume: State | None = None) -> SlackLogic:
        """Return the logic; it has no state."""
        return _Fixed(self._delay_us())

    def _delay_us(self) -> int:
        return duration_us(self.delay, "delay", or_none=True)


class _Fixed(SlackLogic):
    def __init__(self, slack_us: int) -> None:
        self._slack_us = slack_us

    def observe(self, arrivals: Arrivals) -> None:
        pass

    @property
    def slack_us(self) -> int:
        return self._slack_us

    def snapshot(self) -> State:
        return {}


@dataclass(frozen=True)
class KSlack(Slack):
    """Waits as long as the longest delay so far (K-slack: P0 section 3.1); a very long one has to occur more than a few times.

    Examples
    --------
    >>> KSlack().build().slack_us
    0

    More in [late.md](late.md).
    """

    def build(self, resume: State | None = None) -> SlackLogic:
        """Return the logic."""
        return _K(**(resume or {}))


class _K(SlackLogic):
    def __init__(self, longest: State | None = None) -> None:
        self._longest = _Longest(**(longest or {}))

    def observe(self, arrivals: Arrivals) -> None:
        self._longest.observe(arrivals)

    @property
    def slack_us(self) -> int:
        return self._longest.delay_us

    def snapshot(self) -> State:
        return {"longest": self._longest.snapshot()}


class _Longest:
    """The longest delay so far. One beyond a leap counts only when more than a few of the recent tuples had one."""

    RECENT_TUPLES = 100_000

    def __init__(self, delay_us: int = 0, tuples: int = 0, far: list[list[int]] | None = None) -> None:
        self.delay_us = delay_us
        self._tuples = tuples
        self._far = [(delay, seen) for delay, seen in far or []]

    def observe(self, arrivals: Arrivals) -> None:
        self._tuples += arrivals.tuples
        self.delay_us = max(self.delay_us, arrivals.longest_delay_us)
        recent = [(delay, seen) for delay, seen in self._far if seen > self._tuples - self.RECENT_TUPLES]
        self._far = sorted([*recent, *((delay, self._tuples) for delay in arrivals.far_delays_us)], reverse=True)[: FEW + 1]
        if len(self._far) > FEW:
            known_us = self._far[FEW][0]
            self.delay_us = max(self.delay_us, *(delay for delay, _ in self._far if delay <= 2 * known_us))

    def snapshot(self) -> State:
        return {"delay_us": self.delay_us, "tuples": self._tuples, "far": [list(seen) for seen in self._far]}


@dataclass(frozen=True)
class DropRatio(Slack):
    """Waits only as long as needed to drop at most a given share of the tuples.

    The slack is a quantile of recent delays. Which quantile is corrected by recent drops: tuples are judged against the punctuation of the
    batch before, so fewer are dropped than the quantile suggests, and the slack may be shorter. If all drops so far come near the ratio,
    the longest delay is the slack until it is safe again.

    Parameters
    ----------
    ratio
        The share of tuples that may be dropped as late, between 0 and 1.

    Raises
    ------
    InvalidInput
        If it is not such a share.

    Examples
    --------
    >>> DropRatio(0.01).build().slack_us
    0

    More in [late.md](late.md).
    """

    ratio: float

    def __post_init__(self) -> None:
        """Refuse values that are not shares."""
        if not (is_finite(self.ratio) and 0 < self.ratio < 1):
            raise refused("ratio", self.ratio, "not a share of the tuples", "choose one between 0 and 1, as 0.01")

    def build(self, resume: State | None = None) -> SlackLogic:
        """Return the logic."""
        return _Ratio(self.ratio, **(resume or {}))


class _Ratio(SlackLogic):
    HALF_LIFE_BATCHES = 64
    HALF_LIFE_TUPLES = 20_000  # if that is longer: few tuples have no small quantiles
    AIM = 0.8  # share of the ratio to aim at with recent drops
    NEAR = 0.95  # share of the ratio that all drops may reach: from here on nothing is risked
    GAIN = 0.03
    MIN_BOLDNESS, MAX_BOLDNESS = 0.25, 32.0

    def __init__(
        self,
        ratio: float,
        delays: list[float] | None = None,
        recent_late: float = 0.0,
        tuples: int = 0,
        late: int = 0,
        longest: State | None = None,
        boldness: float = 1.0,
    ) -> None:
        self._ratio = ratio
        self._delays = np.zeros(BUCKETS) if delays is None else np.array(delays)
        self._recent_late = recent_late
        self._tuples, self._late = tuples, late
        self._longest = _Longest(**(longest or {}))
        self._boldness = boldness

    def observe(self, arrivals: Arrivals) -> None:
        weight = min(1.0, arrivals.tuples * self.HALF_LIFE_BATCHES / self.HALF_LIFE_TUPLES)
        forgotten = 0.5 ** (weight / self.HALF_LIFE_BATCHES)
        self._delays = self._delays * forgotten + np.array(arrivals.delays)
        self._recent_late = self._recent_late * forgotten + arrivals.late
        self._tuples += arrivals.tuples
        self._late += arrivals.late
        self._longest.observe(arrivals)
        if arrivals.tuples:
            missed = self.AIM - self._recent_late / self._delays.sum() / self._ratio
            self._boldness *= float(np.exp(self.GAIN * weight * max(-2.0, missed)))
            self._boldness = min(max(self._boldness, self.MIN_BOLDNESS), self.MAX_BOLDNESS)

    @property
    def slack_us(self) -> int:
        if self._late > self._ratio * self.NEAR * self._tuples:
            return self._longest.delay_us
        beyond = np.cumsum(self._delays[::-1])[::-1]  # how many were at least that late
        allowed = min(self._ratio * self._boldness, 0.5) * self._delays.sum()
        return min(bucket_end_us(int((beyond > allowed).sum()) - 1) if beyond[0] > 0 else 0, self._longest.delay_us)

    def snapshot(self) -> State:
        return {
            "delays": self._delays.tolist(),
            "recent_late": self._recent_late,
            "tuples": self._tuples,
            "late": self._late,
            "longest": self._longest.snapshot(),
            "boldness": self._boldness,
        }


SLACKS: tuple[type[Slack], ...] = (KSlack, DropRatio, FixedSlack)
"""All methods to choose a slack."""
