"""Plays aggregates of ten million groups on 1,000 executors in the simulator, with costs that are measured here: `python -m benchmarks.state_growth`.

`--costs FILE` keeps what was measured, or plays with what is in the file.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from benchmarks import driver, state_costs
from benchmarks.state_costs import DriverCosts, TaskCosts
from benchmarks.timing import Goal, announce, show
from skytide.batch import BatchRules, InPlace, InSource
from skytide.lateness import FixedSlack
from skytide.routing import EVEN
from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.sim.micro_batch import BatchCosts, BatchPlant
from skytide_lab.sim.pipelining import one_by_one_s, side_by_side_s
from skytide_lab.sim.window_level import Groups, WindowCosts, WindowLevel

EXECUTORS, RATE_HZ, GROUPS = 1_000, 100_000_000, 10_000_000
TRIGGER_S = 1.0
BATCH_S, JOB_S = 0.163, 0.130
"""A batch without work (Spark's notes, sink and commit, a job) and another job: printed by `benchmarks.stream.profile` on a quiet machine."""
STANDS_FOR = 1_000  # tuples of the stream, for each that is played
DRIVER_CORES = 8
BATCHES, WARM_UP = 5, 3
ZIPF = 1.1
REMOTE_S = 0.01
"""What an open costs on an object store: assumed, as there is none here."""
SECOND_US = 1_000_000


@dataclass(frozen=True)
class Measured:
    """The costs of everything."""

    tasks: TaskCosts
    spark: DriverCosts
    own_s: float
    """What skytide's own part of the driver takes for a task: to read its report, to decide, and to record."""

    @property
    def driver_task_s(self) -> float:
        """What a task costs on a driver with some cores: its busiest thread does one after the other, then skytide's."""
        return max(self.spark.thread_s, self.spark.task_s / DRIVER_CORES) + self.own_s

    @property
    def batch(self) -> BatchCosts:
        """The costs of a batch for the simulator; those of the window level are by slot."""
        return BatchCosts(
            "measured on this machine", BATCH_S, self.tasks.tuple_s, self.tasks.task_s, 0.0, 0.0,
            driver_task_s=self.driver_task_s, job_s=JOB_S,
        )  # fmt: skip

    def save(self, path: Path) -> None:
        """Write the costs to a file."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> "Measured":
        """Return the costs that `save` wrote to a file."""
        values = json.loads(path.read_text())
        tasks = TaskCosts(**{**values["tasks"], "windows": WindowCosts(**values["tasks"]["windows"])})
        return Measured(**{**values, "tasks": tasks, "spark": DriverCosts(**values["spark"])})


@dataclass(frozen=True)
class Way:
    """A query, and a way to run it."""

    name: str
    windows: Windows = Windows(SECOND_US, SECOND_US)  # noqa: RUF009
    exponent: float = 0.0
    per_task: int = 1
    """Executors for each task of the pane level."""
    slots: int = EXECUTORS
    """Of the window level, of which no more than there are parts are used."""
    free_driver: bool = False
    open_s: float | None = None
    more: dict[str, Any] = field(default_factory=dict)


GATHERED: dict[str, Any] = {"merge_cuts": 16, "gathers": True}
WAYS = (
    Way("1 s, all groups as often"),
    Way("1 s, Zipf 1.1", exponent=ZIPF),
    Way("10 s by 1 s, Zipf 1.1", Windows(10 * SECOND_US, SECOND_US), ZIPF),
    Way("A: 1 s, all as often, opening takes 10 ms", open_s=REMOTE_S),
    Way("B: 1 s, all as often, a driver that costs nothing", free_driver=True),
    Way("C: 1 s, all as often, a task for 4 executors", per_task=4),
    Way("C, 64 slots", per_task=4, slots=64),
    Way("C, 64 slots, opening takes 10 ms", per_task=4, slots=64, open_s=REMOTE_S),
    Way("C, 64 slots, 10 ms, new pieces gathered", per_task=4, slots=64, open_s=REMOTE_S, more=GATHERED),
    Way("10 s by 1 s, Zipf 1.1, C, 64 slots", Windows(10 * SECOND_US, SECOND_US), ZIPF, per_task=4, slots=64),
)


def measure(sizes: state_costs.Sizes) -> Measured:
    """Measure all costs on this machine."""
    spark = state_costs.driver_costs(sizes)
    own_ms = sum(driver.task_ms(1_000, 1, InPlace()).values())
    return Measured(state_costs.task_costs(sizes), spark, own_ms / 1e3)


def plant(
    way: Way, costs: Measured, executors: int = EXECUTORS, rate_hz: int = RATE_HZ, groups: int = GROUPS
) -> tuple[BatchPlant, int]:
    """Return the simulator of a query, and its ticks per batch."""
    tasks = max(executors // way.per_task, 1)
    tick_us = max(int(TRIGGER_S * SECOND_US) // tasks, 1)
    batch = replace(costs.batch, tuple_s=costs.tasks.tuple_s * STANDS_FOR)
    if way.free_driver:
        batch = replace(batch, driver_task_s=0.0)
    window_costs = replace(costs.tasks.windows, open_s=costs.tasks.windows.open_s if way.open_s is None else way.open_s)
    level = WindowLevel(Groups(groups, way.exponent), window_costs, STANDS_FOR, **way.more)
    rules = BatchRules(
        way.windows,
        FixedSlack(0),
        InSource(EVEN),
        pane_slots=tasks,
        window_slots=min(way.slots, executors),
        has_groups=True,
        trigger_s=TRIGGER_S,
    )
    stream = Workload(rate=rate_hz / STANDS_FOR, arrivals="constant", tick_us=tick_us)
    return BatchPlant(stream, batch, rules, executors, windows=level), round(TRIGGER_S * SECOND_US / tick_us)


@dataclass(frozen=True)
class Played:
    """The mean seconds of a batch, and of what it consists of."""

    batch_s: float
    panes_s: float
    merging_s: float
    windows_s: float
    opened: float
    """How often slots opened a file."""
    pipelined: float
    """How much more would be done if windows were answered beside the panes of the next batch."""


def played(way: Way, costs: Measured, batches: int = BATCHES, **load: int) -> Played:
    """Play some batches, which begin in the middle of a second, as no batch begins with a window."""
    simulated, ticks = plant(way, costs, **load)
    level, first = simulated.windows, ticks // 2
    assert level
    batches += 9 if way.windows.panes_per_window > 1 else 0
    seen = []
    for number in range(batches):
        simulated.seconds.clear()
        level.opened = 0
        batch_s = simulated.run_batch(range(first + number * ticks, first + (number + 1) * ticks))
        seen.append((batch_s, *(simulated.seconds[step] for step in ("panes", "merging", "windows")), float(level.opened)))
    levels = simulated.levels[-1]
    gain = one_by_one_s(levels, simulated.cores) / side_by_side_s(levels, simulated.cores)
    counted = seen[WARM_UP:]
    return Played(*(mean(values) for values in zip(*counted, strict=True)), gain - 1)


def report(console: Console, costs: Measured, found: dict[str, Played]) -> list[dict[str, Any]]:
    """Print the costs, a table, and whether the goal is reached."""
    of_tasks, windows = costs.tasks, costs.tasks.windows
    console.print(
        f"A batch without work takes {BATCH_S * 1e3:.0f} ms, another job {JOB_S * 1e3:.0f} ms. Spark's driver computes {costs.spark.task_s * 1e3:.2f} ms "
        f"per task, its busiest thread ({costs.spark.thread}) {costs.spark.thread_s * 1e3:.2f} ms; skytide's own part is {costs.own_s * 1e3:.3f} ms: "
        f"with {DRIVER_CORES} cores a task each {costs.driver_task_s * 1e3:.2f} ms.\n"
        f"Pane level: {of_tasks.task_s * 1e3:.1f} ms per task, {of_tasks.tuple_s * 1e9:.0f} ns per tuple, {windows.kept_s * 1e9:.0f} ns per row kept. "
        f"Window level: {windows.task_s * 1e3:.1f} ms per slot, {windows.open_s * 1e3:.3f} ms per file, {windows.row_s * 1e9:.0f} ns per row read, {windows.answer_s * 1e9:.0f} ns per row of the answer."
    )
    rows = [
        [
            name,
            *(f"{each:.2f}" for each in (one.batch_s, one.panes_s, one.merging_s, one.windows_s)),
            f"{one.opened:,.0f}",
            f"{one.pipelined:+.0%}",
        ]
        for name, one in found.items()
    ]
    title = (
        f"Simulated: {EXECUTORS:,} executors, {RATE_HZ:,} tuples/s, {GROUPS:,} groups, trigger {TRIGGER_S:g} s: seconds per batch"
    )
    show(console, title, ["windows", "batch", "panes", "merging", "windows", "files opened", "if pipelined"], rows)
    goals = [Goal(f"batches per trigger: {name}", TRIGGER_S / one.batch_s, 1.0) for name, one in found.items()]
    return announce(console, goals)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, play and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state_growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="measure toy sizes, only to see that everything runs")
    parser.add_argument("--costs", type=Path, help="a file with the costs, which is written if it is not there")
    options = parser.parse_args(arguments)
    if options.costs and options.costs.exists():
        costs = Measured.load(options.costs)
    else:
        costs = measure(state_costs.QUICK if options.quick else state_costs.Sizes())
        if options.costs:
            costs.save(options.costs)
    report(Console(width=150, highlight=False), costs, {way.name: played(way, costs) for way in WAYS})


if __name__ == "__main__":
    main()
