"""`skytide lab`: the experiments of the papers."""

from pathlib import Path

from rich.console import Console

from skytide.cli.folders import writable
from skytide.lab.calibrate import calibrate
from skytide.lab.catalogue import MODULES, experiment
from skytide.lab.experiment import perform
from skytide.lab.report import write_report


def show_list() -> int:
    """Print the experiments."""
    console = Console(highlight=False)
    for name in MODULES:
        known = experiment(name)
        console.print(f"{known.id:4} {known.title} ({known.source})")
    return 0


def run(names: list[str], out: Path) -> int:
    """Run experiments; the status says whether all claims hold."""
    wanted = [experiment(name) for name in (list(MODULES) if names == ["all"] else names)]  # refused now, if there is no such
    writable(out)
    console = Console(highlight=False, soft_wrap=True)
    verdicts = []
    for known in wanted:
        console.print(f"[bold]{known.id}[/]: {known.title} ({known.source})")
        verdicts.append(perform(known, out, console.print))
        print(verdicts[-1])
    return 0 if all(verdict.holds for verdict in verdicts) else 1


def report(out: Path) -> int:
    """Write the page."""
    writable(out)
    print(write_report(out))
    return 0


def run_calibration(algorithms: list[str], out: Path) -> int:
    """Measure costs on this machine."""
    writable(out)
    for algorithm in algorithms:
        calibrate(algorithm, print, out)
    return 0
