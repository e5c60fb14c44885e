"""Splitter, replicas and merger of a keyed operator while the state of keys moves, tuple by tuple (P2 §4.2, §5.2.2).

The splitter takes tuples from its input in order and sends each to the replica of its key. A replica serves a queue in order; every
`slide`-th tuple of a key triggers a computation, whose result the merger passes on. When the routing changes, each replica finds
one message in its queue with all keys that it loses and receives. It saves the states of the former, one after the other, and can load
those of the latter once others have saved them. The three protocols differ in who waits for that.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skytide.workloads.identity import derive

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Costs:
    """The times of work, in seconds."""

    route_s: float = 1e-6
    """Time of the splitter per tuple."""
    insert_s: float = 1e-6
    """Time of a replica per tuple."""
    compute_s: float = 4.3e-4
    """Mean additional time of a replica for a tuple that triggers a computation."""
    compute_cv: float = 0.5
    save_s: float = 1e-5
    """Time of the old replica to save the state of a key."""
    acquire_s: float = 1e-5
    """Time of the new replica to load it."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Keys, their frequencies, and the replica of each before and after the change."""

    shares: Floats
    before: Numbers
    after: Numbers
    rates: Sequence[tuple[float, float]]
    """Rates in tuples per second, and how many seconds each lasts, one after the other from time 0 on."""
    change_s: float
    costs: Costs = field(default_factory=Costs)
    slide: int = 25

    @property
    def replicas(self) -> int:
        """Return the largest number of replicas."""
        return int(max(self.before.max(), self.after.max())) + 1

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Return which keys move."""
        return np.asarray(self.before != self.after)


class Tuples(NamedTuple):
    """Tuples in order of arrival: when each comes, its key, whether it triggers a computation, and its cost for a replica."""

    at_s: Floats
    key: Numbers
    triggers: NDArray[np.bool_]
    cost_s: Floats


@dataclass(frozen=True, eq=False)
class Outcome:
    """When each tuple was done, when the last state was saved (the same with all protocols), and when the last state was loaded."""

    done_s: Floats
    saved_s: float
    migrated_s: float


def deal(shares: Floats, replicas: int, but: Numbers | None = None, used: Floats | None = None) -> Numbers:
    """Return a replica for each key: the most frequent key first, each to the least loaded replica except the one in `but`.

    >>> deal(np.array([0.5, 0.3, 0.2]), 2).tolist()
    [0, 1, 1]
    """
    loads = np.zeros(replicas) if used is None else used.copy()
    at = np.zeros(len(shares), np.int64)
    for key in np.argsort(-shares, kind="stable").tolist():
        free = loads.copy()
        if but is not None and but[key] < replicas:
            free[but[key]] = np.inf
        at[key] = int(np.argmin(free))
        loads[at[key]] += shares[key]
    return at


def deal_again(shares: Floats, before: Numbers, replicas: int, stay: float, seed: int) -> Numbers:
    """Return new replicas for all keys but a random share that stays; loads are as even as keys allow."""
    stays = derive(seed, "migration", "stay").random(len(shares)) < stay
    at = before.copy()
    used = np.bincount(before[stays], shares[stays], minlength=replicas).astype(np.float64)
    at[~stays] = deal(shares[~stays], replicas, before[~stays], used)
    return at


def draw_tuples(scene: Scene, seed: int) -> Tuples:
    """Return random tuples: Poisson arrivals, independent keys, windows anywhere within their slides, gamma-distributed costs."""
    random = derive(seed, "migration", "tuples")
    times, start_s = [], 0.0
    for rate_hz, length_s in scene.rates:
        count = random.poisson(rate_hz * length_s)
        times.append(start_s + np.sort(random.random(count)) * length_s)
        start_s += length_s
    at_s = np.concatenate(times)
    key = np.searchsorted(np.cumsum(scene.shares / scene.shares.sum())[:-1], random.random(len(at_s)), side="right")
    triggers = (_ranks(key) + random.integers(0, scene.slide, len(scene.shares))[key]) % scene.slide == scene.slide - 1
    costs = scene.costs
    shape = 1 / max(costs.compute_cv, 1e-6) ** 2
    cost_s = np.full(len(at_s), costs.insert_s)
    cost_s[triggers] += random.gamma(shape, costs.compute_s / shape, int(triggers.sum()))
    return Tuples(at_s, key, triggers, cost_s)


def in_turn(ready_s: Floats, cost_s: Floats, free_s: float = 0.0) -> Floats:
    """Return when each item is done if one server takes them in order, as soon as it is free.

    >>> in_turn(np.array([0.0, 1.0, 5.0]), np.array([2.0, 2.0, 1.0]), free_s=0.5).tolist()
    [2.5, 4.5, 6.0]
    """
    spent = np.cumsum(cost_s)
    return np.asarray(spent + np.maximum.accumulate(np.maximum(ready_s, free_s) - (spent - cost_s)))


@dataclass(frozen=True, eq=False)
class Replica:
    """A replica at the change: when it has handled its message, and which keys it receives, in the order in which they are saved."""

    number: int
    free_s: float
    incoming: Numbers
    saved_s: Floats


class Protocol(ABC):
    """How a change continues after each replica has read its message."""

    name: str

    def play(self, scene: Scene, tuples: Tuples) -> Outcome:
        """Return the outcome of a change on given tuples."""
        sent_s = in_turn(tuples.at_s, np.full(len(tuples.at_s), scene.costs.route_s))
        old = sent_s <= scene.change_s
        done_s = np.empty(len(sent_s))
        saved_s = np.full(len(scene.shares), scene.change_s)
        free_s = np.full(scene.replicas, scene.change_s)
        for number in range(scene.replicas):
            mine = np.flatnonzero(old & (scene.before[tuples.key] == number))
            if len(mine):
                done_s[mine] = in_turn(sent_s[mine], tuples.cost_s[mine])
                free_s[number] = max(scene.change_s, done_s[mine[-1]])
            handed = np.flatnonzero((scene.before == number) & scene.moved)
            saved_s[handed] = free_s[number] + scene.costs.save_s * np.arange(1, len(handed) + 1)
            free_s[number] += scene.costs.save_s * len(handed)
        replicas = []
        for number in range(scene.replicas):
            incoming = np.flatnonzero((scene.after == number) & scene.moved)
            incoming = incoming[np.argsort(saved_s[incoming], kind="stable")]
            replicas.append(Replica(number, float(free_s[number]), incoming, saved_s[incoming]))
        migrated_s = self.finish(scene, tuples, sent_s, np.flatnonzero(~old), replicas, done_s)
        return Outcome(done_s, float(saved_s.max()), migrated_s)

    @abstractmethod
    def finish(
        self, scene: Scene, tuples: Tuples, sent_s: Floats, new: Numbers, replicas: Sequence[Replica], done_s: Floats
    ) -> float:
        """Serve the tuples that the splitter sent after the change, and return when all states had moved."""


class ReplicasBlock(Protocol):
    """R-BLK: a replica that receives keys does nothing until it has all of them; the splitter continues."""

    name = "R-BLK"

    def finish(
        self, scene: Scene, tuples: Tuples, sent_s: Floats, new: Numbers, replicas: Sequence[Replica], done_s: Floats
    ) -> float:
        """Let each replica wait, then serve its queue, and return when all states had moved."""
        ends = [scene.change_s]
        for replica in replicas:
            free_s = replica.free_s
            if len(replica.incoming):
                free_s = float(in_turn(replica.saved_s, np.full(len(replica.incoming), scene.costs.acquire_s), free_s)[-1])
                ends.append(free_s)
            mine = new[scene.after[tuples.key[new]] == replica.number]
            done_s[mine] = in_turn(sent_s[mine], tuples.cost_s[mine], free_s)
        return max(ends)


class NobodyBlocks(Protocol):
    """MP: a replica puts aside the tuples of keys whose state has not come yet, and serves all others."""

    name = "MP"

    def finish(
        self, scene: Scene, tuples: Tuples, sent_s: Floats, new: Numbers, replicas: Sequence[Replica], done_s: Floats
    ) -> float:
        """Serve each replica's queue; between tuples, and when it is idle, a replica checks which states have come. Return when all had moved."""
        of = scene.after[tuples.key[new]]
        return max(_serve(scene, tuples, sent_s, new[of == replica.number], replica, done_s) for replica in replicas)


