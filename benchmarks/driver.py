"""Measures what the driver does itself for each task of the pane level, beyond Spark's own work: `python -m benchmarks.driver`.

It reads the reports of all tasks of a batch, decides what follows, and turns the state into the text of a manifest and back. Tasks report
what some thousands of tuples show that are up to two seconds late, with one to four panes each; by keys, also the most frequent keys.
"""

import argparse
import cProfile
import json
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks.timing import Goal, announce, show
from skytide.batch import (
    BatchRules,
    BatchStarted,
    Delivery,
    InPlace,
    Machine,
    MergePieces,
    PanePart,
    PanesReported,
    PaneTaskReport,
    Piece,
    PiecesMerged,
    Record,
    Run,
    RunWindows,
    Sent,
    State,
    WindowReport,
    WindowsReported,
)
from skytide.batch.state import FAR
from skytide.lateness import KSlack, observe
from skytide.routing import AS, KEYS, Frequencies
from skytide.spark.engine.panes import REPORT, read_reports
from skytide.windows import Windows

TASKS, PANES = (1_000, 8_000), (1, 4)
PANE_US, LATE_US, TUPLES = 1_000_000, 2_000_000, 2_000
WINDOWS = Windows(10 * PANE_US, PANE_US)
DELIVERIES: dict[str, Delivery] = {"in place": InPlace(), "sent": Sent(AS), "by keys": Sent(KEYS)}
GOAL_MS, ROUNDS = 0.1, 3
STEPS = ("read", "decide", "record")


def texts(tasks: int, panes: int, before: State, rules: BatchRules, seed: int = 1) -> pa.Table:
    """Return the reports of a batch, which has the next `panes` panes, as they reach the driver."""
    plan, rng = rules.run_panes(before), np.random.default_rng([seed, before.batch + 1])
    first = (before.batch + 1) * panes
    heaviest = rng.integers(0, 2**63, 4 * rules.pane_slots)

    def text(task: int) -> str:
        times = np.sort(rng.integers(first * PANE_US, (first + panes) * PANE_US, TUPLES))
        times[::10] -= rng.integers(0, LATE_US, len(times[::10]))
        arrivals = observe(times, plan.newest_us, plan.punctuation_us, plan.leap_us)
        file = f"panes/{plan.sequence:012}-{task:032x}"
        parts = tuple(PanePart(first + at, TUPLES // panes, Piece(file, at, 1, 500)) for at in range(panes))
        by_key = rules.delivery.splitting.key_routing()
        keys = rng.choice(heaviest, by_key.remembered).tolist() if by_key else []
        frequencies = Frequencies(TUPLES, tuple((key, len(keys) - at) for at, key in enumerate(dict.fromkeys(keys))))
        return PaneTaskReport(task % rules.pane_slots, arrivals, parts, busy_s=0.1, keys=frequencies.packed()).to_text()

    return pa.table({"report": [text(task) for task in range(tasks)]}, schema=REPORT)


class Driver:
    """What the driver does in batch after batch, step by step."""

    def __init__(self, tasks: int, panes: int, delivery: Delivery) -> None:
        """Start a query without a state."""
        self.tasks, self.panes, self.state = tasks, panes, State()
        self.rules = BatchRules(WINDOWS, KSlack(), delivery, pane_slots=tasks)
        self.machine = Machine(self.rules, self.state, 0.0)

    def run_batch(self, profile: cProfile.Profile | None = None) -> dict[str, float]:
        """Return the seconds of each step."""
        number, reports = self.state.batch + 1, texts(self.tasks, self.panes, self.state, self.rules)
        self.machine.on(BatchStarted(number, self.state, float(number)))
        if profile:
            profile.enable()
        began_s = time.perf_counter()
        report = read_reports(reports)
        read_s = time.perf_counter()
        instructions = self.machine.on(PanesReported(report, number + 0.5))
        decided_s = time.perf_counter()
        if isinstance(instructions[0], MergePieces):
            merged = [Piece(f"panes/{number}-{at}", 0, 1, merge.rows, 1) for at, merge in enumerate(instructions[0].merges)]
            instructions = self.machine.on(PiecesMerged(tuple(merged), number + 0.6))
        if isinstance(instructions[0], RunWindows):
            remembered = Run(-FAR, FAR, 0, ("memory",), 1)
            instructions = self.machine.on(WindowsReported(WindowReport((), ("results",), remembered, 0.1), number + 0.6))
        record = instructions[0]
        assert isinstance(record, Record)
        recording_s = time.perf_counter()
        self.state = State.from_json(json.loads(json.dumps(record.state.to_json())))
        recorded_s = time.perf_counter()
        if profile:
            profile.disable()
        return dict(zip(STEPS, (read_s - began_s, decided_s - read_s, recorded_s - recording_s), strict=True))


def task_ms(tasks: int, panes: int, delivery: Delivery, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the milliseconds per task of each step: the medians of some batches after the first."""
    driver = Driver(tasks, panes, delivery)
    driver.run_batch()
    batches = [driver.run_batch() for _ in range(rounds)]
    return {step: median(batch[step] for batch in batches) / tasks * 1e3 for step in STEPS}


def run(
    console: Console, tasks: Sequence[int] = TASKS, panes: Sequence[int] = PANES, deliveries: Sequence[str] = tuple(DELIVERIES)
) -> dict[str, Any]:
    """Measure all cases, print the figures, and return them."""
    cells = [
        {"delivery": name, "tasks": number, "panes": each, **task_ms(number, each, DELIVERIES[name])}
        for name in deliveries
        for number in tasks
        for each in panes
    ]
    rows = [
        [cell["delivery"], f"{cell['tasks']:,}", str(cell["panes"]), *(f"{cell[step] * 1e3:.1f}" for step in STEPS)]
        for cell in cells
    ]
    show(console, "Work of the driver per task, in microseconds", ["delivery", "tasks", "panes", *STEPS], rows)
    worst_ms = max(cell["read"] + cell["decide"] for cell in cells)
    goal = Goal("tasks per 0.1 ms of the driver, to read and decide, worst case", GOAL_MS / worst_ms, at_least=1)
    return {"cells": cells, "goals": announce(console, [goal])}


def main() -> None:
    """Measure and print, or print a profile."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.driver", description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="+", default=TASKS)
    parser.add_argument("--profile", choices=DELIVERIES, help="print where the time of a batch goes instead")
    options = parser.parse_args()
    if options.profile:
        driver, profile = Driver(options.tasks[0], PANES[-1], DELIVERIES[options.profile]), cProfile.Profile()
        driver.run_batch()
        driver.run_batch(profile)
        profile.print_stats("tottime")
    else:
        run(Console(width=130, highlight=False), options.tasks)


if __name__ == "__main__":
    main()
