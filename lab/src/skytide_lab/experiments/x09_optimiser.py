"""X9: what share of the paths through the next steps an optimiser explores (P2 Tab. 5)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from skytide.control.models.objective import Demand, Objective
from skytide.control.models.optimiser import Plan, Problem, plan
from skytide.forecasting import Holt
from skytide.records import Allocation
from skytide_lab.experiments.experiment import Experiment, Findings, Piece, Row
from skytide_lab.experiments.trading import (
    ALPHAS,
    CHOSEN,
    FASTEST_GHZ,
    P2_FREQUENCIES_GHZ,
    REPLICAS,
    SERVICE_S,
    STEP_S,
    real_rates,
)
from skytide_lab.experiments.verdict import Claim, of_all

P2_EXPLORED = {1: 108, 2: 2_537, 3: 72_055}
SEARCHED = 3  # the longest horizon at which the other searches take part
SAME = 1e-9
P2_COSTS = ("Th-Power", "Lat-Power")
COSTS = {
    "Th-Power": Objective(None, True, ALPHAS["Th-Power"][1], 0.5, 0.4, 0.0, 1, REPLICAS, P2_FREQUENCIES_GHZ, scaled=False),
    "Lat-Power": Objective(
        CHOSEN.bound_s, True, ALPHAS["Lat-Power"][1], 0.5, 0.4, 0.0, 1, REPLICAS, P2_FREQUENCIES_GHZ, scaled=False
    ),
    "scaled": Objective(None, True, 100.0, 0.5, 0.4, 0.1, 1, REPLICAS, P2_FREQUENCIES_GHZ, scaled=True),
}


@dataclass(frozen=True)
class Optimiser(Experiment):
    """Solves the problems of a trading day by dynamic programming, branch and bound, and exhaustive search."""

    id = "X9"
    title = "explored states and time of the optimiser"
    source = "P2 Tab. 5"
    question = (
        "What share of the paths through the next steps does branch and bound explore, and how long does an exact search take?"
    )
    seconds = 5.0

    samples: int = 12
    horizons: Sequence[int] = (1, 2, 3, 5, 10)

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per cost function and horizon."""
        return [(costs, horizon) for horizon in sorted(self.horizons, key=lambda h: h != SEARCHED) for costs in COSTS]

    def play(self, *piece: Any) -> list[Row]:
        """Solve the same problems by all three searches, and return the rows."""
        costs, horizon = piece
        problems = trading_problems(COSTS[costs], horizon, self.samples)
        configurations = problems[0].step.shape[1]
        row: Row = {"costs": costs, "horizon": horizon, "states": prod([configurations] * horizon)}
        row["dp_operations"] = configurations * (1 + (horizon - 1) * configurations)
        row["dp_ms"] = _median_ms(plan, problems)
        if horizon <= SEARCHED:
            row.update(_searched(problems))
            row["share"] = row["explored"] / row["states"]
        return [row]

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Compare with P2's table, and return the findings."""
        return Findings(_claims(rows), NOTES)

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw states and time over the horizon."""
        left, right = figure.subplots(1, 2)
        for costs in COSTS:
            searched = [row for row in rows if row["costs"] == costs and "explored" in row]
            left.plot(
                [row["horizon"] for row in searched],
                [row["explored"] for row in searched],
                marker="o",
                label=f"branch and bound, {costs}",
            )
        mine = [row for row in rows if row["costs"] == P2_COSTS[0]]
        searched = [row for row in mine if "explored" in row]
        left.plot([row["horizon"] for row in searched], [row["states"] for row in searched], "k", label="all")
        left.plot([row["horizon"] for row in mine], [row["dp_operations"] for row in mine], "k:", label="dynamic programming")
        left.plot(P2_EXPLORED.keys(), P2_EXPLORED.values(), "k--", label="branch and bound in P2")
        for name, label in {"exhaustive_ms": "all", "bb_ms": "branch and bound", "dp_ms": "dynamic programming"}.items():
            shown = [row for row in mine if name in row]
            right.plot([row["horizon"] for row in shown], [row[name] for row in shown], marker="o", label=label)
        for axis, unit in ((left, "states"), (right, "ms")):
            axis.set(yscale="log", xlabel="horizon (steps)", ylabel=unit)
            axis.legend(frameon=False)


NOTES = (
    "12 replicas at 9 frequencies, at moments spread over the day of quotes. P2 does not say for which strategy its table is, and how much "
    "is pruned depends on the costs: with P2's alpha T_S every path pays alpha T_A in every step, so a bad first step is discovered "
    "late. Configurations are tried from the highest frequency down, with ascending replicas, as in the published code. Nothing is random here. Branch and bound is a plain Python loop here and C++ in P2, so "
    "only states can be compared; the exhaustive search is vectorised with NumPy; the time of dynamic programming excludes setting up the costs"
)


def _claims(rows: Sequence[Row]) -> list[Claim]:
    by = {(row["costs"], row["horizon"]): row for row in rows}
    same = all(row["same"] for row in rows if "same" in row)
    shares = {costs: [by[costs, h]["share"] for h in P2_EXPLORED] for costs in COSTS}
    text = "; ".join(f"{costs} {', '.join(f'{share:.1%}' for share in parts)}" for costs, parts in shares.items())
    slowest = {h: max(by[costs, h]["dp_ms"] for costs in COSTS) for h in sorted({row["horizon"] for row in rows})}
    return [
        Claim(
            "branch and bound finds the optimum of the exhaustive search",
            f"branch and bound, dynamic programming and exhaustive search find the same least cost in all problems up to h = {SEARCHED}: {same}",
            same,
        ),
        Claim(
            "it explores a part of the states, and a smaller share the longer the horizon",
            f"share explored at h = 1, 2, 3: {text}",
            of_all(parts[0] == 1 and parts[0] > parts[1] > parts[2] for parts in shares.values()),
        ),
        Claim(
            "the share is 21.75 % at h = 2 and 5.72 % at h = 3 (2,537 and 72,055 states)",
            "explored at h = 2 and 3: "
            + "; ".join(f"{costs} {by[costs, 2]['explored']:,.0f} and {by[costs, 3]['explored']:,.0f}" for costs in COSTS),
            of_all(any(0.5 <= by[costs, h]["explored"] / P2_EXPLORED[h] <= 2 for costs in P2_COSTS) for h in P2_EXPLORED),
            "P2 does not say for which of its strategies the table is: here the claim holds if one of them is within a factor of two",
        ),
        Claim(
            "(ours) dynamic programming takes less than 1 ms at h = 3 (P2's search: 17 ms)",
            f"{slowest[3]:.3f} ms at h = 3",
            slowest[3] < 1,
        ),
        Claim(
            "(ours) h = 10 is possible",
            f"{slowest[10]:.2f} ms at h = 10, of {by[P2_COSTS[0], 10]['states']:.1e} states",
            slowest[10] < 100,
        ),
    ]


def _searched(problems: list[Problem]) -> Row:
    """Run the other searches, and return how they compare."""
    searched = [(plan(problem).cost, *branch_and_bound(problem), exhaustive(problem)) for problem in problems]
    return {
        "explored": float(np.mean([explored for _, _, explored, _ in searched])),
        "bb_ms": _median_ms(branch_and_bound, problems[:3]),
        "exhaustive_ms": _median_ms(exhaustive, problems[:3]),
        "same": all(abs(cost - least) <= SAME * least >= abs(bounded.cost - least) for cost, bounded, _, least in searched),
    }


def trading_problems(objective: Objective, horizon: int, samples: int) -> list[Problem]:
    """Return problems at moments spread over the trading day."""
    second = int(1 / STEP_S)
    rates = real_rates()
    rates = rates[: len(rates) // second * second].reshape(-1, second).mean(axis=1)
    forecaster, present = Holt().build(), Allocation(REPLICAS, frequency_ghz=FASTEST_GHZ)
    problems = []
    for rate_hz in rates.tolist():
        forecaster.observe(rate_hz)
        expected = tuple(max(0.0, forecaster.forecast(k + 1, 0.0).mean) for k in range(horizon))
        service_s = SERVICE_S * FASTEST_GHZ / (present.frequency_ghz or FASTEST_GHZ)
        options, problem = objective.problem(present, Demand(expected, service_s, 1.0, 0.5, 1.0))
        problems.append(in_order(problem, options))
        present = options[plan(problem).path[0]]
    return problems[:: len(problems) // samples][:samples]


def in_order(problem: Problem, options: Sequence[Allocation]) -> Problem:
    """Return the problem with its configurations in the order of P2's search: by descending frequency, then by ascending replicas."""
    order = sorted(range(len(options)), key=lambda at: (-(options[at].frequency_ghz or 0.0), options[at].workers))
    return replace(problem, first=problem.first[order], step=problem.step[:, order], between=problem.between[np.ix_(order, order)])


