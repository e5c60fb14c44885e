"""Protocols of state migration against a slow simulation, event by event, and what each of them promises (P2 §4.2)."""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide_lab.sim.migration import (
    PROTOCOLS,
    Costs,
    Floats,
    NobodyBlocks,
    Numbers,
    Protocol,
    Replica,
    Scene,
    Tuples,
    deal,
    deal_again,
    draw_tuples,
)

SLOW = Costs(
    route_s=0.00105713, insert_s=0.00211327, compute_s=0.05, save_s=0.01034719, acquire_s=0.00719341
)  # nothing ends at the same time


def toy(seed: int, keys: int = 14, costs: Costs = SLOW, stay: float = 0.3) -> Scene:
    """Return a scene in which two replicas become three, under more load than two can serve."""
    shares = np.random.default_rng(seed).uniform(1, 3, keys)
    before = deal(shares, 2)
    return Scene(shares, before, deal_again(shares, before, 3, stay, seed), ((60.0, 2.0), (150.0, 4.0)), 3.0, costs, slide=4)


class Slow:
    """The same event by event, with nothing computed ahead."""

    def __init__(self, scene: Scene, tuples: Tuples, protocol: str) -> None:
        self.scene, self.tuples, self.protocol = scene, tuples, protocol
        self.events: list[tuple[float, int, object]] = []
        self.numbers = count()
        self.done: dict[int, float] = {}
        self.input: deque[int] = deque()
        self.kept: deque[int] = deque()
        self.flushing: list[int] = []
        self.routing: tuple[int, bool] | None = None
        self.turn = 0
        self.changed = self.released = False
        n = scene.replicas
        self.queue: list[deque[int | None]] = [deque() for _ in range(n)]
        self.busy = [False] * n
        self.to_save: list[deque[int]] = [deque() for _ in range(n)]
        self.notified = [False] * n
        self.rolled: list[deque[int]] = [deque() for _ in range(n)]
        self.aside: dict[int, list[int]] = {}
        self.missing = [[k for k in range(len(scene.shares)) if scene.moved[k] and scene.after[k] == r] for r in range(n)]
        self.saved: dict[int, float] = {}

    def at(self, time_s: float, what: object) -> None:
        heapq.heappush(self.events, (time_s, next(self.numbers), what))

    def run(self) -> dict[int, float]:
        for index, time_s in enumerate(self.tuples.at_s.tolist()):
            self.at(time_s, ("arrives", index))
        self.at(self.scene.change_s, ("change",))
        while self.events:
            self.now, _, what = heapq.heappop(self.events)
            getattr(self, what[0])(*what[1:])  # type: ignore[index]
        return self.done

    def arrives(self, index: int) -> None:
        self.input.append(index)
        self.route()

    def route(self) -> None:
        if self.routing is None and ((self.kept and self.released) or self.input):
            flush = bool(self.kept and self.released)
            self.routing = ((self.kept if flush else self.input).popleft(), flush)
            self.turn += 1
            self.at(self.now + self.scene.costs.route_s, ("routed", self.turn))

    def routed(self, turn: int) -> None:
        if turn != self.turn or self.routing is None:
            return
        index, _ = self.routing
        self.routing = None
        key = self.tuples.key[index]
        if self.changed and self.protocol == "S-BLK" and self.scene.moved[key] and not self.released:
            self.kept.append(index)
        else:
            replica = int((self.scene.after if self.changed else self.scene.before)[key])
            self.queue[replica].append(index)
            self.work(replica)
        self.route()

    def change(self) -> None:
        self.changed = True
        for replica in range(self.scene.replicas):
            self.queue[replica].append(None)
        for replica in range(self.scene.replicas):
            self.work(replica)
        self.release()

    def release(self) -> None:
        if self.protocol == "S-BLK" and self.changed and not self.released and not any(self.missing):
            self.released = True
            if self.routing is not None:  # reads it again after what was kept
                self.input.appendleft(self.routing[0])
                self.routing = None
            self.route()

    def start(self, replica: int, takes_s: float, *what: object) -> None:
        self.busy[replica] = True
        self.at(self.now + takes_s, ("ended", replica, *what))

    def ended(self, replica: int, what: str, number: int) -> None:
        self.busy[replica] = False
        if what == "tuple":
            self.done[number] = self.now
        elif what == "save":
            self.saved[number] = self.now
            self.work(int(self.scene.after[number]))
        else:
            self.missing[replica].remove(number)
            self.rolled[replica].extend(self.aside.pop(number, []))
            self.release()
        self.work(replica)

    def work(self, replica: int) -> None:
        costs = self.scene.costs
        while not self.busy[replica]:
            ready = sorted((self.saved[key], key) for key in self.missing[replica] if key in self.saved)
            if self.to_save[replica]:
                self.start(replica, costs.save_s, "save", self.to_save[replica].popleft())
            elif self.rolled[replica]:
                index = self.rolled[replica].popleft()
                self.start(replica, float(self.tuples.cost_s[index]), "tuple", index)
            elif self.notified[replica] and ready:
                self.start(replica, costs.acquire_s, "acquire", ready[0][1])
            elif (self.notified[replica] and self.missing[replica] and self.protocol == "R-BLK") or not self.queue[replica]:
                return
            else:
                index_or_message = self.queue[replica].popleft()
                if index_or_message is None:
                    self.notified[replica] = True
                    moving = np.flatnonzero(self.scene.moved & (self.scene.before == replica))
                    self.to_save[replica].extend(moving.tolist())
                elif self.notified[replica] and (key := int(self.tuples.key[index_or_message])) in self.missing[replica]:
                    self.aside.setdefault(key, []).append(index_or_message)
                else:
                    self.start(replica, float(self.tuples.cost_s[index_or_message]), "tuple", index_or_message)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
