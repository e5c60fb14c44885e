"""A PID regulator, and the experiment that finds its gains (P3 §4.1.2, SPEC S9)."""

import math
from dataclasses import dataclass
from typing import Any

from skytide.errors.checks import check_type, is_finite, is_integer, refused

State = dict[str, Any]


@dataclass(frozen=True)
class Gains:
    """The weights of the error, of the sum of errors, and of the latest change of the error."""

    kp: float
    ki: float
    kd: float

    def __post_init__(self) -> None:
        """Refuse invalid weights."""
        for name, weight in vars(self).items():
            if not (is_finite(weight) and weight >= 0):
                raise refused(name, weight, "not a weight", "choose a number of 0 or more")


@dataclass(frozen=True)
class Pid:
    """Moves a factor so that the utilisation approaches a setpoint: a utilisation below it lets the factor grow.

    Changes are added to the factor, as P3 prints its law (eq. 3); with `adds=False` they multiply it, so that a small factor changes little.
    Added, they hold the setpoint better, or as well, on the recording of F17 (`python -m benchmarks.pid_laws`).
    Without gains, a relay experiment during the first samples finds them (Åström and Hägglund 1984): the factor jumps up and down with
    the sign of the error; the swing of the utilisation shows how strongly the level responds, and its period how fast.
    """

    setpoint: float = 0.9
    gains: Gains | None = None
    low: float = 0.01
    high: float = 100.0
    relay_step: float = 0.3
    relay_samples: int = 12
    adds: bool = True
    """Whether changes are added to the factor, or multiply it."""

    def __post_init__(self) -> None:
        """Refuse values that cannot regulate anything."""
        if not (is_finite(self.setpoint) and self.setpoint > 0):
            raise refused("setpoint", self.setpoint, "not a utilisation", "choose one above 0, as 0.9")
        check_type(
            "gains", self.gains, (Gains, type(None)), reason="not gains", remedy="pass Gains(kp, ki, kd), or None to find them"
        )
        if not (is_finite(self.low) and is_finite(self.high) and 0 < self.low < self.high):
            raise refused("low, high", (self.low, self.high), "not the ends of a range of factors", "choose 0 < low < high")
        if not (is_finite(self.relay_step) and 0 < self.relay_step < 1):
            raise refused("relay_step", self.relay_step, "not a share of the factor", "choose one between 0 and 1, as 0.3")
        if not is_integer(self.relay_samples, 1):
            raise refused("relay_samples", self.relay_samples, "not a number of samples", "choose at least 1")

    def build(self, resume: State | None = None) -> "PidLogic":
        """Return the logic, from a snapshot if there is one."""
        logic = PidLogic(self)
        if resume:
            logic.restore(resume)
        return logic


# Used where a relay experiment showed no swing at all: slow, but stable wherever the utilisation moves less than twice as much as
# the factor.
CAUTIOUS = Gains(kp=0.3, ki=0.0, kd=0.1)
GAIN_DIVISOR, TIME_FACTOR = 3.2, 2.2  # the rule of Tyreus and Luyben
KP_RANGE, KD_RANGE = (0.1, 0.5), (0.05, 0.6)
"""An experiment of a few noisy periods may be far off: within these bounds the loop is stable for any level whose utilisation changes by
at most the same share as the factor."""
MAX_ERROR = 1.5  # a burst of many times the capacity must not undo in one period what took many


class PidLogic:
    """Turns samples into factors."""

    def __init__(self, config: Pid) -> None:
        """Start in the middle, with an experiment if there are no gains yet."""
        self.config = config
        self.factor = 1.0
        self.gains = config.gains
        self._sum = 0.0
        self._previous: float | None = None
        self._relay: list[tuple[float, float]] = []

    def sample(self, measured: float | None, low: float = 0.0, high: float = math.inf) -> float:
        """Take in a utilisation (None: nothing was measured, so nothing moves), and return the factor for the next period.

        Beyond `low` and `high` a factor has no further effect at present: going there would only take time to come back.
        """
        if measured is None or not math.isfinite(measured):
            return self.factor
        error = self.config.setpoint - measured
        if self.gains is None:
            return self._experiment(error)
        change = self._change(error, self.gains)
        near = max(-1.0, min(change, 1.0))
        wanted = (
            self.factor + near if self.config.adds else self.factor * math.exp(near)
        )  # as far up as down, so that errors cancel out
        self.factor = min(max(wanted, self.config.low, low), self.config.high, max(high, self.config.low))
        # Anti-windup: errors that no factor can correct must not add up, and their sum must not outlive its cause.
        if self.factor == wanted:
            self._sum += error
        if self._sum * error < 0:
            self._sum = 0.0
        self._previous = error
        return self.factor

    def snapshot(self) -> State:
        """Return the state, as plain values."""
        gains = None if self.gains is None else vars(self.gains)
        return {"factor": self.factor, "gains": gains, "sum": self._sum, "previous": self._previous, "relay": self._relay}

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""
        self.factor, self._sum, self._previous = state["factor"], state["sum"], state["previous"]
        self.gains = None if state["gains"] is None else Gains(**state["gains"])
        self._relay = [(error, factor) for error, factor in state["relay"]]

    def _change(self, error: float, gains: Gains) -> float:
        before = error if self._previous is None else self._previous
        near, moved = (max(min(value, MAX_ERROR), -MAX_ERROR) for value in (error, error - before))
        return gains.kp * near + gains.ki * (self._sum + near) + gains.kd * moved

    def _experiment(self, error: float) -> float:
        self._relay.append((error, self.factor))
        step = self.config.relay_step
        self.factor = 1.0 + (step if error > 0 else -step)
        if len(self._relay) >= self.config.relay_samples:
            self.gains = tuned(self._relay, step)
            self._relay, self.factor = [], 1.0
        return self.factor


def tuned(relay: list[tuple[float, float]], step: float) -> Gains:
    """Return the gains that follow from a relay experiment: the error of each period, and its factor, which is 1 plus or minus the step.

    The ultimate gain is 4 step / (pi a), with `a` the amplitude of the swing: half the difference of the mean errors between periods of
    the high and of the low factor, in which bursts average out. The ultimate period is read off the changes of sign. The regulator
    adds its output to the factor, so its kp works as the integral part of the usual form, and its kd as the proportional part; the
    gains are those of Tyreus and Luyben, which overshoot little.

    >>> tuned([(0.2, 0.7), (-0.2, 1.3)] * 6, step=0.3)
    Gains(kp=0.136, ki=0.0, kd=0.597)
    """
    errors = [error for error, _ in relay]
    up, down = ([error for error, factor in relay if (factor > 1) == high and factor != 1] for high in (True, False))
    turns = [at for at in range(1, len(errors)) if errors[at] * errors[at - 1] < 0]
    amplitude = (sum(down) / len(down) - sum(up) / len(up)) / 2 if up and down else 0.0
    if amplitude <= 0 or len(turns) < 2:
        return CAUTIOUS
    period = max(2.0, 2 * (turns[-1] - turns[0]) / (len(turns) - 1))
    proportional = 4 * step / (math.pi * amplitude) / GAIN_DIVISOR
    kp, kd = proportional / (TIME_FACTOR * period), proportional
    kp, kd = (round(min(max(value, low), high), 3) for value, (low, high) in ((kp, KP_RANGE), (kd, KD_RANGE)))
    return Gains(kp=kp, ki=0.0, kd=kd)