class SplitterBlocks(NobodyBlocks):
    """S-BLK: the splitter holds the tuples of moving keys until all states have moved, and then sends them before it reads on.

    Replicas work as with MP, but never have to put anything aside.
    """

    name = "S-BLK"

    def finish(
        self, scene: Scene, tuples: Tuples, sent_s: Floats, new: Numbers, replicas: Sequence[Replica], done_s: Floats
    ) -> float:
        """Find out when all states have moved, send the held tuples, then later ones, serve them all, and return when all had moved."""
        moving = scene.moved[tuples.key]
        end_s = super().finish(scene, tuples, sent_s, new[~moving[new]], replicas, done_s)
        kept, later = new[(sent_s[new] <= end_s) & moving[new]], new[sent_s[new] > end_s]
        route_s, sent_s = scene.costs.route_s, sent_s.copy()
        sent_s[kept] = end_s + route_s * np.arange(1, len(kept) + 1)
        sent_s[later] = in_turn(tuples.at_s[later], np.full(len(later), route_s), end_s + route_s * len(kept))
        return super().finish(scene, tuples, sent_s, new[np.argsort(sent_s[new], kind="stable")], replicas, done_s)


def _serve(scene: Scene, tuples: Tuples, sent_s: Floats, mine: Numbers, replica: Replica, done_s: Floats) -> float:
    """Serve the tuples of a replica that never waits, and return when it had loaded its last state."""
    pending: dict[int, list[int]] = {key: [] for key in replica.incoming.tolist()}
    coming = list(zip(replica.saved_s.tolist(), replica.incoming.tolist(), strict=True))[::-1]
    now_s, cost_s, taken, had_s = replica.free_s, tuples.cost_s, 0, scene.change_s

    def load_states(until_s: float) -> None:
        """Load the states that are saved by a time, or meanwhile; the tuples of a key that were put aside follow at once."""
        nonlocal now_s, had_s
        while coming and coming[-1][0] <= max(now_s, until_s):
            saved_s, key = coming.pop()
            now_s = had_s = max(now_s, saved_s) + scene.costs.acquire_s
            for tuple_ in pending.pop(key):
                now_s += cost_s[tuple_]
                done_s[tuple_] = now_s

    for index, ready_s, key in zip(mine.tolist(), sent_s[mine].tolist(), tuples.key[mine].tolist(), strict=True):
        if not coming:
            break
        load_states(ready_s)
        taken += 1
        if key in pending:
            pending[key].append(index)
        else:
            now_s = max(now_s, ready_s) + cost_s[index]
            done_s[index] = now_s
    load_states(inf)
    rest = mine[taken:]
    if len(rest):
        done_s[rest] = in_turn(sent_s[rest], cost_s[rest], now_s)
    return had_s


PROTOCOLS: dict[str, Protocol] = {each.name: each for each in (NobodyBlocks(), ReplicasBlock(), SplitterBlocks())}


def _ranks(key: Numbers) -> Numbers:
    """Return the number of each tuple among those of its key, from 0 on."""
    order = np.argsort(key.astype(np.uint16) if key.max(initial=0) < 2**16 else key, kind="stable")  # a radix sort where possible
    counts = np.bincount(key)
    ranks = np.empty(len(key), np.int64)
    ranks[order] = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks
