"""`skytide lab`: the experiments of the papers."""

from pathlib import Path

from rich.console import Console

from skytide.cli.folders import writable
from skytide_lab.experiments.calibrate import calibrate
from skytide_lab.experiments.catalogue import MODULES, experiment
from skytide_lab.experiments.experiment import Outcome
from skytide_lab.experiments.report import write_report
from skytide_lab.experiments.runner import run as run_experiments
from skytide_lab.experiments.verdict import HOLDS

COLOURS = {"holds": "green", "holds in part": "yellow", "does not hold": "red", "cannot be told": "blue"}


def show_list() -> int:
    """Print the experiments, one per line."""
    console = Console(highlight=False, soft_wrap=True)
    for name in MODULES:
        listed = experiment(name)
        console.print(f"{listed.id:4} {listed.title} ({listed.source})", markup=False)
    return 0


def run(names: list[str], out: Path) -> int:
    """Run experiments, and return the exit status: 0 if all claims hold."""
    wanted = [
        experiment(name) for name in (list(MODULES) if names == ["all"] else dict.fromkeys(names))
    ]  # an unknown name is refused now
    writable(out)
    console = Console(highlight=False, soft_wrap=True)

    def on_outcome(outcome: Outcome, seconds: float) -> None:
        finished = experiment(outcome.id)
        console.print(
            f"[bold]{finished.id}[/]: {finished.title} ({finished.source}), {seconds:.0f} s of work; {out / finished.id}.csv and .png"
        )
        for claim in outcome.claims:
            console.print(f"  [{COLOURS[claim.verdict]}]{claim.verdict}[/]: {claim.paper}", markup=True)
            console.print(f"    here: {claim.found}" + (f" ({claim.why})" if claim.why else ""), markup=False)
        if outcome.notes:
            console.print(f"  note: {outcome.notes}", markup=False)

    outcomes = run_experiments(wanted, out, on_outcome)
    for outcome in outcomes:
        print(outcome)
    return 0 if all(outcome.verdict is HOLDS for outcome in outcomes) else 1


def report(out: Path) -> int:
    """Write the page about all experiments that were run, and print where it is."""
    writable(out)
    print(write_report(out))
    return 0


def run_calibration(algorithms: list[str], out: Path) -> int:
    """Measure what work costs on this machine, and save it for the simulator."""
    writable(out)
    for algorithm in algorithms:
        calibrate(algorithm, print, out)
    return 0
