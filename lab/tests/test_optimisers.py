"""Other ways to search than the one of the controllers find the same optimum."""

import pytest
from hypothesis import given
from support.problems import by_brute_force, problems

from skytide.control.models.optimiser import Problem
from skytide_lab.experiments.x09_optimiser import branch_and_bound, exhaustive


@given(problems())
def test_all_ways_to_search_find_the_same_optimum(problem: Problem) -> None:
    (bounded, leaves), least = branch_and_bound(problem), by_brute_force(problem)
    assert bounded.cost == pytest.approx(least)
    assert exhaustive(problem) == pytest.approx(least)
    assert leaves <= problem.step.shape[1] ** len(problem.step)
