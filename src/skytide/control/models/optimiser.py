"""Finds the exact best path through the next few steps (P2 section 3.3, SPEC E2).

The cost of a step depends on the configuration it uses, and on how far that is from the one before. So the best path from a step on
depends only on where it starts: dynamic programming finds it in h C^2 operations, where P2's branch and bound explores up to C^h paths.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Costs of C configurations over h steps."""

    step: Floats
    """Cost of using a configuration in a step, h x C."""
    first: Floats
    """Cost of changing from the present configuration to another, C."""
    between: Floats
    """Cost of changing from one configuration to another, C x C."""


@dataclass(frozen=True)
class Plan:
    """The cheapest path: a configuration for each step, and their total cost."""

    path: tuple[int, ...]
    cost: float


def plan(problem: Problem) -> Plan:
    """Return the cheapest path; of equally cheap ones, that with the earlier configurations.

    >>> between = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    >>> plan(Problem(np.array([[3.0, 2.0, 9.0], [9.0, 9.0, 0.0]]), between[0], between))
    Plan(path=(1, 2), cost=4.0)
    """
    onward = problem.step[-1]
    choices: list[NDArray[np.int64]] = []
    rows = np.arange(len(onward))
    for step in problem.step[-2::-1]:
        paths = problem.between + onward
        best = paths.argmin(axis=1)
        choices.append(best)
        onward = step + paths[rows, best]
    from_now = problem.first + onward
    path = [int(from_now.argmin())]
    for best in reversed(choices):
        path.append(int(best[path[-1]]))
    return Plan(tuple(path), float(from_now[path[0]]))
