"""S1: what the simulator predicts for the real engine, and what the engine does (not in a paper)."""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from skytide.lateness import FixedSlack
from skytide.queries import low
from skytide.records import Step
from skytide.routing import AS_PID, EVEN, PB_RR, Splitting
from skytide.spark.api.run import Run
from skytide.spark.api.stream import stream
from skytide.spark.session.local import local_session
from skytide.spark.sources.workload import WorkloadStream, workload
from skytide.windows import Windows
from skytide_lab.experiments.experiment import Experiment, Findings, Piece, Row
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.sim.micro_batch import BatchCosts, run_batches

WINDOWS, TRIGGER_S, SLOTS, CORES, DIMENSIONS = Windows(1_000_000, 200_000), 0.5, 2, 2, 8
PATIENCE_S = 60.0  # how long to wait for something to measure
PREDICTED = {
    "utilisation": ("utilisation", 0.15),
    "latency_mean_s": ("mean latency", 0.15),
    "latency_p99_s": ("99th percentile", 0.25),
}
CALIBRATED_HZ = (50_000, 400_000)
ASKED: list[tuple[str, int, float | None, Splitting]] = [
    ("steady", 150_000, None, EVEN),
    ("steady", 300_000, None, EVEN),
    ("bursts", 200_000, 6_000.0, PB_RR),
    ("bursts", 200_000, 6_000.0, AS_PID),
]


@dataclass(frozen=True)
class SimulatorAgainstEngine(Experiment):
    """Measures costs on the engine at two loads; predicts, and then measures, utilisation and latency at other loads."""

    id = "S1"
    title = "the simulator against the engine"
    source = "no paper"
    question = "Does the simulator predict how busy and how late the real engine is?"
    alone_seconds = 210.0

    warm_up_s: float = 8.0
    measured_s: float = 20.0
    warm_ups: int = 1
    scale: float = 1.0
    """A factor for all rates."""

    def alone(self) -> Sequence[Piece]:
        """Return the only piece."""
        return [()]

    def play(self, *piece: Any) -> list[Row]:
        """Calibrate the simulator, predict and measure, and return the rows."""
        local_session("skytide lab", cores=CORES)
        calibrated = [int(rate * self.scale) for rate in CALIBRATED_HZ]
        for rate in calibrated * self.warm_ups:  # the first runs of a session are slower than all others
            self._run(source_of(rate, None), EVEN, measured_s=1.0)
        costs = fit([self._run(source_of(rate, None), EVEN) for rate in calibrated])
        rows: list[Row] = []
        for name, rate, dispersion, strategy in ASKED:
            source = source_of(int(rate * self.scale), dispersion)
            ran = self._run(source, strategy)
            length_s = self.warm_up_s + self.measured_s
            expected = run_batches(
                source.workload, WINDOWS, costs, strategy, slots=SLOTS, cores=CORES, trigger_s=TRIGGER_S, length_s=length_s
            )
            row: Row = {"stream": f"{name} {int(rate * self.scale):,}/s", "strategy": strategy.name, "costs": str(costs)}
            for what in PREDICTED:
                predicted, measured = getattr(expected, what), ran[what]
                row |= {f"{what}_predicted": predicted, f"{what}_measured": measured, f"{what}_error": predicted / measured - 1}
            rows.append(row)
        return rows

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Judge how far the predictions are off, and return the findings."""
        worst = {what: [abs(row[f"{what}_error"]) for row in rows] for what in PREDICTED}
        return Findings(
            [
                Claim(
                    f"(ours) {words} within {bound:.0%}",
                    f"{words}: off by " + ", ".join(f"{error:.0%}" for error in worst[what]),
                    of_all(error <= bound for error in worst[what]),
                )
                for what, (words, bound) in PREDICTED.items()
            ],
            f"calibrated at {' and '.join(f'{rate:,}' for rate in CALIBRATED_HZ)} tuples per second on this machine, with one run each, in real time; {rows[0]['costs']}",
        )

    def _run(self, source: WorkloadStream, strategy: Splitting, measured_s: float | None = None) -> dict[str, float]:
        """Run the engine for a while after a warm-up, and return what it did, as means per batch.

        The warm-up begins with the first window, which may come out late in a new session. If a machine is too busy to finish a batch in the
        time to measure, measuring goes on until there is one.
        """
        folder = tempfile.mkdtemp(prefix="skytide-lab-")
        asked = (
            stream(source).window("1 s", slide="200 ms", slack=FixedSlack(0)).skyline(*(low(f"x{i}") for i in range(DIMENSIONS)))
        )
        run = asked.start(
            "parquet",
            path=f"{folder}/out",
            checkpoint=f"{folder}/checkpoint",
            trigger=f"{int(TRIGGER_S * 1000)} ms",
            splitting=strategy,
            pane_slots=SLOTS,
        )
        try:
            _until(run, lambda: run.status().windows_out > 0)
            run.await_termination(self.warm_up_s)
            before, began = _seen(run), time.time()
            run.await_termination(measured_s or self.measured_s)
            _until(run, lambda: _seen(run)["windows"] > before["windows"] and _took_s(run, before) and _latencies_s(run, began))
            after, measured_s = _seen(run), time.time() - began
            took, latencies = _took_s(run, before), _latencies_s(run, began)
        finally:
            run.stop()
            shutil.rmtree(folder, ignore_errors=True)
        batches = after["batch"] - before["batch"]
        took_s = float(np.mean(took))
        per_batch = {name: (after[name] - before[name]) / batches for name in before}
        return {
            **per_batch,
            "batch_s": took_s,
            "utilisation": took_s * batches / measured_s,
            "latency_mean_s": float(np.mean(latencies)),
            "latency_p99_s": float(np.quantile(latencies, 0.99)),
        }

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw predictions next to measurements."""
        for axis, what in zip(figure.subplots(1, 3), ("utilisation", "latency_mean_s", "latency_p99_s"), strict=True):
            places = np.arange(len(rows))
            for shift, source in ((-0.2, "predicted"), (0.2, "measured")):
                axis.bar(places + shift, [row[f"{what}_{source}"] for row in rows], width=0.38, label=source)
            axis.set_xticks(places, [f"{row['stream']}\n{row['strategy']}" for row in rows], fontsize="small", rotation=30)
            axis.set(title=what.replace("_", " "))
            axis.legend(frameon=False)


