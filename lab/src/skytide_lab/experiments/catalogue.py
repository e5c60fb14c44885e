"""All experiments. Each is loaded when it is asked for, as some need Spark and others the real data."""

from importlib import import_module

from skytide.errors import InvalidInput
from skytide_lab.experiments.experiment import Experiment

MODULES = {
    "X1": "x01_splitting",
    "X2": "x02_in_order",
    "X3": "x03_window_tasks",
    "X4": "x04_panes",
    "X5": "x05_slack",
    "X6": "x06_two_levels",
    "X7": "x07_merge_tasks",
    "X8": "x08_streams",
    "X9": "x09_optimiser",
    "X10": "x10_migration",
    "X11": "x11_strategies",
    "X12": "x12_comparison",
    "X13": "x13_admission",
    "X14": "x14_balance",
    "X15": "x15_elastic_fleet",
    "X16": "x16_fugu",
    "S1": "s01_engine",
    "S2": "s02_fleet",
    "F3": "f03_processes",
    "F11": "f11_even_splitting",
    "F17": "f17_sensitivity",
    "F18": "f18_interference",
    "L1": "l01_scale",
    "C1": "c01_controllers",
}


def experiment(name: str) -> Experiment:
    """Return an experiment by its id."""
    if name not in MODULES:
        raise InvalidInput(
            value=f"experiment {name!r}", reason="there is no such experiment", remedy=f"choose one of {', '.join(MODULES)}"
        )
    wanted = import_module(f"skytide_lab.experiments.{MODULES[name]}").EXPERIMENT
    assert isinstance(wanted, Experiment)
    return wanted
