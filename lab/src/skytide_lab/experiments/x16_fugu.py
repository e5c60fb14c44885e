"""X16: three ways to judge FUGU's hosts, on three days of an exchange (P4 Fig. 4 to 9)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from skytide.control.controller import State
from skytide.control.controllers.sarsa import PENALTY, Sarsa, SarsaJudge
from skytide.control.controllers.thresholds import GlobalThresholds, LocalThresholds
from skytide.control.judging import WorkersByLoad
from skytide_lab.data.real_data import CLOSE_S, DAY_S, OPEN_S, data
from skytide_lab.experiments.estimate import mean_of
from skytide_lab.experiments.experiment import Experiment, Findings, Piece, Row
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.sim.plants.hosts import HOSTS, MEAN_LOAD, MOVE_S, Day, Floats, FuguOutcome, operators, run_fugu

POINTS, SECTORS = 700, 6
MEAN_RATE_HZ = 1_000.0  # the same for every day, as P4 prints no rates
DAYS = {"day 1": ("quotes", "AIG"), "day 2": ("quotes", "BAC"), "day 3": ("trades", None)}
SETTINGS = {
    "default": (0.3, 0.8),
    "lower 0.2": (0.2, 0.8),
    "lower 0.4": (0.4, 0.8),
    "upper 0.7": (0.3, 0.7),
    "upper 0.9": (0.3, 0.9),
}
TECHNIQUES: dict[str, type[WorkersByLoad]] = {"local": LocalThresholds, "global": GlobalThresholds, "Sarsa": Sarsa}
LEARNING = {"none": (0.0, 80.0), "default": (0.2, 80.0), "more intensive": (0.5, 80.0), "longer": (0.2, 160.0)}
CALMER = (3, 9)  # measurement points over which rates are averaged, to see the effect of their jumps
FULL = "hosts filled up to 0.8"
HASTY = "one violation is enough"


@dataclass(frozen=True)
class PunishingBoth(Sarsa):
    """Sarsa that is also punished for asking for help when there is no room."""

    def judge(self, resume: State | None = None) -> SarsaJudge:
        """Return the judge."""
        return _PunishingBoth(self, **(resume or {}))


class _PunishingBoth(SarsaJudge):
    def refused(self, host: str) -> None:
        self.tables[host].penalised = True


@dataclass(frozen=True)
class Run:
    """One bar of one figure."""

    figure: str
    technique: str
    setting: str
    day: str
    plan: WorkersByLoad
    calm: int = 1
    fill: float | None = None


def runs() -> Iterator[Run]:
    """Yield all runs."""
    for figure, (name, technique) in zip(("Fig. 4", "Fig. 5", "Fig. 6"), TECHNIQUES.items(), strict=True):
        for setting, (lower, upper) in SETTINGS.items():
            yield Run(figure, name, setting, "day 1", technique(lower=lower, upper=upper))
    for figure, name in (("Fig. 7", "local"), ("Fig. 8", "Sarsa")):
        for day in DAYS:
            yield Run(figure, name, "default", day, TECHNIQUES[name]())
    for setting, (impact, duration) in LEARNING.items():
        yield Run("Fig. 9", "Sarsa", f"learning: {setting}", "day 1", Sarsa(impact=impact, duration=duration))
    for calm in CALMER:
        for name in ("local", "Sarsa"):
            yield Run("ours", name, f"rates averaged over {calm} points", "day 1", TECHNIQUES[name](), calm)
    yield Run("ours", "local", HASTY, "day 1", LocalThresholds(intervals=1))
    for name in ("local", "Sarsa"):
        yield Run("ours", name, FULL, "day 1", TECHNIQUES[name](), fill=SETTINGS["default"][1])
    yield Run("ours", "Sarsa", "punished both ways", "day 1", PunishingBoth())


@dataclass(frozen=True)
class Fugu(Experiment):
    """Plays five settings, three days and four ways to learn; means over seeds, which draw the queries."""

    id = "X16"
    title = "thresholds and learning for FUGU's hosts"
    source = "P4 Fig. 4-9"
    question = "Does learning use hosts better than thresholds do, at no higher latency, and more steadily over days?"
    seconds = 200.0

    seeds: Sequence[int] = tuple(range(6))
    points: int = POINTS

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per bar of the figures."""
        return [(number,) for number in range(len(list(runs())))]

    def play(self, *piece: Any) -> list[Row]:
        """Play a run with all seeds, and return the rows."""
        return [simulate(list(runs())[piece[0]], self.seeds, self.points)]

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Judge settings, days and ways to learn, and return the findings."""
        return Findings([*_by_setting(rows), *_by_day(rows), *_by_learning(rows)], _notes(rows))

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw utilisation as bars from the least to the most loaded host, and latency from the 10th to the 90th percentile."""
        names = list(dict.fromkeys(row["figure"] for row in rows))
        axes = figure.subplots(2, len(names), sharey="row")
        for column, name in enumerate(names):
            mine = [row for row in rows if row["figure"] == name]
            at = np.arange(len(mine))
            for axis, (low, middle, high) in (
                (axes[0][column], ("load_min", "load_mean", "load_max")),
                (axes[1][column], ("latency_p10_s", "latency_median_s", "latency_p90_s")),
            ):
                axis.vlines(at, [row[low] for row in mine], [row[high] for row in mine], color="0.6", lw=5)
                axis.plot(at, [row[middle] for row in mine], "k_", ms=10)
                axis.set_xticks(at, [])
            labels = [row["day"] if name in ("Fig. 7", "Fig. 8") else row["setting"] for row in mine]
            labels = [f"{row['technique']}, {label}" if name == "ours" else label for row, label in zip(mine, labels, strict=True)]
            axes[1][column].set_xticks(at, labels, rotation=90, fontsize="x-small")
            axes[1][column].set_yscale("log")
            axes[0][column].set_title(f"{name}: {mine[0]['technique']}" if name != "ours" else "ours", fontsize="small")
        axes[0][0].set(ylabel="load of hosts: least, mean, most", ylim=(0, 1))
        axes[1][0].set(ylabel="latency (s): 10 %, median, 90 %")