def source_of(rate: int, dispersion: float | None) -> WorkloadStream:
    """Return a stream in real time whose tuples are in order."""
    if dispersion is None:
        return workload(rate=rate, arrivals="constant", dimensions=DIMENSIONS)
    return workload(rate=rate, arrivals="map", dispersion=dispersion, dimensions=DIMENSIONS)


def fit(seen: list[dict[str, float]]) -> BatchCosts:
    """Return the costs given by straight lines through the measurements at two loads."""
    tuples = [run["tuples"] for run in seen]

    def line(values: list[float]) -> tuple[float, float]:
        slope = max((values[1] - values[0]) / (tuples[1] - tuples[0]), 0.0)
        return max(values[0] - slope * tuples[0], 0.0), slope

    task_s, tuple_s = line([run["pane_s"] for run in seen])
    window_s, window_tuple_s = line([run["window_s"] for run in seen])
    slides = float(np.mean([run["windows"] for run in seen]))
    around = float(np.mean([run["batch_s"] - run["pane_s"] / SLOTS - run["window_s"] for run in seen]))
    return BatchCosts("measured on this machine", around, tuple_s, task_s / SLOTS, window_s / slides, window_tuple_s)


def _until(run: Run, reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no window came out of the engine in {PATIENCE_S:.0f} s: {run.status()}")
        run.await_termination(0.05)


def _took_s(run: Run, before: dict[str, float]) -> list[float]:
    """Return how long each batch took that was done later."""
    done = range(int(before["batch"]) + 1, run.status().batch + 1)  # Spark also reports batches that are still to come
    return [batch["durationMs"]["triggerExecution"] / 1e3 for batch in run.recentProgress if batch["batchId"] in done]


def _latencies_s(run: Run, began: float) -> list[float]:
    """Return how late the windows were that have come out since."""
    return [row.latency_s for row in run.windows() if row.window_end_us / 1e6 + row.latency_s > began]


def _seen(run: Run) -> dict[str, float]:
    status, seconds = run.status(), run.seconds()
    return {
        "batch": status.batch,
        "tuples": status.tuples,
        "windows": status.windows_out,
        "pane_s": seconds.get(Step.PANE_TASKS, 0.0),
        "window_s": seconds.get(Step.WINDOW_TASK, 0.0),
    }


EXPERIMENT = SimulatorAgainstEngine()
TOY = SimulatorAgainstEngine(warm_up_s=3.0, measured_s=4.0, warm_ups=0, scale=0.02)
