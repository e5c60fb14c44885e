"""X1: how panes are assigned to workers when tuples come in bursts (P3 §4.3.3, Fig. 8)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from matplotlib.figure import Figure

from skytide.routing import AS, AS_PID, PB_RR, TB_RR
from skytide_lab.experiments.estimate import Mean, column, mean_of
from skytide_lab.experiments.experiment import SEEDS, Experiment, Findings, Piece, Row
from skytide_lab.experiments.scenarios import EARLY, KERNELS, P3_PANES, P3_RATE_HZ, WHOLE, burst_stream, p3_costs
from skytide_lab.experiments.verdict import Claim, flips, of_all
from skytide_lab.sim import run_panes

LEVELS = {"no bursts": None, "low": 1_000.0, "medium": 2_500.0, "high": 6_000.0}
BURSTY = tuple(level for level, dispersion in LEVELS.items() if dispersion)
STRATEGIES = (PB_RR, TB_RR, AS, AS_PID)
WARM_UP = 0.25  # the share of the stream in which the PID is tuned
SETPOINT, PRECISION = 0.9, 0.02
MEASURES = ("utilisation", "splitting_factor", "throughput", "kept_per_pane", "imbalance")


@dataclass(frozen=True)
class SplittingPanes(Experiment):
    """Plays four strategies at four levels of bursts with 1 to 17 workers."""

    id = "X1"
    title = "splitting panes under bursts"
    source = "P3 Fig. 8"
    question = (
        "Which way of assigning the tuples of a pane to workers sustains bursts, and how much does it pass on to the window level?"
    )
    seconds = 270.0

    seeds: Sequence[int] = SEEDS
    fewer_seeds: Sequence[int] = SEEDS[:2]
    length_s: float = 120.0
    workers: Sequence[int] = (1, 3, 5, 7, 9, 13, 17)
    some_workers: Sequence[int] = (3, 5, 7, 17)
    """Numbers of workers for the strategies that split panes without a PID."""

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per stream; fewer for the kernel that is not the paper's."""
        return [*product(LEVELS, self.seeds, [WHOLE]), *product(LEVELS, self.fewer_seeds, [EARLY])]

    def play(self, *piece: Any) -> list[Row]:
        """Play a stream with all strategies and numbers of workers, and return the rows."""
        level, seed, kernel = piece
        dispersion = LEVELS[level]
        stream = burst_stream(P3_RATE_HZ, dispersion, P3_PANES, self.length_s, changing=dispersion is not None, seed=seed)
        labels = {"kernel": kernel, "bursts": level, "seed": seed}
        costs, rows = p3_costs(kernel), []
        cases = [(strategy, n) for strategy in STRATEGIES for n in (self.some_workers if strategy in (TB_RR, AS) else self.workers)]
        for strategy, workers in cases:
            outcome, _ = run_panes(stream, costs, strategy, workers, warm_up_s=WARM_UP * self.length_s)
            rows.append({**labels, "strategy": strategy.name, "workers": workers, **asdict(outcome)})
        return rows

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Judge the published kernel, note what another one changes, and return the findings."""
        claims, other = (_claims([row for row in rows if row["kernel"] == kernel]) for kernel in KERNELS)
        deviation = mean_of(column(rows, "pane_cv", kernel=WHOLE, bursts="high", strategy="PB_RR", workers=rows[-1]["workers"]))
        return Findings(
            claims,
            f"Means over {len(set(column(rows, 'seed')))} seeds with 95 % confidence intervals. Bursts in application time, with a uniform delay of 200 ms on average (P3 §4.3.2); the kind of "
            "points of the bursty streams changes every ten panes, as P3 does not say how often. A strategy sustains a stream if the plain mean "
            f"of the samples is below 1, as in P3. Pane sizes deviate by {deviation:.0%} of their mean at I = 6,000; P3 prints 123 %, but a process of two states with that index and "
            f"panes of 0.1 s allows at most 77 %. With a kernel that {EARLY}: {flips(claims, other)}. {p3_costs().origin}",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw the panels of the figure."""
        rows = [row for row in rows if row["kernel"] == WHOLE]
        axes = figure.subplots(2, 4)
        panels = [("utilisation", level) for level in LEVELS] + [(name, "high") for name in MEASURES[1:]]
        for axis, (name, level) in zip(axes.flat, panels, strict=True):
            for strategy in STRATEGIES:
                workers = sorted({row["workers"] for row in rows if row["strategy"] == strategy.name})
                means = [mean_of(column(rows, name, bursts=level, strategy=strategy.name, workers=n)) for n in workers]
                axis.errorbar(workers, [m.mean for m in means], [m.half for m in means], marker=".", label=strategy.name)
            axis.set(title=f"{name.replace('_', ' ')}, {level}", xlabel="workers")
        for axis in axes[0]:
            axis.axhline(1, color="0.7", lw=0.8)
            axis.axhline(SETPOINT, color="0.7", lw=0.8, ls=":")
            axis.set_ylim(0, 4)
        axes[1][3].set_ylim(1, 4)
        axes[0][0].legend(frameon=False, fontsize="small")


