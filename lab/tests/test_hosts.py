"""FUGU's hosts in virtual time: no work is lost, everything follows from the seed, and more hosts never mean more load."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skytide.control.controller import State
from skytide.control.controllers.sarsa import Sarsa
from skytide.control.controllers.thresholds import GlobalThresholds, LocalThresholds
from skytide.control.guard import Guard
from skytide.control.judging import Judge, Verdict, WorkersByLoad
from skytide.errors import InvalidInput
from skytide.loop.cycle import Loop
from skytide_lab.hosts.manager import Manager
from skytide_lab.sim.plants.hosts import (
    HOSTS,
    INTERVAL_S,
    QUERIES,
    Day,
    Fugu,
    Point,
    backlog_wait_s,
    operators,
    run_fugu,
    steady_wait_s,
)

TECHNIQUES: list[WorkersByLoad] = [LocalThresholds(), GlobalThresholds(), Sarsa()]


def day(points: int = 60, seed: int = 0, sectors: int = 4) -> Day:
    rng = np.random.default_rng(seed)
    swing = 1 + 0.9 * np.sin(np.arange(points) / points * 12)[:, None]
    return Day("made up", 250 * swing * rng.uniform(0.5, 1.5, (points, sectors)), 4.0)


class _Still(Judge):
    def judge(self, loads: Mapping[str, float], *, now_s: float) -> list[Verdict]:
        return []


@dataclass(frozen=True)
class Still(WorkersByLoad):
    """Wants no change."""

    def judge(self, resume: State | None = None) -> Judge:
        return _Still(0.0)


def steps(plant: Fugu, technique: WorkersByLoad, points: int) -> Iterator[Point]:
    """Let a manager act after each point."""
    loop = Loop(plant, Manager(technique), Guard.bounds(1, HOSTS))
    for _ in range(points):
        loop.cycle((len(plant.points) + 1) * INTERVAL_S)
        yield plant.points[-1]


def law_no_work_is_lost(plant: Fugu, technique: WorkersByLoad, points: int) -> None:
    for point, measured in enumerate(steps(plant, technique, points)):
        came_s = plant.operators.load[: point + 1].sum() * INTERVAL_S
        assert plant.done_s + plant.backlog_s.sum() == pytest.approx(came_s), "work is lost or made up"
        assert plant.backlog_s.min() >= -1e-9
        in_use = {slot for slot, name in enumerate(plant.names) if name is not None}
        assert set(plant.where.tolist()) == in_use, "an operator is nowhere, or a host has none"
        assert 1 <= measured.hosts <= HOSTS
        assert 0 <= measured.load_min <= measured.load_mean <= measured.load_max <= 1 + 1e-9


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: type(technique).__name__)
@given(seed=st.integers(0, 1_000), busy=st.floats(0.1, 4))
@settings(max_examples=15, deadline=None)
def test_no_work_is_lost(technique: WorkersByLoad, seed: int, busy: float) -> None:
    workload = day(seed=seed)
    law_no_work_is_lost(Fugu(operators(workload, seed, mean_load=2.9 * busy), 0.6, 4.0), technique, 60)


def test_a_plant_that_loses_work_is_caught() -> None:
    class Leaking(Fugu):
        def _move(self, number: int, slot: int, point: int) -> None:
            self.backlog_s[number] = 0.0  # what waits at an operator is gone when it moves
            super()._move(number, slot, point)

    workload = day()
    with pytest.raises(AssertionError, match="lost or made up"):
        law_no_work_is_lost(Leaking(operators(workload, 0, mean_load=9), 0.6), LocalThresholds(), 60)


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: type(technique).__name__)
def test_a_seed_says_all(technique: WorkersByLoad) -> None:
    first, again, other = (run_fugu(day(), technique, seed)[1] for seed in (1, 1, 2))
    assert first == again != other


def test_queries_are_drawn_by_identity() -> None:
    """The tenth query is the same however many there are, and costs determine its load."""
    few, many = operators(day(), 3, queries=10, mean_load=1), operators(day(), 3, queries=20, mean_load=2)
    assert few.window_s[19] == many.window_s[29]
    np.testing.assert_allclose(few.load[:, 19], many.load[:, 29])
    even = replace(day(), rate_hz=np.full((10, 4), 250.0))
    together = np.mean([operators(even, seed).load.sum(axis=1).mean() for seed in range(40)])
    assert together == pytest.approx(2.9, rel=0.05)


def spread(hosts: int, mean_load: float) -> Fugu:
    plant = Fugu(operators(day(), 5, mean_load=mean_load), 0.6)
    plant.where = np.arange(2 * QUERIES) % hosts
    plant.names = [str(slot + 1) if slot < hosts else None for slot in range(HOSTS)]
    return plant


@pytest.mark.parametrize("mean_load", [0.5, 2.9, 12.0])
def test_more_hosts_never_mean_more_load(mean_load: float) -> None:
    plants = [spread(hosts, mean_load) for hosts in range(1, HOSTS + 1)]
    played = [steps(plant, Still(), 60) for plant in plants]
    for _ in range(60):
        loads = [next(each).load_mean for each in played]
        assert all(more <= fewer + 1e-9 for fewer, more in pairwise(loads))
    assert all(fewer.done_s <= more.done_s + 1e-6 for fewer, more in pairwise(plants))


def test_an_overloaded_host_gives_operators_away_down_to_the_target() -> None:
    plant = spread(2, 1.9)
    steady = replace(day(), rate_hz=np.full((10, 4), 250.0))
    plant.operators = operators(steady, 5, mean_load=1.9)
    before, *after = steps(plant, LocalThresholds(intervals=1), 4)
    assert before.load_max > 0.8 and before.moved > 0
    assert after[-1].hosts > 2
    assert after[-1].load_max <= 0.6 + 1e-6
    assert after[0].latency_s > after[-1].latency_s  # events waited while operators moved


def test_hosts_are_released_when_little_comes() -> None:
    plant = spread(8, 1.0)
    points = list(steps(plant, LocalThresholds(intervals=1, grace="10 s"), 60))
    assert points[0].hosts == 8
    assert min(point.hosts for point in points) < 5


def test_waiting_grows_with_load_and_backlog() -> None:
    rho = np.array([0.1, 0.5, 0.9, 1.5])
    waits = steady_wait_s(rho, np.full(4, 0.001), 9.0)
    assert waits[1] == pytest.approx(0.005)  # 0.5/0.5 * (9+1)/2 * 1 ms
    assert (np.diff(waits) > 0).all()
    behind = backlog_wait_s(np.array([0.0, 1.0, 2.0, 4.0]), np.full(4, 0.5), 5.0)
    assert (np.diff(behind) > 0).all()


def test_rates_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidInput, match="the rates of 'odd': not rates by point and sector"):
        Day("odd", np.array([[1.0, float("nan")]]))
