"""The simulator's plants keep the contracts that those of Spark keep."""

from collections.abc import Callable

import numpy as np
import pytest
from lab_support.traffic import BURSTS, FLAT, SLIDING
from support.plants import WITHOUT_EFFECT, Site, contract, contract_of_doing_nothing, contract_of_driving, contract_of_metrics

from skytide.control import Controller, Fuzzy, LocalThresholds
from skytide.routing import TB_RR
from skytide.sim.drive import VirtualPlant
from skytide_lab.hosts.manager import Manager
from skytide_lab.sim import CoarseStage, known_costs
from skytide_lab.sim.plants.coarse import CoarsePlant
from skytide_lab.sim.plants.elastic import ElasticPlant
from skytide_lab.sim.plants.hosts import Day, Fugu, operators


def elastic() -> VirtualPlant:
    return ElasticPlant(BURSTS, FLAT, SLIDING)


def coarse() -> VirtualPlant:
    return CoarsePlant(CoarseStage(known_costs("bnl"), TB_RR, 0.1), [100.0] * 200, 1.0, workers=2, lead_s=5.0)


def hosts() -> VirtualPlant:
    rates = 250 * (1 + 0.9 * np.sin(np.arange(40))[:, None] * np.ones(4))
    return Fugu(operators(Day("made up", rates), 0), 0.6)


Make = Callable[[], VirtualPlant]


@pytest.mark.parametrize("make", [elastic, coarse, hosts])
def test_what_is_measured_adds_up(make: Make) -> None:
    contract_of_metrics(make())


@pytest.mark.parametrize("make", [elastic, coarse, hosts])
def test_a_plant_is_driven_to_its_end(make: Make) -> None:
    plant = make()
    technique: Controller = Manager(LocalThresholds()) if isinstance(plant, Fugu) else Fuzzy(maximum=8)
    contract_of_driving(plant, technique)


@pytest.mark.parametrize("make", [elastic, coarse])
def test_what_is_asked_for_is_there_in_the_end(make: Make) -> None:
    plant = make()
    contract(Site(plant, plant.observe))


@pytest.mark.parametrize(("paused", "acts", "kind"), WITHOUT_EFFECT)
@pytest.mark.parametrize("make", [elastic, coarse])
def test_a_recommendation_changes_nothing_and_neither_does_who_is_paused(make: Make, paused: bool, acts: bool, kind: str) -> None:
    plant = make()
    contract_of_doing_nothing(Site(plant, plant.observe), paused, acts, kind)