@cache
def day_of(name: str, calm: int = 1) -> Day:
    """Return the events of a trading day per measurement point and sector; the busiest exchanges stand for the sectors."""
    file, symbol = DAYS[name]
    table = pq.read_table(data(f"{file}_20131007.parquet"), columns=["ts", "symbol", "exchange"])
    if symbol:
        table = table.filter(pc.equal(table["symbol"], symbol))
    of_day_s = table["ts"].cast("timestamp[us]").cast("int64").to_numpy() / 1e6 % DAY_S
    open_ = (of_day_s >= OPEN_S) & (of_day_s < CLOSE_S)
    of_day_s = of_day_s[open_]
    _, exchange, events = np.unique(table["exchange"].to_numpy()[open_].astype(str), return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(-events, kind="stable"), kind="stable")
    sector = np.minimum(rank[exchange], SECTORS - 1)  # the smaller exchanges together are the last sector
    point = ((of_day_s - OPEN_S) / (CLOSE_S - OPEN_S) * POINTS).astype(int)
    rates = np.bincount(point * SECTORS + sector, minlength=POINTS * SECTORS).reshape(POINTS, SECTORS).astype(float)
    rates = np.column_stack([_averaged(column, calm) for column in rates.T])
    between_s = np.diff(np.sort(of_day_s))
    return Day(name, rates * MEAN_RATE_HZ / rates.sum(axis=1).mean(), float(between_s.var() / between_s.mean() ** 2))


