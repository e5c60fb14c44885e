"""L1: a day of a busy web site with up to 5,000 workers (beyond the papers)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from skytide.control.controller import Controller
from skytide.control.controllers.fuzzy import Fuzzy
from skytide.control.controllers.mpc import Mpc
from skytide.control.controllers.static import Static
from skytide.control.guard import Guard
from skytide.control.saso import KEEPS_UP, Step, saso
from skytide.routing import TB_RR
from skytide.sim.drive import drive
from skytide_lab.data.real_data import data
from skytide_lab.experiments.experiment import Experiment, Findings, Piece, Row
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.sim import CoarseStage, Costs, Curve
from skytide_lab.sim.plants.coarse import CoarsePlant

MAX_WORKERS, SETPOINT = 5_000, 0.9
TUPLE_S = 1e-3
COSTS = Costs(
    "a tuple costs 1 ms of a worker", {"independent": Curve((1, 10_000), (1.0, 10_000.0), (TUPLE_S, 10_000 * TUPLE_S))}, 1e-9
)
STEP_S, INTERVAL_S, LEAD_S, PANE_S = 5.0, 10.0, 10.0, 0.1
MINUTE_S, DAY_MINUTES = 60.0, 1_440
CONTROLLERS: dict[str, Controller] = {
    "static peak": Static(MAX_WORKERS),
    "Fuzzy": Fuzzy(maximum=MAX_WORKERS),
    "Mpc, throughput": Mpc.throughput(maximum=MAX_WORKERS),
    "Mpc, latency 2 s": Mpc.latency("2 s", maximum=MAX_WORKERS),
}


@dataclass(frozen=True)
class Scale(Experiment):
    """Plays the day of the 1998 football World Cup with the highest peak under each controller."""

    id = "L1"
    title = "a day with up to 5,000 workers"
    source = "beyond the papers"
    question = "How much do controllers save on a day of a busy web site, compared with as many workers as its peak needs?"
    seconds = 20.0

    minutes: int = DAY_MINUTES

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per controller."""
        return [(name,) for name in reversed(CONTROLLERS)]

    def play(self, *piece: Any) -> list[Row]:
        """Play the day under a controller, and return the rows."""
        name = piece[0]
        began = time.perf_counter()
        by_minute, total = play(CONTROLLERS[name], busiest_day()[1][: self.minutes])
        took_s = time.perf_counter() - began
        return [
            {"controller": name, "figure": "day", **total, "took_s": took_s},
            *({"controller": name, "figure": "minute", **row} for row in by_minute),
        ]

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Compare with the static peak, and return the findings."""
        totals = {row["controller"]: row for row in rows if row["figure"] == "day"}
        static = totals.pop("static peak")["worker_hours"]
        saved = {name: 1 - total["worker_hours"] / static for name, total in totals.items()}
        good = {name: saved[name] >= 0.4 and total["violations"] <= 0.01 for name, total in totals.items()}
        return Findings(
            [
                Claim(
                    "(ours) at least 40 % fewer worker seconds than the static peak, with violations in at most 1 % of the intervals",
                    "; ".join(
                        f"{n}: {saved[n]:.0%} fewer, {t['violations']:.2%} violations, longest wait {t['wait_s']:.1f} s"
                        for n, t in totals.items()
                    ),
                    of_all(good.values()),
                ),
                Claim(
                    "(ours) a day with thousands of workers takes minutes at most",
                    ", ".join(f"{name} {total['took_s']:.0f} s" for name, total in totals.items()),
                    of_all(total["took_s"] < 180 for total in totals.values()),
                ),
                Claim(
                    "(ours) thousands of workers are reached",
                    ", ".join(f"{name} {total['max_workers']:,}" for name, total in totals.items()),
                    of_all(total["max_workers"] >= 0.9 * MAX_WORKERS for total in totals.values()),
                ),
            ],
            f"by counts (sim/coarse), {COSTS.origin}; a decision every {INTERVAL_S:g} s, a worker is there {LEAD_S:g} s after it was requested and is paid for "
            f"from then on; the guard has its default limits, up to {MAX_WORKERS:,} workers. Rates are those of whole minutes, as recorded: nothing is random. A violation is an interval in which less than "
            f"{KEEPS_UP:.0%} of the input was processed",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw workers and waiting times over the day."""
        workers, waits = figure.subplots(2, 1, sharex=True)
        for name in CONTROLLERS:
            mine = [row for row in rows if row["controller"] == name and row["figure"] == "minute"]
            hours = [row["end_s"] / 3600 for row in mine]
            workers.plot(hours, [row["workers"] for row in mine], lw=0.8, label=name)
            waits.plot(hours, [row["wait_s"] for row in mine], lw=0.8)
        shown = [row for row in rows if row["controller"] == "Fuzzy" and row["figure"] == "minute"]
        workers.fill_between(
            [row["end_s"] / 3600 for row in shown], [row["arrival_hz"] * TUPLE_S for row in shown], color="0.85", label="work"
        )
        workers.set(ylabel="workers")
        waits.set(ylabel="wait (s)", xlabel="hour of the day")
        workers.legend(frameon=False)


def busiest_day() -> tuple[str, list[float]]:
    """Return the day with the busiest minute, and its rates per minute, scaled so that this minute needs `MAX_WORKERS`."""
    table = pq.read_table(data("rates_worldcup98.parquet"))
    minutes = table["minute"].to_numpy().astype("datetime64[m]")
    counts = table["count"].to_numpy().astype(float)
    day = minutes[int(counts.argmax())].astype("datetime64[D]")
    rates = np.zeros(DAY_MINUTES)
    today = minutes.astype("datetime64[D]") == day
    rates[(minutes[today] - day.astype("datetime64[m]")).astype(int)] = counts[today]
    return str(day), (rates * (MAX_WORKERS * SETPOINT / TUPLE_S / rates.max())).tolist()


def play(controller: Controller, rates_hz: Sequence[float]) -> tuple[list[Row], Row]:
    """Play the day, and return a row per minute and the totals."""
    steps_hz = np.repeat(rates_hz, int(MINUTE_S / STEP_S)).tolist()
    first = MAX_WORKERS if isinstance(controller, Static) else max(1, round(rates_hz[0] * TUPLE_S / SETPOINT))
    plant = CoarsePlant(CoarseStage(COSTS, TB_RR, PANE_S), steps_hz, STEP_S, workers=first, lead_s=LEAD_S)
    rows: list[Row] = []
    steps: list[Step] = []
    wait_s = 0.0
    for number, cycle in enumerate(drive(plant, controller, Guard(maximum=MAX_WORKERS), interval_s=INTERVAL_S), 1):
        if cycle.evaluation is None:
            continue
        seen = cycle.evaluation.seen
        waits_s = seen.backlog * TUPLE_S / seen.allocation.workers
        wait_s = max(wait_s, waits_s)
        steps.append(Step(seen.allocation, seen.processed_rate_hz < KEEPS_UP * seen.arrival_rate_hz, seen.interval_s))
        if number % int(MINUTE_S / INTERVAL_S) == 0:
            rows.append(
                {"end_s": cycle.at_s, "workers": seen.allocation.workers, "arrival_hz": seen.arrival_rate_hz, "wait_s": waits_s}
            )
    measured = saso(steps)
    return rows, {
        "worker_hours": plant.worker_s / 3600,
        "mean_workers": measured.mean_workers,
        "max_workers": max(step.allocation.workers for step in steps),
        "violations": measured.violation_share,
        "changes": measured.reconfigurations,
        "wait_s": wait_s,
    }


EXPERIMENT = Scale()
TOY = Scale(minutes=60)
