"""`skytide replay`: what controllers would have done with recorded metrics."""

from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from skytide.cli.tables import print_table
from skytide.control import CONTROLLERS, Controller, Guard, Static, controller_of
from skytide.control.saso import Saso
from skytide.errors import InvalidInput
from skytide.loop.recording import load
from skytide.records import Observation
from skytide.sim.replay import Played, plant_of, play, recorded
from skytide.windows import duration_us

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APART = 0.04  # workers: how far lines are drawn apart
HEADINGS = ("", "changes", "violations", "", "amplitude", "workers", "worker seconds")
STYLES = ("-", "--", "-.", ":")


def run(path: Path, controllers: list[str], executors: tuple[int, int], lead: str, bound: str | None, out: Path | None) -> None:
    """Replay a recording, and print what each controller would have done."""
    guard = Guard(*executors)
    contestants = _contestants(controllers, executors)
    _check_picture(out)
    seen = load(path)
    bound_s = None if bound is None else duration_us(bound, "latency") / 1e6
    lead_s = duration_us(lead, "lead") / 1e6
    interval_s = sorted(observation.interval_s for observation in seen)[len(seen) // 2] if seen else 1.0
    length_s = sum(observation.interval_s for observation in seen)
    print(f"{path}: {len(seen)} intervals, {length_s / 60:,.1f} minutes, up to {_peak(seen):,.0f} tuples per second")
    rows, played = [_row("as recorded", recorded(seen, bound_s))], dict[str, Played]()
    for name, controller in contestants.items():
        limits = Guard.bounds(*executors) if isinstance(controller, Static) else guard
        plant = plant_of(seen, lead_s=lead_s, cold_s=0.0)
        played[name] = play(plant, controller, limits, interval_s=interval_s, bound_s=bound_s)
        rows.append(_row(name, played[name].saso))
    print_table(HEADINGS, rows)
    print("Worker seconds count from the request for a worker: one that has not come yet costs, too, but is not among the workers.")
    if out is not None:
        figure_of(seen, played).savefig(out, dpi=110)
        print(f"Picture: {out}")


def _check_picture(out: Path | None) -> None:
    """Refuse a picture that could not be drawn, before there is anything to draw."""
    if out is not None and not out.parent.is_dir():
        raise InvalidInput(
            value=f"--picture {out}", reason=f"there is no folder {out.parent}", remedy="make it first, or name another"
        )
    if out is not None and find_spec("matplotlib") is None:
        raise InvalidInput(value=f"--picture {out}", reason="matplotlib is not installed", remedy="pip install matplotlib")


def _contestants(names: list[str], executors: tuple[int, int]) -> dict[str, Controller]:
    wanted = [name for name in CONTROLLERS if name != "static"] if "all" in names else names
    peak = f"static:{executors[1]}"
    return {name: controller_of(name) for name in dict.fromkeys((*wanted, peak))}


def _row(name: str, saso: Saso) -> tuple[str, ...]:
    return (
        name,
        str(saso.reconfigurations),
        str(saso.violations),
        f"{saso.violation_share:.1%}",
        f"{saso.amplitude:.2f}",
        f"{saso.mean_workers:.2f}",
        f"{saso.worker_seconds:,.0f}",
    )


def _peak(seen: list[Observation]) -> float:
    return max((observation.arrival_rate_hz for observation in seen), default=0.0)


def figure_of(seen: list[Observation], played: dict[str, Played]) -> "Figure":
    """Return a drawing of the rates, and of the workers that there were and would have been."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    began_s = seen[0].at_s - seen[0].interval_s

    def clock(at_s: Iterable[float]) -> list[datetime]:
        return [datetime.fromtimestamp(each_s, UTC) for each_s in at_s]

    above.plot(clock(now.at_s for now in seen), [now.arrival_rate_hz for now in seen], color="black", lw=0.8)
    above.set(ylabel="tuples per second")
    lines = {"as recorded": ([now.at_s for now in seen], seen)}
    lines |= {name: ([began_s + now.at_s for now in one.seen], one.seen) for name, one in played.items()}
    for number, (name, (times_s, shown)) in enumerate(lines.items()):
        apart = (number - len(lines) / 2) * APART  # lines that lie on each other are drawn beside each other
        workers = [now.allocation.workers + apart for now in shown]
        colour, style = ("black", "-") if number == 0 else (f"C{(number - 1) % 10}", STYLES[number % len(STYLES)])
        below.step(clock(times_s), workers, where="pre", label=name, lw=2 if number == 0 else 1.4, color=colour, linestyle=style)
    below.set(xlabel="time of day (UTC)", ylabel="workers", ylim=(0, None))
    below.xaxis.set_major_formatter(ConciseDateFormatter(AutoDateLocator()))  # type: ignore[no-untyped-call]
    below.legend(frameon=False, ncols=4)
    return figure