def _averaged(rates: Floats, points: int) -> Floats:
    return np.convolve(np.pad(rates, points // 2, mode="edge"), np.ones(points) / points, "valid")


def simulate(run: Run, seeds: Sequence[int], points: int) -> Row:
    """Play a run with all seeds, and return the means as a row."""
    day = day_of(run.day, run.calm)
    day = replace(day, rate_hz=day.rate_hz[:points])
    outcomes = [run_fugu(day, run.plan, seed, run.fill)[0] for seed in seeds]
    means = {field.name: mean_of(float(getattr(outcome, field.name)) for outcome in outcomes) for field in fields(FuguOutcome)}
    labels: Row = {"figure": run.figure, "technique": run.technique, "setting": run.setting, "day": run.day, "seeds": len(seeds)}
    peak = float(np.max([operators(day, seed).load.sum(axis=1).max() for seed in seeds]))
    return {
        **labels,
        **{name: mean.mean for name, mean in means.items()},
        **{f"{name}_half": mean.half for name, mean in means.items()},
        "peak_hosts": peak,
    }


def _of(rows: Sequence[Row], name: str, **wanted: str) -> list[float]:
    return [row[name] for row in rows if all(row[key] == value for key, value in wanted.items())]


def _list(values: Sequence[float], form: str = ".2f") -> str:
    return ", ".join(f"{value:{form}}" for value in values)


def _by_setting(rows: Sequence[Row]) -> list[Claim]:
    used, late, most = (
        {name: _of(rows, value, figure=figure) for name, figure in zip(TECHNIQUES, ("Fig. 4", "Fig. 5", "Fig. 6"), strict=True)}
        for value in ("load_mean", "latency_p90_s", "load_max")
    )
    more = [learned - fixed for learned, fixed in zip(used["Sarsa"], used["local"], strict=True)]
    settings = f"({', '.join(SETTINGS)})"
    return [
        Claim(
            "Sarsa: utilisation at least 0.05 above local thresholds in all five settings",
            f"Sarsa above local by {_list(more, '+.3f')} {settings}; utilisation {_list(used['Sarsa'])} against {_list(used['local'])}",
            of_all(gain >= 0.05 for gain in more),
            "" if min(more) >= 0.05 else "better in all settings, but by less than 0.05 in some" if min(more) > 0 else "",
        ),
        Claim(
            "at the same or a lower 90th percentile of the latency",
            f"90th percentile {_list(late['Sarsa'], '.1f')} s against {_list(late['local'], '.1f')} s {settings}",
            of_all(learned <= fixed for learned, fixed in zip(late["Sarsa"], late["local"], strict=True)),
        ),
        Claim(
            "Sarsa's utilisation is between 0.56 and 0.62 in all settings",
            f"between {min(used['Sarsa']):.2f} and {max(used['Sarsa']):.2f}; local thresholds {min(used['local']):.2f} to {max(used['local']):.2f}",
            of_all(0.555 <= value < 0.63 for value in used["Sarsa"]),
        ),
        Claim(
            "local thresholds: a lower threshold of 0.2 lowers utilisation and latency, of 0.4 raises both",
            f"utilisation {_list([used['local'][i] for i in (1, 0, 2)])} and 90th percentile {_list([late['local'][i] for i in (1, 0, 2)], '.1f')} s at 0.2, 0.3, 0.4",
            of_all(
                [
                    used["local"][1] < used["local"][0] < used["local"][2],
                    late["local"][1] < late["local"][0] < late["local"][2],
                ]
            ),
        ),
        Claim(
            "local thresholds: upper thresholds of 0.7 and of 0.9 both raise the latency significantly",
            f"90th percentile {_list([late['local'][i] for i in (3, 0, 4)], '.1f')} s at 0.7, 0.8, 0.9",
            of_all(late["local"][at] > 1.1 * late["local"][0] for at in (3, 4)),
        ),
        Claim(
            "global thresholds: the same latency as with local ones in the default setting, a far higher one in all others",
            f"90th percentile {_list(late['global'], '.0f')} s against {_list(late['local'], '.0f')} s {settings}",
            of_all(
                [
                    late["global"][0] < 1.5 * late["local"][0],
                    *(g > 1.5 * o for g, o in list(zip(late["global"], late["local"], strict=True))[1:]),
                ]
            ),
        ),
        Claim(
            "global thresholds: the most loaded host is above 0.7 on average in all settings, with local thresholds below",
            f"{_list(most['global'])} against {_list(most['local'])} {settings}",
            of_all([*(value > 0.7 for value in most["global"]), *(value < 0.7 for value in most["local"])]),
        ),
    ]


def _by_day(rows: Sequence[Row]) -> list[Claim]:
    local, learned = (_of(rows, "latency_p90_s", figure=figure) for figure in ("Fig. 7", "Fig. 8"))
    used = [_of(rows, "load_mean", figure=figure) for figure in ("Fig. 7", "Fig. 8")]
    needs = _of(rows, "peak_hosts", figure="Fig. 8")
    spread = [max(values) / min(values) for values in (local, learned)]
    return [
        Claim(
            "three days: utilisation differs between days less with Sarsa than with local thresholds",
            f"utilisation {_list(used[1])} with Sarsa, {_list(used[0])} with local thresholds; the peaks of the days need {_list(needs, '.1f')} of {HOSTS} hosts",
            max(used[1]) - min(used[1]) < max(used[0]) - min(used[0]),
        ),
        Claim(
            "three days: latency differs between days less with Sarsa than with local thresholds, where day 2 has nearly twice that of day 1",
            f"highest over lowest 90th percentile {spread[1]:.1f} with Sarsa, {spread[0]:.1f} with local thresholds (day 2 over day 1: {local[1] / local[0]:.1f})",
            spread[1] < spread[0],
        ),
    ]


def _by_learning(rows: Sequence[Row]) -> list[Claim]:
    used, late = (_of(rows, name, figure="Fig. 9") for name in ("load_mean", "latency_p90_s"))
    local = _of(rows, "load_mean", figure="Fig. 4", setting="default")[0]
    return [
        Claim(
            "learning raises the utilisation (0.55 to 0.58) and lowers the 90th percentile (2.1 to 1.7 s)",
            f"without learning {used[0]:.3f} and {late[0]:.2f} s, with learning {used[1]:.3f} and {late[1]:.2f} s",
            of_all([used[1] > used[0], late[1] < late[0]]),
            "by P4's printed rule nothing is explored, and the table of a host is lost when the host goes"
            if used[1] <= used[0]
            else "",
        ),
        Claim(
            "more intensive and longer learning are worse in both, the first more so",
            f"more intensive {used[2]:.3f} and {late[2]:.2f} s, longer {used[3]:.3f} and {late[3]:.2f} s, default {used[1]:.3f} and {late[1]:.2f} s",
            of_all([used[2] < used[3] < used[1], late[2] > late[3] > late[1]]),
        ),
        Claim(
            "all ways to learn use hosts better than local thresholds do",
            f"utilisation {_list(used, '.3f')} against {local:.3f}",
            of_all(value > local for value in used),
        ),
    ]


def _notes(rows: Sequence[Row]) -> str:
    default = _of(rows, "load_mean", figure="Fig. 6", setting="default")[0]
    hasty = _of(rows, "load_mean", setting=HASTY)[0]
    calm = [_of(rows, "load_mean", setting=f"rates averaged over {points} points") for points in CALMER]
    full, full_p90_s = (_of(rows, name, setting=FULL) for name in ("load_mean", "latency_p90_s"))
    both = _of(rows, "latency_p90_s", setting="punished both ways")[0]
    row = next(row for row in rows if row["figure"] == "Fig. 6")
    rates = day_of("day 1").rate_hz.sum(axis=1)
    return (
        "P4's data of the Frankfurt exchange is not available. The days are one US trading day (7 October 2013) in 700 points: quotes of "
        "AIG, quotes of BAC, all trades; exchanges stand for sectors, every day has the same mean rate, and costs are chosen so that operators "
        f"keep {MEAN_LOAD} hosts busy on average, as P4's figures imply. The rates of a few shares jump more than those of a whole exchange: from point to point the "
        f"rate of day 1 changes by {np.abs(np.diff(rates)).mean() / rates.mean():.0%}, so overloads last longer than P4's latencies suggest. "
        "With rates averaged over "
        + " and ".join(
            f"{points} points Sarsa is above local thresholds by {learned - fixed:+.3f}"
            for points, (fixed, learned) in zip(CALMER, calm, strict=True)
        )
        + f". Chosen here, as P4 does not say: 3 violations in a row, 30 s of grace for all hosts that a decision affects, room on a host up to the target, "
        f"{MOVE_S:g} s and more to move an operator, a penalty of {PENALTY:g}. With room up to the upper threshold the utilisation is {full[1]:.3f} against {full[0]:.3f}, "
        f"the 90th percentile {full_p90_s[1]:.1f} s against {full_p90_s[0]:.1f} s. Sarsa acts on a single measurement; local thresholds that do the same "
        f"have a utilisation of {hasty:.3f}, Sarsa {default:.3f}. A table is deleted with its host, here after "
        f"{row['hosts'] * POINTS / row['allocated']:.0f} points on average, and nothing is learned in the grace period. If they are also punished when there is no "
        f"room to scale out, hosts stop asking, and the 90th percentile is {both:.0f} s. 95 % confidence intervals over {row['seeds']} seeds are in the table: half their width is, "
        f"for Sarsa in the default setting, {row['load_mean_half']:.3f} for the utilisation and {row['latency_p90_s_half']:.1f} s for the 90th percentile"
    )


EXPERIMENT = Fugu()
TOY = Fugu(seeds=(0, 1), points=60)
