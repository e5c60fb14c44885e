"""X13: five strategies for assigning 80 streams to splits (P1 Fig. 10 and 11)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from statistics import fmean, stdev
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from skytide.admission import STRATEGIES, Admission
from skytide.forecasting import Holt, ahead
from skytide_lab.experiments.experiment import SEEDS, Experiment, Findings, Piece, Row
from skytide_lab.experiments.verdict import Claim, Verdict, of_all
from skytide_lab.sim.fleet import TICK_S, WORKLOADS, FleetOutcome, fleet_traffic, run_fleet

STREAMS = 80  # P1 §6.1.1
LEVEL, HIGHER = 10, 20  # machines that the load needs; P1 prints no number for these figures
LATE, EARLY = (
    "late",
    "early",
)  # a split counts as overloaded when it is late (P1 §2.5), or already when too much is expected (Fig. 5)
RATE_HZ, SECONDS, REDIRECT_S = 40_000.0, 600.0, 1.0  # ours too
HISTORY = 1_000  # seed of the history to which the weights of forecasts are fitted
MOVED = 0.5  # "most of the streams"
ABOUT_15 = (0.10, 0.20)
NAMES = {"drfm": "DRF-M", "drf": "DRF", "ari": "ARI", "ard": "ARD", "par": "PAR"}
HARD_TO_FORECAST, WITH_TREND = ("psfcw", "sfvar", "bursty"), ("ptfcw", "tfvar")
MEASURES = ("redirections", "buffered", "delay_s", "above_optimal")


@dataclass(frozen=True)
class Run:
    """One bar of the figures."""

    workload: str
    strategy: str
    overloaded: str = LATE
    level: int = LEVEL
    seeds: Sequence[int] = SEEDS
    seconds: float = SECONDS


def runs() -> Iterator[Run]:
    """Yield all runs."""
    for (overloaded, level), workload, strategy in product(((LATE, LEVEL), (EARLY, LEVEL), (LATE, HIGHER)), WORKLOADS, STRATEGIES):
        yield Run(workload, strategy, overloaded, level)


@cache
def fitted(workload: str, seconds: float = SECONDS) -> Holt:
    """Return the weights with the smallest squared error one period ahead on a history of such streams (P1 §2.3)."""
    period_s = Admission().period_s
    counts = fleet_traffic(workload, STREAMS, RATE_HZ, seconds, HISTORY).counts
    ticks = round(period_s / TICK_S)
    rates = counts[:, : counts.shape[1] // ticks * ticks].reshape(STREAMS, -1, ticks).sum(axis=2).T / period_s
    tried = []
    for weights in product((0.1, 0.3, 0.5, 0.7, 0.9, 1.0), (0.02, 0.1, 0.3, 0.5, 0.7, 0.9)):
        holt, level, trend, error = Holt(*weights), np.zeros(STREAMS), np.zeros(STREAMS), 0.0
        for seen, rate in enumerate(rates):
            if seen >= 2:
                error += float(np.square(ahead(level, trend, 1) - rate).sum())
            level, trend = holt.step(rate, level, trend, seen)
        tried.append((error, weights))
    return Holt(*min(tried)[1])


def simulate(run: Run) -> Row:
    """Play a run with all seeds, and return the means as a row."""
    admission = Admission(
        strategy=STRATEGIES[run.strategy](),
        capacity_hz=RATE_HZ / (run.level - 0.5),
        early=run.overloaded == EARLY,
        holt=fitted(run.workload, run.seconds),
    )
    outcomes = [
        run_fleet(admission, fleet_traffic(run.workload, STREAMS, RATE_HZ, run.seconds, seed), redirect_s=REDIRECT_S)
        for seed in run.seeds
    ]
    names = [field.name for field in fields(FleetOutcome)] + ["above_optimal"]
    labels = {
        "workload": run.workload,
        "strategy": run.strategy,
        "overloaded": run.overloaded,
        "level": run.level,
        "seeds": len(outcomes),
    }
    means = {name: fmean(getattr(outcome, name) for outcome in outcomes) for name in names}
    errors = {f"{name}_error": _error([getattr(outcome, name) for outcome in outcomes]) for name in MEASURES}
    return labels | means | errors | {"holt_level": admission.holt.level, "holt_trend": admission.holt.trend}


def _error(values: Sequence[float]) -> float:
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


@dataclass(frozen=True)
class AdmissionStrategies(Experiment):
    """Plays six workloads with five strategies; means over seeds, which draw rates, phases and tuples."""

    id = "X13"
    title = "assigning 80 unsteady streams to splits"
    source = "P1 Fig. 10, 11"
    question = "Which strategy redirects the fewest streams, buffers the fewest tuples and needs the fewest splits?"
    seconds = 180.0

    runs: Sequence[Run] = tuple(runs())

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per bar of the figures."""
        return [(run,) for run in self.runs]

    def play(self, *piece: Any) -> list[Row]:
        """Play a run with all seeds, and return the rows."""
        return [simulate(piece[0])]

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Judge the runs in which only latency counts as overload, as in P1, and return the findings."""
        return Findings(claims(_of(rows)), _notes(rows))

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw each measure as bars, grouped by workload."""
        titles = (
            "redirections per period",
            "tuples buffered per period",
            "redirection delay (s) per period",
            "% of splits above optimal",
        )
        rows = _of(rows)
        for axis, measure, title in zip(np.ravel(figure.subplots(2, 2)), MEASURES, titles, strict=True):
            for at, (strategy, name) in enumerate(NAMES.items()):
                heights = [
                    _mean(rows, workload, strategy, measure) * (100 if measure == "above_optimal" else 1) for workload in WORKLOADS
                ]
                axis.bar(np.arange(len(WORKLOADS)) + 0.16 * (at - 2), heights, 0.16, label=name)
            axis.set_xticks(np.arange(len(WORKLOADS)), WORKLOADS)
            axis.set_title(title, fontsize="medium")
            if measure != "above_optimal":
                axis.set_yscale("symlog", linthresh={"redirections": 0.1, "buffered": 100, "delay_s": 0.1}[measure])
        axis.legend(fontsize="small")


