"""Simulated plants in virtual time, controlled by the same decisions as Spark."""

from skytide.sim.coarse import CoarseStage, CoarseStep
from skytide.sim.costs import Costs, Curve, known_costs
from skytide.sim.micro_batch import BatchCosts, BatchOutcome, run_batches
from skytide.sim.pane_stage import PaneOutcome, PaneStage, Result, run_panes
from skytide.sim.traffic import Step, Traffic, traffic
from skytide.sim.window_stage import WindowOutcome, WindowStage, run_windows

__all__ = [
    "BatchCosts",
    "BatchOutcome",
    "CoarseStage",
    "CoarseStep",
    "Costs",
    "Curve",
    "PaneOutcome",
    "PaneStage",
    "Result",
    "Step",
    "Traffic",
    "WindowOutcome",
    "WindowStage",
    "known_costs",
    "run_batches",
    "run_panes",
    "run_windows",
    "traffic",
]
