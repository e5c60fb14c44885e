"""`skytide replay`: recorded metrics through any controller, and what that would have been like."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from skytide.cli.folders import writable
from skytide.control import CONTROLLERS, Controller, Guard, Static, controller_of
from skytide.control.saso import Saso
from skytide.loop.recording import load
from skytide.records import Observation
from skytide.sim.replay import Played, plant_of, play, recorded
from skytide.windows import duration_us


def run(path: Path, controllers: list[str], executors: tuple[int, int], lead: str, bound: str | None, out: Path | None) -> None:
    """Replay, and print what each controller would have done."""
    guard = Guard(*executors)
    contestants = _contestants(controllers, executors)
    if out is not None:
        writable(out.parent)
    seen = load(path)
    bound_s = None if bound is None else duration_us(bound, "latency") / 1e6
    lead_s = duration_us(lead, "lead") / 1e6
    interval_s = sorted(each.interval_s for each in seen)[len(seen) // 2] if seen else 1.0
    console = Console(highlight=False)
    length_s = sum(each.interval_s for each in seen)
    console.print(f"{path}: {len(seen)} intervals, {length_s / 60:,.1f} minutes, up to {_peak(seen):,.0f} tuples a second")
    table = _table()
    _row(table, "as recorded", recorded(seen, bound_s))
    played: dict[str, Played] = {}
    for name, controller in contestants.items():
        limits = Guard.bounds(*executors) if isinstance(controller, Static) else guard
        plant = plant_of(seen, lead_s=lead_s, cold_s=0.0)
        played[name] = play(plant, controller, limits, interval_s=interval_s, bound_s=bound_s)
        _row(table, name, played[name].saso)
    console.print(table)
    if out is not None:
        _draw(seen, played, out)
        console.print(f"Picture: {out}")


def _contestants(names: list[str], executors: tuple[int, int]) -> dict[str, Controller]:
    wanted = [name for name in CONTROLLERS if name != "static"] if "all" in names else names
    peak = f"static:{executors[1]}"
    return {name: controller_of(name) for name in dict.fromkeys((*wanted, peak))}


def _table() -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for heading in ("changes", "violations", "", "amplitude", "workers", "worker seconds"):
        table.add_column(heading, justify="right")
    return table


def _row(table: Table, name: str, saso: Saso) -> None:
    table.add_row(
        name,
        str(saso.reconfigurations),
        str(saso.violations),
        f"{saso.violation_share:.1%}",
        f"{saso.amplitude:.2f}",
        f"{saso.mean_workers:.2f}",
        f"{saso.worker_seconds:,.0f}",
    )


def _peak(seen: list[Observation]) -> float:
    return max((each.arrival_rate_hz for each in seen), default=0.0)


def _draw(seen: list[Observation], played: dict[str, Played], out: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    began_s = seen[0].at_s - seen[0].interval_s
    above.plot([each.at_s - began_s for each in seen], [each.arrival_rate_hz for each in seen], color="black", lw=0.8)
    above.set(ylabel="tuples a second")
    for name, each in played.items():
        below.step([now.at_s for now in each.seen], [now.allocation.workers for now in each.seen], where="pre", label=name, lw=1)
    below.set(xlabel="seconds", ylabel="workers", ylim=(0, None))
    below.legend(frameon=False, ncols=4)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