def _of(rows: Sequence[Row], overloaded: str = LATE, level: int = LEVEL) -> list[Row]:
    return [row for row in rows if (row["overloaded"], row["level"]) == (overloaded, level)]


def _mean(rows: Sequence[Row], workload: str, strategy: str, measure: str) -> float:
    by_bar = {(row["workload"], row["strategy"]): row for row in rows}
    return float(by_bar[workload, strategy][measure])


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Return the verdicts on the claims of P1 §6.2 and §6.3; up to two standard errors above another counts as no worse."""

    def value(workload: str, strategy: str, measure: str) -> float:
        return _mean(rows, workload, strategy, measure)

    def no_worse(workload: str, one: str, others: Sequence[str], measure: str) -> bool:
        mine, error = value(workload, one, measure), value(workload, one, f"{measure}_error")
        return all(
            mine <= value(workload, other, measure) + 2 * (error**2 + value(workload, other, f"{measure}_error") ** 2) ** 0.5
            for other in others
        )

    def figures(measure: str, *strategies: str, workloads: Sequence[str] = WORKLOADS, form: str = ",.1f") -> str:
        return "; ".join(
            f"{workload} " + ", ".join(f"{NAMES[each]} {value(workload, each, measure):{form}}" for each in strategies)
            for workload in workloads
        )

    everyone = tuple(NAMES)
    par_moves = [value(workload, "par", "redirections") for workload in WORKLOADS]
    drf_trend = [value(workload, "drf", "above_optimal") for workload in WITH_TREND]
    drfm_mean = fmean(value(workload, "drfm", "above_optimal") for workload in WORKLOADS)
    by_trend, by_step = (value(workload, "drf", "redirections") for workload in ("tfvar", "sfvar"))
    return [
        Claim(
            "DRF redirects fewer streams than ARI, ARD and PAR",
            f"redirections per period: {figures('redirections', 'drf', 'ari', 'ard', 'par')}",
            of_all(no_worse(workload, "drf", ("ari", "ard", "par"), "redirections") for workload in WORKLOADS),
        ),
        Claim(
            "DRF-M redirects even fewer streams than DRF, above all where forecasts fail (psfcw, sfvar, bursty)",
            f"redirections per period: {figures('redirections', 'drfm', 'drf')}",
            of_all(no_worse(workload, "drfm", ("drf",), "redirections") for workload in WORKLOADS),
        ),
        Claim(
            "DRF-M buffers the fewest tuples, followed by DRF",
            f"tuples buffered per period: {figures('buffered', *everyone, form=',.0f')}",
            of_all(
                no_worse(workload, "drfm", ("drf",), "buffered") and no_worse(workload, "drf", ("ari", "ard", "par"), "buffered")
                for workload in WORKLOADS
            ),
        ),
        Claim(
            "redirections delay tuples least with DRF-M, followed by DRF and ARI",
            f"seconds per period: {figures('delay_s', 'drfm', 'drf', 'ari')}",
            of_all(
                no_worse(workload, "drfm", ("drf",), "delay_s") and no_worse(workload, "drf", ("ari",), "delay_s")
                for workload in WORKLOADS
            ),
        ),
        Claim(
            "forecasts help where there is a trend: DRF redirects fewer streams in tfvar than in sfvar",
            f"{by_trend:.1f} and {by_step:.1f} redirections per period",
            by_trend < by_step,
        ),
        Claim(
            "ARI redirects somewhat more streams than ARD",
            f"redirections per period: {figures('redirections', 'ari', 'ard')}",
            of_all(no_worse(workload, "ard", ("ari",), "redirections") for workload in WORKLOADS),
        ),
        Claim(
            "PAR moves most of the 80 streams all the time",
            f"{', '.join(f'{workload} {moves:.0f}' for workload, moves in zip(WORKLOADS, par_moves, strict=True))} per period",
            min(par_moves) > MOVED * STREAMS,
        ),
        Claim(
            "PAR is closest to the optimal number of splits",
            f"above optimal: {figures('above_optimal', *everyone, form='.0%')}",
            of_all(
                no_worse(workload, "par", [each for each in everyone if each != "par"], "above_optimal") for workload in WORKLOADS
            ),
        ),
        Claim(
            "DRF needs around 15 % more splits than optimal if loads have a trend",
            f"{', '.join(f'{workload} {share:.0%}' for workload, share in zip(WITH_TREND, drf_trend, strict=True))}",
            of_all(ABOUT_15[0] <= share <= ABOUT_15[1] for share in drf_trend),
        ),
        Claim(
            "DRF-M is closer to optimal than DRF in psfcw, sfvar and bursty",
            figures("above_optimal", "drfm", "drf", workloads=HARD_TO_FORECAST, form=".0%"),
            of_all(no_worse(workload, "drfm", ("drf",), "above_optimal") for workload in HARD_TO_FORECAST),
        ),
        Claim(
            "DRF-M needs about 15 % more splits than optimal",
            f"{drfm_mean:.0%} on average over the workloads",
            ABOUT_15[0] <= drfm_mean <= ABOUT_15[1],
        ),
    ]


def _summary(rows: Sequence[Row]) -> str:
    """Return one line on what each strategy did, as means over the workloads."""
    return ", ".join(
        f"{name} {fmean(_mean(rows, workload, strategy, 'redirections') for workload in WORKLOADS):.1f} redirections, "
        f"{fmean(_mean(rows, workload, strategy, 'above_optimal') for workload in WORKLOADS):.0%} above optimal, "
        f"late in {fmean(_mean(rows, workload, strategy, 'violations') for workload in WORKLOADS):.0%} of the periods"
        for strategy, name in NAMES.items()
    )


def _notes(rows: Sequence[Row]) -> str:
    early, higher = _of(rows, EARLY), _of(rows, LATE, HIGHER)
    hold = [claim.verdict is Verdict.HOLDS for claim in claims(early)]
    given_up = fmean(_mean(_of(rows), workload, "drfm", "given_up") for workload in ("sfvar", "tfvar"))
    return (
        f"Not printed by P1 and chosen here: rates, a load of {LEVEL} splits, cycles of a minute from 0.4 to 1.6 times the mean, 5 s between plans, 3 periods "
        f"ahead, a bound of 5 s on latency, a redirection of {REDIRECT_S:g} s, splits filled up to 95 %, so that no strategy, not even PAR, can be much less than 5 % above optimal without being late. P1 does not say when splits are given up; here, when all streams fit into fewer with a margin, "
        f"which causes {given_up:.1f} of DRF-M's redirections per period in sfvar and tfvar. Optimal is Martello and Toth's bound L2 for the rates of each period. "
        f"Means over the workloads, if only latency counts as overload (P1 §2.5): {_summary(_of(rows))}. "
        f"If a split counts as overloaded as soon as too much is expected, which is skytide's default, {sum(hold)} of {len(hold)} claims hold: {_summary(early)}. "
        f"With a load of {HIGHER} splits: {_summary(higher)}."
    )


EXPERIMENT = AdmissionStrategies()
TOY = AdmissionStrategies(runs=tuple(replace(run, seeds=(0, 1), seconds=90.0) for run in runs()))
