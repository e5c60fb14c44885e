"""Problems for optimisers, and their solution by trying all paths."""

from itertools import pairwise, product

import numpy as np
from hypothesis import strategies as st

from skytide.control.models.optimiser import Problem


def by_brute_force(problem: Problem) -> float:
    """Return the least cost by trying all paths, one after the other."""
    return min(
        sum(problem.step[i, at] for i, at in enumerate(way))
        + problem.first[way[0]]
        + sum(problem.between[a, b] for a, b in pairwise(way))
        for way in product(range(problem.step.shape[1]), repeat=len(problem.step))
    )


def cost_of(problem: Problem, path: tuple[int, ...]) -> float:
    stages = sum(problem.step[i, at] for i, at in enumerate(path))
    return float(problem.first[path[0]] + stages + sum(problem.between[a, b] for a, b in pairwise(path)))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    horizon, options = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    coarse = draw(st.booleans())  # with many ties
    step, first, between = (rng.uniform(0.1, 9, shape) for shape in ((horizon, options), options, (options, options)))
    return Problem(step.round(), first.round(), between.round()) if coarse else Problem(step, first, between)
