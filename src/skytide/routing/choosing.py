"""Whether tuples are worked on where they are or are sent to slots, and to how many: by what either takes.

In place, a batch takes as long as its tasks do that work on its partitions, each on its own: one partition with most of the tuples keeps one
core at work. Sending costs something for every tuple, and a stage more; then the work is divided evenly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from itertools import zip_longest
from math import isfinite
from typing import Any

from skytide.errors.checks import is_finite, refused

WORTH = 0.9
"""Tuples are sent once that takes less than this share of the time in place."""
ENOUGH = 1.1
"""Of several numbers of slots, the least is used that takes no more than this many times as long as the best one."""
WEIGHT = 0.5
"""How much the latest batch counts against all before it."""
SIZES_WEIGHT = 0.25
"""How much the partitions of the latest batch count: little enough that a stream with bursts is judged by what all of it takes together."""
LARGEST = 64
"""So many partitions are remembered one by one, of the others only how many they are, and their tuples."""
SLOW_WEIGHT, MOST_TIMES = 0.2, 5.0
"""What sending costs is learned slowly, and never as more than this many times what it costs usually: the first jobs of a program are slow."""

FORGOTTEN = 0.01
"""How much of what was learned of sending is forgotten with each batch that is not sent: so it is tried again, seldom."""


@dataclass(frozen=True)
class Costs:
    """What the work on tuples takes."""

    tuple_s: float = 0.0
    """Time to reduce a tuple to what is kept of its pane."""
    send_s: float = 8e-7
    """Time to send a tuple, in the task that has it."""
    stage_s: float = 0.06
    """Time of the second stage of a job, without tuples."""

    def __post_init__(self) -> None:
        """Refuse what is not a time."""
        for name, seconds in vars(self).items():
            if not (is_finite(seconds) and seconds >= 0):
                raise refused(name, seconds, "not a time in seconds", "choose a number of 0 or more")


@dataclass(frozen=True)
class Choice:
    """Where the tuples of a batch are worked on, and why."""

    slots: int
    """To how many slots they are sent; 0 if they stay where they are."""
    reason: str


@dataclass(frozen=True)
class Measured:
    """What was measured of a batch."""

    partitions: Sequence[int]
    """The tuples of each partition of the input."""
    work_s: float
    """Time of all tasks for their tuples, without waiting for them."""
    input_s: float
    """Time in which they waited for them."""
    took_s: float
    """Time of the pane level."""
    slowest_s: float
    """Time of the task that took longest."""
    cores: int
    sent: bool


def makespan(partitions: Sequence[int], cores: int) -> int:
    """Return the most tuples of a core, if each takes the next partition when it is done with one.

    >>> makespan([5, 5, 5], 2), makespan([9, 1, 1], 2), makespan([], 2)
    (10, 9, 0)
    """
    loads = [0] * max(1, min(cores, len(partitions)))
    heapify(loads)
    for tuples in partitions:
        heapreplace(loads, loads[0] + tuples)
    return max(loads)


def fewest_slots(work_s: float, slots: int, fixed_s: float = 0.0) -> int:
    """Return the fewest slots that take about as long as all of them would; `fixed_s` is what does not become less with more.

    >>> fewest_slots(0.8, 8), fewest_slots(0.8, 8, fixed_s=1.0), fewest_slots(0.0, 8)
    (8, 4, 1)
    """
    best_s = fixed_s + work_s / slots
    return next(n for n in range(1, slots + 1) if fixed_s + work_s / n <= ENOUGH * best_s + 1e-12)


def choose(partitions: Sequence[int], costs: Costs, slots: int, cores: int, *, sending: bool = False) -> Choice:
    """Return where to work on tuples that lie in partitions; `sending` is what was chosen last, which stays if it makes little difference.

    >>> slow = Costs(tuple_s=5e-6)
    >>> choose([100_000] * 4, slow, slots=4, cores=4)
    Choice(slots=0, reason='in place: 4 partitions keep 4 cores at work')
    >>> choose([400_000, 0, 0], slow, slots=4, cores=4)
    Choice(slots=4, reason='sent to 4 slots: one of 3 partitions has 100 % of the tuples, 0.88 s instead of 2.00 s')
    >>> choose([400_000], Costs(tuple_s=5e-7), slots=4, cores=4)
    Choice(slots=0, reason='in place: 0.20 s, sending would take 0.43 s')
    """
    total, longest, most = sum(partitions), makespan(partitions, cores), max(1, min(slots, cores))
    here_s, send_s = costs.tuple_s * longest, costs.stage_s + costs.send_s * longest
    work_s = costs.tuple_s * total
    best_s = send_s + work_s / most
    if longest * cores <= total * ENOUGH:
        return Choice(0, f"in place: {len(partitions)} partitions keep {cores} cores at work")
    if best_s > (1.0 if sending else WORTH) * here_s or most == 1:
        return Choice(0, f"in place: {here_s:.2f} s, sending would take {best_s:.2f} s")
    chosen = fewest_slots(work_s, most, send_s)
    takes_s, share = send_s + work_s / chosen, max(partitions) / max(total, 1)
    having = f"one of {len(partitions)} partitions has {100 * share:.0f} %" if len(partitions) > 1 else "one partition has all"
    return Choice(chosen, f"sent to {chosen} slots: {having} of the tuples, {takes_s:.2f} s instead of {here_s:.2f} s")


class Chooser:
    """Chooses batch after batch: learns what work and sending cost, and goes by the partitions of the latest batches together."""

    def __init__(self, usual: Costs) -> None:
        """Start with the usual costs, in place."""
        self.usual = self.costs = usual
        self.sending = False
        self._cores = 1
        self._batches = 0
        self._largest: list[float] = []
        self._others = (0.0, 0.0)  # how many partitions there are beside the largest, and their tuples
        self._batch_s: float | None = None  # what a batch takes beside its tasks
        self._input_s = 0.0  # what it takes to read a tuple where it is

    def learn(self, seen: Measured) -> None:
        """Take in what was measured of a batch."""
        total = sum(seen.partitions)
        self.sending, self._cores = seen.sent, max(1, seen.cores)
        if not total:
            return
        tuple_s = seen.work_s / total
        known = self.costs.tuple_s
        self.costs = replace(self.costs, tuple_s=known + WEIGHT * (tuple_s - known) if known else tuple_s)
        if not seen.sent:
            forgotten_s = FORGOTTEN * (self.usual.send_s - self.costs.send_s)  # whatever made it slow may have passed
            self.costs = replace(self.costs, send_s=self.costs.send_s + forgotten_s)
            self._input_s += (WEIGHT if self._largest else 1.0) * (seen.input_s / total - self._input_s)
        self._learn_rest(seen, seen.took_s - seen.slowest_s)
        sizes = sorted(seen.partitions, reverse=True)  # it is their sizes that count, not their numbers
        self._batches += 1
        weight = max(SIZES_WEIGHT, 1 / self._batches)
        largest = zip_longest(sizes[:LARGEST], self._largest, fillvalue=0)
        self._largest = [weight * new + (1 - weight) * old for new, old in largest]
        others = len(sizes[LARGEST:]), sum(sizes[LARGEST:])
        self._others = (
            weight * others[0] + (1 - weight) * self._others[0],
            weight * others[1] + (1 - weight) * self._others[1],
        )

    def _learn_rest(self, seen: Measured, rest_s: float) -> None:
        """Learn from what a batch took beside its slowest task: in place Spark's own time, sent that of sending, too."""
        if not isfinite(rest_s) or rest_s <= 0:
            return  # a clock that was set, or none
        if not seen.sent:
            self._batch_s = rest_s if self._batch_s is None else min(rest_s, self._batch_s + SLOW_WEIGHT * (rest_s - self._batch_s))
            return
        each_s = (rest_s - (self._batch_s or 0.0) - self.usual.stage_s) / makespan(seen.partitions, seen.cores) - self._input_s
        each_s = min(max(each_s, 0.0), MOST_TIMES * self.usual.send_s)
        self.costs = replace(self.costs, send_s=self.costs.send_s + SLOW_WEIGHT * (each_s - self.costs.send_s))

    def choose(self, slots: int) -> Choice:
        """Return where the tuples of the next batch are worked on, if there are so many slots."""
        if not self._largest:
            return Choice(0, "in place: nothing is known yet")
        count = round(self._others[0])
        others = [round(self._others[1] / count)] * count if count else []
        sizes = [round(tuples) for tuples in self._largest if tuples >= 1] + others
        return choose(sizes, self.costs, slots, self._cores, sending=self.sending)

    def slots_to_make(self, tuples: int, slots: int) -> int:
        """Return in how many slots a source of our own makes tuples: all of them, unless it is too little work."""
        if not self.costs.tuple_s:
            return slots
        return fewest_slots(self.costs.tuple_s * tuples, slots, 0.1 * self.usual.stage_s)

    def snapshot(self) -> dict[str, Any]:
        """Return the state, as plain values."""
        costs = [self.costs.tuple_s, self.costs.send_s, self._input_s]
        sizes = {"largest": self._largest, "others": list(self._others), "batches": self._batches}
        return {"costs": costs, "sending": self.sending, "cores": self._cores, "batch_s": self._batch_s, **sizes}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        tuple_s, send_s, self._input_s = state["costs"]
        self.costs = replace(self.usual, tuple_s=tuple_s, send_s=send_s)
        self.sending, self._cores, self._batch_s = state["sending"], state["cores"], state["batch_s"]
        self._largest, self._others = list(state["largest"]), (state["others"][0], state["others"][1])
        self._batches = state["batches"]