def _claims(rows: Sequence[Row]) -> list[Claim]:
    workers = sorted({row["workers"] for row in rows})
    most = workers[-1]

    def mean(name: str, level: str, strategy: str, n: int) -> Mean:
        return mean_of(column(rows, name, bursts=level, strategy=strategy, workers=n))

    def fewest(level: str, strategy: str) -> int | None:
        tried = sorted({row["workers"] for row in rows if row["strategy"] == strategy})
        return next((n for n in tried if mean("utilisation", level, strategy, n).mean < 1), None)

    least = {(level, s.name): fewest(level, s.name) for level in LEVELS for s in STRATEGIES}
    panes = {level: mean("utilisation", level, "PB_RR", most) for level in BURSTY}
    share = [mean("throughput", level, "PB_RR", most) for level in BURSTY]
    even = [mean("throughput", level, "TB_RR", most) for level in BURSTY]
    enough = {
        (level, n): mean("utilisation", level, "AS_PID", n)
        for level in BURSTY
        for n in workers
        if n >= (least[level, "AS_PID"] or most + 1)
    }
    off = {at: abs(used.mean / SETPOINT - 1) for at, used in enough.items()}
    worst = {level: max((value for at, value in off.items() if at[0] == level), default=float("inf")) for level in BURSTY}
    more = [
        one / two - 1
        for one, two in zip(
            *(column(rows, "kept_per_pane", bursts="high", strategy=s, workers=most) for s in ("TB_RR", "PB_RR")), strict=True
        )
    ]
    blown = mean_of(more)
    tried = sorted({row["workers"] for row in rows if row["strategy"] == "AS"})
    enough_for = {level: least[level, "AS_PID"] or most for level in BURSTY}
    start = {level: min((abs(n - enough_for[level]), n) for n in tried)[1] for level in BURSTY}
    alone = {level: mean("utilisation", level, "AS", start[level]) for level in BURSTY}
    split = {s: mean("splitting_factor", "high", s, most) for s in ("AS", "AS_PID")}
    loose = mean("utilisation", "high", "AS", most)
    calm = mean("splitting_factor", "no bursts", "AS_PID", most)
    return [
        Claim(
            "no bursts: PB_RR needs 7 workers (to which costs are scaled), and with more workers AS_PID does not split",
            f"PB_RR needs {least['no bursts', 'PB_RR']} of {', '.join(map(str, workers))}; AS_PID splits {calm:.2f} ways with {most}",
            least["no bursts", "PB_RR"] == 7 and calm.mean < 1.1,
        ),
        Claim(
            "bursts: the utilisation of PB_RR stays above 1 with any number of workers, so it sustains only a part, which shrinks with burstiness (1/rho)",
            f"PB_RR with {most} workers: utilisation "
            + ", ".join(f"{used:.2f} ({level})" for level, used in panes.items())
            + "; share of the panes per second "
            + ", ".join(f"{part:.0%}" for part in share),
            of_all(
                [
                    *(least[level, "PB_RR"] is None for level in BURSTY),
                    panes["low"].mean < panes["medium"].mean < panes["high"].mean,
                ]
            ),
        ),
        Claim(
            "bursts: TB_RR and AS_PID sustain the whole stream",
            "fewest workers: "
            + ", ".join(f"{name} {least[level, name]} ({level})" for level in BURSTY for name in ("TB_RR", "AS_PID"))
            + f"; TB_RR completes {', '.join(f'{part:.0%}' for part in even)} of the panes per second with {most}",
            of_all(least[level, name] is not None for level in BURSTY for name in ("TB_RR", "AS_PID")),
        ),
        Claim(
            "AS_PID keeps the utilisation within 2 % of 0.9 as soon as there are enough workers",
            "AS_PID is off by at most "
            + ", ".join(f"{error:.1%} ({level})" for level, error in worst.items())
            + f"; within 2 % in {sum(error <= PRECISION for error in off.values())} of {len(off)} cases",
            of_all(error <= PRECISION for error in off.values()) if off else False,
            ""
            if off and max(off.values()) <= PRECISION
            else "a PID whose gains come from a short relay experiment regulates a bursty utilisation less exactly",
        ),
        Claim(
            "AS alone may split too little: with as many workers as AS_PID needs to remove the bottleneck, AS does not remove it",
            "AS has a utilisation of "
            + ", ".join(f"{used:.2f} with {start[level]} workers ({level})" for level, used in alone.items()),
            of_all(used.mean > 1 for used in alone.values()),
        ),
        Claim(
            "AS alone may split too much: with 17 workers under high bursts it is unnecessarily fast (0.63), and AS_PID splits less",
            f"AS has a utilisation of {loose:.2f} and splits {split['AS']:.2f} ways, AS_PID {split['AS_PID']:.2f}",
            loose.mean < 0.8 and split["AS_PID"].mean < split["AS"].mean,
        ),
        Claim(
            "TB_RR sends about 60 % more tuples to the window level than PB_RR (17 workers, high)",
            f"TB_RR sends {blown:.0%} more",
            0.45 <= blown.mean <= 0.75,
        ),
    ]


EXPERIMENT = SplittingPanes()
TOY = SplittingPanes(seeds=(0, 1), fewer_seeds=(0,), length_s=6.0, workers=(1, 7), some_workers=(3, 7))
