"""Simulated plants in virtual time, controlled by the same decisions as Spark."""

from skytide_lab.sim.coarse import CoarseStage, CoarseStep
from skytide_lab.sim.costs import Costs, Curve, known_costs
from skytide_lab.sim.micro_batch import BatchCosts, BatchOutcome, run_batches
from skytide_lab.sim.pane_stage import PaneOutcome, PaneStage, Result, run_panes
from skytide_lab.sim.traffic import Step, Traffic, traffic
from skytide_lab.sim.window_stage import WindowOutcome, WindowStage, run_windows

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
