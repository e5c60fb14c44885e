"""X1: how panes are given to workers when tuples come in bursts (P3 Fig. 8)."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from matplotlib.figure import Figure

from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.lab.scenarios import P3_PANES, P3_RATE_HZ, burst_stream, p3_costs
from skytide.routing import AS, AS_PID, PB_RR, TB_RR
from skytide.sim import run_panes

LEVELS = {"no bursts": None, "low": 1_000.0, "medium": 2_500.0, "high": 6_000.0}
STRATEGIES = (PB_RR, TB_RR, AS, AS_PID)
WORKERS = (1, 3, 5, 7, 9, 11, 13, 15, 17)
LENGTH_S, WARM_UP_S = 120.0, 30.0
SETPOINT = 0.9
KEEPS_UP = 0.98  # what is left over may be the tail of a burst


class SplittingPanes(Experiment):
    """Four strategies, four levels of bursts, 1 to 17 workers."""

    id = "X1"
    title = "splitting panes under bursts"
    source = "P3 Fig. 8"

    def measure(self, tell: Progress) -> Findings:
        """Simulate all combinations."""
        rows: list[Row] = []
        with ProcessPoolExecutor() as processes:
            for level, found in zip(LEVELS, processes.map(simulate, LEVELS), strict=True):
                rows += found
                for strategy in STRATEGIES:
                    used = [row["utilisation"] for row in found if row["strategy"] == strategy.name]
                    tell(f"{level}, {strategy.name}: utilisation " + ", ".join(f"{value:.2f}" for value in used))
        return Findings(rows, list(self._claims(rows)), self._notes())

    def _claims(self, rows: list[Row]) -> list[Claim]:
        bursty = [level for level, dispersion in LEVELS.items() if dispersion]
        least = {(level, s.name): _fewest(rows, level, s.name) for level in LEVELS for s in STRATEGIES}
        panes = {level: _row(rows, level, "PB_RR", WORKERS[-1])["utilisation"] for level in bursty}
        at_setpoint = {
            level: [
                row["utilisation"]
                for row in rows
                if (row["bursts"], row["strategy"]) == (level, "AS_PID") and row["workers"] >= (least[level, "AS_PID"] or 99)
            ]
            for level in bursty
        }
        errors = {
            level: max((abs(value - SETPOINT) / SETPOINT for value in values), default=1.0) for level, values in at_setpoint.items()
        }
        more = _row(rows, "high", "TB_RR", 17)["kept_a_pane"] / _row(rows, "high", "PB_RR", 17)["kept_a_pane"] - 1
        return [
            Claim(
                "no bursts: PB_RR needs 7 workers",
                f"PB_RR needs {least['no bursts', 'PB_RR']} without bursts (of {', '.join(map(str, WORKERS))})",
                least["no bursts", "PB_RR"] == 7,
            ),
            Claim(
                "bursts: the utilisation of PB_RR stays above 1 with up to 17 workers",
                "PB_RR with 17 workers has a utilisation of " + ", ".join(f"{used:.2f} ({level})" for level, used in panes.items()),
                all(least[level, "PB_RR"] is None for level in bursty),
            ),
            Claim(
                "bursts: PB_RR sustains a part of the input only, with up to 17 workers",
                "PB_RR gets 98 % of the tuples done with "
                + ", ".join(f"{_serving(rows, level, 'PB_RR') or 'more than 17'} ({level})" for level in bursty)
                + " workers, though late: queues are unbounded",
                all(_serving(rows, level, "PB_RR") is None for level in bursty),
            ),
            Claim(
                "bursts: TB_RR and AS_PID sustain it",
                "fewest workers: "
                + ", ".join(f"{name} {least[level, name]} ({level})" for level in bursty for name in ("TB_RR", "AS_PID")),
                all(least[level, name] for level in bursty for name in ("TB_RR", "AS_PID")),
            ),
            Claim(
                "AS_PID holds the utilisation within 2 % of 0.9 from the fewest sufficient workers on",
                "AS_PID is off by at most " + ", ".join(f"{error:.1%} ({level})" for level, error in errors.items()),
                all(error <= 0.02 for error in errors.values()),
            ),
            Claim(
                "TB_RR sends about 60 % more tuples to the window level than PB_RR (17 workers, high)",
                f"TB_RR sends {more:.0%} more than PB_RR",
                0.45 <= more <= 0.75,
            ),
        ]

    def _notes(self) -> str:
        return f"costs: {p3_costs().origin}"

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw the panels of the figure."""
        axes = figure.subplots(2, 4)
        for axis, level in zip(axes[0], LEVELS, strict=True):
            _lines(axis, rows, level, "utilisation")
            axis.axhline(1, color="0.7", lw=0.8)
            axis.axhline(SETPOINT, color="0.7", lw=0.8, ls=":")
            axis.set(title=f"utilisation, {level}", ylim=(0, 4))
        for axis, (name, level) in zip(
            axes[1],
            [("splitting_factor", "high"), ("kept_a_pane", "high"), ("imbalance", "high"), ("sustained", "high")],
            strict=True,
        ):
            _lines(axis, rows, level, name)
            axis.set(title=f"{name.replace('_', ' ')}, {level}", xlabel="workers")
        axes[1][2].set_ylim(1, 4)
        axes[0][0].legend(frameon=False, fontsize="small")


def simulate(level: str) -> list[Row]:
    """Play one level of bursts with all strategies and numbers of workers."""
    dispersion = LEVELS[level]
    stream = burst_stream(P3_RATE_HZ, dispersion, P3_PANES, LENGTH_S, changing=dispersion is not None)
    rows = []
    for strategy in STRATEGIES:
        for workers in WORKERS:
            outcome, _ = run_panes(stream, p3_costs(), strategy, workers, warm_up_s=WARM_UP_S)
            rows.append({"bursts": level, "strategy": strategy.name, "workers": workers, **asdict(outcome)})
    return rows


def _lines(axis: object, rows: Sequence[Row], level: str, name: str) -> None:
    for strategy in STRATEGIES:
        mine = [row for row in rows if (row["bursts"], row["strategy"]) == (level, strategy.name)]
        axis.plot([row["workers"] for row in mine], [row[name] for row in mine], marker=".", label=strategy.name)  # type: ignore[attr-defined]


def _row(rows: Sequence[Row], level: str, strategy: str, workers: int) -> Row:
    return next(row for row in rows if (row["bursts"], row["strategy"], row["workers"]) == (level, strategy, workers))


def _serving(rows: Sequence[Row], level: str, strategy: str) -> int | None:
    """Give the fewest workers that get the tuples done in the long run, however late."""
    mine = [row for row in rows if (row["bursts"], row["strategy"]) == (level, strategy)]
    return next((row["workers"] for row in mine if row["sustained"] >= KEEPS_UP), None)


def _fewest(rows: Sequence[Row], level: str, strategy: str) -> int | None:
    mine = [row for row in rows if (row["bursts"], row["strategy"]) == (level, strategy)]
    return next((row["workers"] for row in mine if row["sustained"] >= KEEPS_UP and row["utilisation"] < 1), None)


EXPERIMENT = SplittingPanes()
