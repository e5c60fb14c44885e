"""Learns what to do at each load of a worker: Sarsa(0) with one table per worker (P4 §IV-C, SPEC E6)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skytide.control.controller import State
from skytide.control.judging import Action, Judge, Verdict, WorkersByLoad
from skytide.control.models.sizing import ROUNDING
from skytide.errors import InvalidInput
from skytide.errors.checks import brief, is_finite

IN, NONE, OUT = range(3)
ACTIONS: dict[int, Action] = {IN: "in", OUT: "out"}
STEP = 0.05  # difference in load between two states
STATES = round(1 / STEP) + 1
DISCOUNT = 0.1  # P4's beta
PENALTY = -1.0  # the reward if there was no room for an action; P4 says only that it is negative
FADE = 0.05  # share of a penalty that is given back at each judgement of the host: half of it after 14 judgements
START_IN, START_NONE, START_OUT = (1.0, 0.85, 0.45, 0.38, 0.32), (0.4, 0.7, 0.85, 0.85, 0.7, 0.4), (0.3, 0.4, 0.75, 0.85, 1.0)
"""First values of the three actions at some loads, near those of P4 Tab. I; between these loads they are linear."""
MARGIN = 0.01  # how far an action that breaks the order of actions is put below the best that does not

Values = list[list[float]]
"""For each state, the expected value of scaling in, of doing nothing and of scaling out."""


@dataclass(frozen=True)
class Sarsa(WorkersByLoad):
    """Begins with thresholds on the load of each worker, and learns from the effect of each action.

    It has one table per executor (P4). See [Controllers](scaling.md#controllers).

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
    impact
        How much is learned from the first visit of a state.
    duration
        The number of visits after which it is half as much.

    Raises
    ------
    InvalidInput
        If an option makes no sense, or a threshold is not a step of 0.05.

    Examples
    --------
    >>> [verdict.action for verdict in Sarsa().judge().judge({"1": 0.95, "2": 0.5}, now_s=0)]
    ['out']
    """

    impact: float = 0.2
    duration: float = 80.0

    def __post_init__(self) -> None:
        """Refuse options that make no sense."""
        super().__post_init__()
        numbers = is_finite(self.impact) and is_finite(self.duration)
        if not (numbers and 0 <= self.impact <= 1 and self.duration > 0):
            raise InvalidInput(
                value=f"impact={brief(self.impact)}, duration={brief(self.duration)}",
                reason="not a share and a number of times",
                remedy="choose 0 <= impact <= 1 and duration > 0, as 0.2 and 80",
            )
        for name in ("lower", "target", "upper"):
            load = getattr(self, name)
            if abs(load / STEP - round(load / STEP)) > 1e-6:
                below = state_of(load) * STEP
                raise InvalidInput(
                    value=f"{name}={brief(load)}",
                    reason=f"tables have steps of {STEP:g}, and would act at {below:.2f}",
                    remedy=f"choose {below:.2f} or {below + STEP:.2f}",
                )

    def judge(self, resume: State | None = None) -> "SarsaJudge":
        """Return the judge."""
        return SarsaJudge(self, **(resume or {}))

    def rate(self, visits: int) -> float:
        """Return how much is learned in a state that has been visited `visits` times (P4's alpha).

        >>> Sarsa().rate(0), Sarsa().rate(80)
        (0.2, 0.1)
        """
        return self.impact * self.duration / (self.duration + visits)


@dataclass
class Table:
    """What has been learned about a worker."""

    values: Values
    visits: list[int]
    last: tuple[float, int] | None = None
    """The load at which an action was chosen, and the action, until something is learned from it."""
    penalised: bool = False
    debts: list[float] = field(default_factory=lambda: [0.0] * STATES)
    """For each state, how much penalties have taken from scaling in and not given back yet."""

    def fade(self) -> None:
        """Restore some of what penalties took: that there was no room then says little about now."""
        for state, debt in enumerate(self.debts):
            if debt:
                back = debt if debt < MARGIN else FADE * debt
                self.values[state][IN] += back
                self.debts[state] -= back


class SarsaJudge(Judge):
    """Keeps one table per host, which comes and goes with it."""

    def __init__(
        self, config: Sarsa, tables: Mapping[str, Any] | None = None, resting_since_s: Mapping[str, float] | None = None
    ) -> None:
        """Start with no tables, or continue from a snapshot."""
        super().__init__(config.grace_s, resting_since_s)
        self._config = config
        self.tables = {host: _restored(state) for host, state in (tables or {}).items()}

    def snapshot(self) -> State:
        """Return all tables."""
        return {**super().snapshot(), "tables": {host: _plain(table) for host, table in self.tables.items()}}

    def judge(self, loads: Mapping[str, float], *, now_s: float) -> list[Verdict]:
        """Learn from the latest action of each host, and return the next actions."""
        self._forget(loads)
        self.tables = {host: self.tables.get(host) or self._new() for host in loads}
        verdicts = []
        for host, load in loads.items():
            if self._rests(host, now_s):
                continue
            table = self.tables[host]
            table.fade()
            if table.last is not None:
                self._learn(table, *table.last, load)
            values = table.values[state_of(load)]
            action = best(values)
            table.last, table.penalised = (load, action), False
            if action != NONE:
                word = "out" if action == OUT else "in"
                why = (
                    f"load {load:.2f} of worker {host}: scaling {word} is worth {values[action]:.2f}, no action {values[NONE]:.2f}"
                )
                verdicts.append(Verdict(host, ACTIONS[action], load, why))
        return verdicts

    def acted(self, hosts: Collection[str], *, touched: Collection[str], now_s: float) -> None:
        """Let hosts rest; those that were only affected by the actions of others learn nothing."""
        super().acted(hosts, touched=touched, now_s=now_s)
        for host in set(touched) - set(hosts):
            self.undone(host)

    def refused(self, host: str) -> None:
        """Punish a host that could not be released. Asking for help in vain is not punished: the overload is real even if there is no room.

        P4 speaks of decisions in general, with a release as its example. If both were punished, a host that asks twice while all others are
        full would never ask again (X16 shows it).
        """
        table = self.tables.get(host)
        if table and table.last and table.last[1] == IN:
            table.penalised = True
        else:
            self.undone(host)

    def undone(self, host: str) -> None:
        """Learn nothing from the action of a host, unless it was refused."""
        if host in self.tables and not self.tables[host].penalised:
            self.tables[host].last = None

    def _new(self) -> Table:
        return Table(start_values(self._config), [0] * STATES)

    def _learn(self, table: Table, before: float, action: int, now: float) -> None:
        """Learn from an action. Doing nothing where a refusal has just ruled out a release was no choice, and teaches nothing."""
        state = state_of(before)
        if action == NONE and table.debts[state] and not table.penalised:
            return
        reward = PENALTY if table.penalised else reward_of(before, now, self._config.target)
        rate = self._config.rate(table.visits[state])
        # P4's example takes the value of the same action in the state that follows.
        following = table.values[state_of(now)][action]
        worth = table.values[state][action]
        table.values[state][action] = learned(worth, reward, following, rate)
        table.visits[state] += 1
        if table.penalised:  # there was no room: that does not depend on the load, so it fades
            table.debts[state] += worth - table.values[state][action]
        elif rate > 0:
            make_monotonic(table.values, state)


def state_of(load: float) -> int:
    """Return the state of a load: loads are rounded down, so that thresholds of 0.3 and 0.8 act at 0.3 and 0.8.

    >>> state_of(0.71), state_of(0.79), state_of(0.8), state_of(1.7)
    (14, 15, 16, 20)
    """
    return int(min(max(load, 0.0), 1.0) / STEP + ROUNDING)


def reward_of(before: float, now: float, target: float) -> float:
    """Return 1, or more if the load came nearer to the target, or less if it moved away from it.

    >>> round(reward_of(0.7, 0.9, target=0.6), 3)
    0.667
    """
    was, became = (abs(target - min(load, 1.0)) / target for load in (before, now))
    return 1.0 + was - became


def learned(value: float, reward: float, following: float, rate: float) -> float:
    """Return the new value of an action in a state.

    >>> round(learned(0.85, reward=0.66, following=0.5, rate=0.2), 3)
    0.822
    """
    return (1 - rate) * value + rate * (reward + DISCOUNT * following)


def best(values: list[float]) -> int:
    """Return the action with the highest value; in doubt, none."""
    return max((NONE, OUT, IN), key=lambda action: values[action])


def start_values(config: Sarsa) -> Values:
    """Return a table that acts like the thresholds: near the figures of P4 Tab. I, extended to all loads.

    >>> rows = start_values(Sarsa())
    >>> [[round(value, 2) for value in rows[state_of(load)]] for load in (0.2, 0.7, 0.8, 1.0)]
    [[0.88, 0.64, 0.37], [0.42, 0.85, 0.8], [0.38, 0.7, 0.85], [0.32, 0.4, 1.0]]
    """
    lower, target, upper = (state_of(load) for load in (config.lower, config.target, config.upper))
    lower, states = max(1, lower), np.arange(STATES)
    scale_in = np.interp(states, [0, lower - 1, target, upper, STATES - 1], START_IN)
    none = np.interp(states, [0, lower - 1, lower, upper - 1, upper, STATES - 1], START_NONE)
    scale_out = np.interp(states, [0, lower, target, upper, STATES - 1], START_OUT)
    return [[float(value) for value in row] for row in np.column_stack([scale_in, none, scale_out])]


def make_monotonic(values: Values, learned_in: int) -> None:
    """Let no higher load call for less than the state `learned_in`, and no lower load for more.

    P4 says that a host which scales out at a load must not scale in at a higher one. What was learned last counts: actions that do
    not agree with it fall just below the best that does, so that later learning can raise them again.
    """
    chosen = best(values[learned_in])
    for state, row in enumerate(values):
        if state == learned_in:
            continue
        allowed = range(chosen, OUT + 1) if state > learned_in else range(chosen + 1)
        most = max(row[action] for action in allowed)
        for action in set(range(3)) - set(allowed):
            row[action] = min(row[action], most - MARGIN)


def _plain(table: Table) -> State:
    last = None if table.last is None else list(table.last)
    return {
        "values": [list(row) for row in table.values],
        "visits": list(table.visits),
        "last": last,
        "penalised": table.penalised,
        "debts": list(table.debts),
    }


def _restored(state: Mapping[str, Any]) -> Table:
    last = None if state["last"] is None else (float(state["last"][0]), int(state["last"][1]))
    return Table(
        [list(row) for row in state["values"]], list(state["visits"]), last, bool(state["penalised"]), list(state["debts"])
    )