@given(seed=st.integers(0, 10_000), keys=st.integers(2, 20), stay=st.sampled_from([0.0, 0.2, 0.9, 1.0]))
def test_it_goes_as_event_by_event(protocol: Protocol, seed: int, keys: int, stay: float) -> None:
    scene = toy(seed, keys, stay=stay)
    tuples = draw_tuples(scene, seed)
    expected = Slow(scene, tuples, protocol.name).run()
    found = protocol.play(scene, tuples).done_s
    assert len(expected) == len(found)
    assert found.tolist() == pytest.approx([expected[index] for index in range(len(found))], abs=1e-7)


def keys_keep_their_order(protocol: Protocol, seed: int) -> None:
    """R1: each tuple is done once, after it came, and the tuples of a key one after the other."""
    scene = toy(seed)
    tuples = draw_tuples(scene, seed)
    done = protocol.play(scene, tuples).done_s
    assert (done >= tuples.at_s + scene.costs.route_s + tuples.cost_s - 1e-9).all()
    for key in range(len(scene.shares)):
        mine = tuples.key == key
        assert (np.diff(done[mine]) >= tuples.cost_s[mine][1:] - 1e-9).all()


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
@given(seed=st.integers(0, 10_000))
def test_nothing_is_lost_and_keys_keep_their_order(protocol: Protocol, seed: int) -> None:
    keys_keep_their_order(protocol, seed)


class Hasty(NobodyBlocks):
    """Does not wait for states."""

    name = "hasty"

    def finish(
        self, scene: Scene, tuples: Tuples, sent_s: Floats, new: Numbers, replicas: Sequence[Replica], done_s: Floats
    ) -> float:
        at_once = [replace(each, incoming=each.incoming[:0], saved_s=each.saved_s[:0]) for each in replicas]
        return super().finish(scene, tuples, sent_s, new, at_once, done_s)


def test_a_replica_that_does_not_wait_for_states_is_caught() -> None:
    with pytest.raises(AssertionError):
        keys_keep_their_order(Hasty(), seed=1)


@given(st.integers(0, 10_000))
def test_uninvolved_replicas_are_not_disturbed(seed: int) -> None:
    """R3: with one key moved from replica 0 to 1, replica 2 has the times it has with none moved, if the splitter does not wait."""
    scene = replace(toy(seed), before=deal(toy(seed).shares, 3))
    still = replace(scene, after=scene.before)
    moved = scene.before.copy()
    moved[np.flatnonzero(moved == 0)[0]] = 1
    tuples = draw_tuples(scene, seed)
    bystanders = scene.before[tuples.key] == 2
    for name in ("MP", "R-BLK"):
        one, two = (PROTOCOLS[name].play(each, tuples).done_s for each in (still, replace(scene, after=moved)))
        assert one[bystanders].tolist() == pytest.approx(two[bystanders].tolist())


def test_without_a_change_all_protocols_are_the_same() -> None:
    scene = replace(toy(3), after=toy(3).before)
    tuples = draw_tuples(scene, 3)
    one, *others = (each.play(scene, tuples) for each in PROTOCOLS.values())
    for other in others:
        assert other.done_s.tolist() == pytest.approx(one.done_s.tolist(), abs=3 * scene.costs.route_s)
    assert one.migrated_s == scene.change_s


def test_keys_are_dealt_evenly_and_the_asked_share_moves() -> None:
    shares = 1 / np.arange(1, 2_001) ** 0.7
    before = deal(shares, 6)
    after = deal_again(shares, before, 8, 0.2, seed=1)
    for at, replicas in ((before, 6), (after, 8)):
        loads = np.bincount(at, shares, minlength=replicas)
        assert loads.max() < 1.01 * loads.mean()
    assert np.mean(before != after) == pytest.approx(0.8, abs=0.03)


def test_tuples_come_as_asked() -> None:
    scene = toy(1, keys=5)
    tuples = draw_tuples(replace(scene, rates=((3_000.0, 2.0), (6_000.0, 2.0))), seed=2)
    assert (np.diff(tuples.at_s) >= 0).all()
    assert np.sum(tuples.at_s < 2.0) == pytest.approx(6_000, rel=0.05)
    assert np.sum(tuples.at_s >= 2.0) == pytest.approx(12_000, rel=0.05)
    for key in range(5):
        places = np.flatnonzero(tuples.triggers[tuples.key == key])
        assert (np.diff(places) == scene.slide).all()
    mean = tuples.cost_s[tuples.triggers].mean() - SLOW.insert_s
    assert mean == pytest.approx(SLOW.compute_s, rel=0.05)
    assert set(tuples.cost_s[~tuples.triggers].tolist()) == {SLOW.insert_s}