def branch_and_bound(problem: Problem) -> tuple[Plan, int]:
    """Return the plan that P2's search (section 3.3.2) finds, and the leaves it reached: depth first, pruning what costs more than the best."""
    step, between = problem.step.tolist(), problem.between.tolist()
    best: tuple[float, tuple[int, ...]] = (float("inf"), ())
    leaves = 0

    def explore(depth: int, changes: list[float], spent: float, path: tuple[int, ...]) -> None:
        nonlocal best, leaves
        for at, (change, cost) in enumerate(zip(changes, step[depth], strict=True)):
            here = spent + change + cost
            last = depth == len(step) - 1
            leaves += last
            if here < best[0]:
                if last:
                    best = (here, (*path, at))
                else:
                    explore(depth + 1, between[at], here, (*path, at))

    explore(0, problem.first.tolist(), 0.0, ())
    return Plan(best[1], best[0]), leaves


def exhaustive(problem: Problem) -> float:
    """Return the cost of the cheapest of all paths."""
    total = problem.first + problem.step[0]
    for step in problem.step[1:]:
        total = total[..., :, None] + problem.between + step
    return float(total.min())


def _median_ms(solve: Callable[[Problem], object], problems: list[Problem]) -> float:
    spent = []
    for problem in problems:
        began = time.perf_counter()
        solve(problem)
        spent.append((time.perf_counter() - began) * 1e3)
    return float(np.median(spent))


EXPERIMENT = Optimiser()
TOY = Optimiser(samples=2)
