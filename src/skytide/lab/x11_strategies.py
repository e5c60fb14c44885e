"""X11: what the cost of changes and the length of the horizon do (P2 Fig. 11 to 17, Results 1 to 4)."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from skytide.control.models import power_w
from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.lab.trading import (
    ALPHAS,
    CHOSEN,
    FASTEST_GHZ,
    REPLICAS,
    SERVICE_S,
    Unprinted,
    play,
    real_rates,
    strategy,
    walk_rates,
)

STREAMS = ("random walk", "real")
WAYS = {"NoSw": 0, **{f"Sw h={h}": h for h in (1, 2, 3, 4)}}
LONGEST = "Sw h=4"
RUNS, FEWER_RUNS = 10, 4
PEAK_W = float(power_w(REPLICAS, FASTEST_GHZ))
MEASURES = {
    "reconfigurations": "reconfigurations",
    "violations": "violations",
    "amplitude": "mean amplitude",
    "used": "replicas or watts",
}
SETTINGS = {
    "chosen": CHOSEN,
    "keys move in 100 ms": replace(CHOSEN, move_s=0.1),
    "watts unscaled": replace(CHOSEN, watt_scale=float(power_w(1, FASTEST_GHZ))),
    "half the bound": replace(CHOSEN, bound_s=2 * SERVICE_S),
    "twice the bound": replace(CHOSEN, bound_s=8 * SERVICE_S),
}
"""What P2 does not print, as chosen, and otherwise."""
Figures = dict[tuple[str, str, str], Row]


class Strategies(Experiment):
    """Four strategies without a cost of changes, and with it at four horizons."""

    id = "X11"
    title = "model predictive control: what switching cost and horizon do"
    source = "P2 Fig. 11-17, Results 1 to 4"

    def measure(self, tell: Progress) -> Findings:
        """Play all combinations."""
        rows: list[Row] = []
        claims: dict[str, list[Claim]] = {}
        with ProcessPoolExecutor() as processes:
            for setting in SETTINGS:
                cases = product([setting], STREAMS, ALPHAS, WAYS)
                found = list(processes.map(simulate, *zip(*cases, strict=True)))
                claims[setting] = _claims({(r["stream"], r["strategy"], r["way"]): r for r in found})
                rows += found
                for stream, name in product(STREAMS, ALPHAS):
                    said = (
                        f"{r['way']} {r['reconfigurations']:.0f}/{r['violations']:.0f}/{r['amplitude']:.2f}/{r['used']:.1f}"
                        for r in found
                        if (r["stream"], r["strategy"]) == (stream, name)
                    )
                    tell(f"{setting}: {stream}, {name} (reconf./viol./ampl./used): " + ", ".join(said))
        return Findings(rows, [*claims["chosen"], _robust(claims)], NOTES)

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw each measure as bars: one group a strategy and stream."""
        axes = figure.subplots(2, 2).flat
        groups = list(product(STREAMS, ALPHAS))
        rows = [row for row in rows if row["setting"] == "chosen"]
        for axis, (name, label) in zip(axes, MEASURES.items(), strict=True):
            for place, way in enumerate(WAYS):
                values = [
                    next(r[name] for r in rows if (r["stream"], r["strategy"], r["way"]) == (*group, way)) for group in groups
                ]
                axis.bar(np.arange(len(groups)) + place * 0.16, values, width=0.15, label=way)
            axis.set_xticks(
                np.arange(len(groups)) + 0.32,
                [f"{s}\n{'walk' if stream != 'real' else stream}" for stream, s in groups],
                fontsize=7,
            )
            axis.set(ylabel=label)
        figure.axes[0].legend(frameon=False, fontsize=8)


NOTES = (
    f"means of {RUNS} runs ({FEWER_RUNS} with other choices), each with a walk of its own; P2's weights as printed (Tab. 6). Not printed in P2 and "
    "chosen here: the bound of the latency (four times that of an idle replica), the scale of watts in the costs (a replica at full speed "
    "costs what it costs where replicas are counted), how long moved keys wait (10 ms), the weights of the forecast. Scale and waiting "
    "time were chosen after a first run with 100 ms and unscaled watts, in which fewer claims held: so other choices are "
    "played as well, and the share of power that is saved means little. The quotes are three symbols of a day in 2013, "
    "which are rougher than P2's 2,836 together, and their mean rate is lower against the peak. The walk jumps every five seconds: where "
    "it jumps up, a brake on changes costs violations, unless a latency has left replicas to spare. For Th-Node the brake is weak by "
    "P2's own weights: a replica that goes saves 0.5 in a step and costs 0.4 once. The power is that of the cores by P2's model, "
    "without what an idle processor takes"
)


def simulate(setting: str, stream: str, name: str, way: str) -> Row:
    """Play a strategy several times."""
    real, horizon = stream == "real", WAYS[way]
    chosen: Unprinted = SETTINGS[setting]
    controller = strategy(name, real=real, horizon=max(1, horizon), switching=horizon > 0, chosen=chosen)
    runs = [
        play(
            real_rates() if real else walk_rates(seed), controller, bound_s=controller.bound_s, move_s=chosen.move_s, seed=seed
        ).saso
        for seed in range(RUNS if setting == "chosen" else FEWER_RUNS)
    ]
    row: Row = {"setting": setting, "stream": stream, "strategy": name, "way": way}
    for measure in ("reconfigurations", "violations", "amplitude", "mean_workers", "mean_power_w"):
        row[measure] = float(np.mean([getattr(run, measure) for run in runs]))
    row["used"] = row["mean_power_w"] if name.endswith("Power") else row["mean_workers"]
    return row


def _claims(by: Figures) -> list[Claim]:
    less = _compare(by, lambda a, b: a < b)
    more = _compare(by, lambda a, b: a > b)
    saved = {name: 1 - by["real", name, "NoSw"]["mean_power_w"] / PEAK_W for name in ("Lat-Power", "Th-Power")}
    watts = {name: [_watts(by, s, f"{name}-Node") - _watts(by, s, f"{name}-Power") for s in STREAMS] for name in ("Th", "Lat")}
    return [
        less("Result 1: the cost of changes leaves fewer reconfigurations", "reconfigurations", "Sw h=1", "NoSw"),
        more("Result 1: a longer horizon takes some of that back", "reconfigurations", LONGEST, "Sw h=1"),
        more("Result 2: the cost of changes makes for overshoot", "used", "Sw h=1", "NoSw"),
        less("Result 2: a longer horizon mitigates it", "used", LONGEST, "Sw h=1"),
        less("Result 3: the cost of changes leaves fewer violations", "violations", "Sw h=1", "NoSw"),
        more("Result 3: a longer horizon takes some of that back", "violations", LONGEST, "Sw h=1"),
        less("Result 4: the cost of changes makes reconfigurations smaller", "amplitude", "Sw h=1", "NoSw"),
        more("Result 4: a longer horizon makes them larger again", "amplitude", LONGEST, "Sw h=1"),
        Claim(
            "direction: with frequencies less power than without (P2: 13 to 14 W for Th-Power, 10 to 11 W for Lat-Power, NoSw)",
            f"saved (random walk, real): Th-Power {watts['Th'][0]:.1f} and {watts['Th'][1]:.1f} W, Lat-Power {watts['Lat'][0]:.1f} and {watts['Lat'][1]:.1f} W",
            all(value > 0 for values in watts.values() for value in values),
        ),
        Claim(
            "direction: less power than a static peak, with Th-Power the least (P2: 30.7 % less with Lat-Power, 48.6 % with Th-Power)",
            f"{saved['Lat-Power']:.1%} less with Lat-Power, {saved['Th-Power']:.1%} with Th-Power",
            saved["Th-Power"] > saved["Lat-Power"] > 0,
        ),
        Claim(
            "throughput takes fewer resources than latency",
            "replicas of Th-Node and Lat-Node: "
            + ", ".join(
                f"{by[s, 'Th-Node', 'NoSw']['used']:.1f} and {by[s, 'Lat-Node', 'NoSw']['used']:.1f} ({s})" for s in STREAMS
            ),
            all(by[s, "Th-Node", "NoSw"]["used"] < by[s, "Lat-Node", "NoSw"]["used"] for s in STREAMS),
        ),
    ]


def _robust(claims: dict[str, list[Claim]]) -> Claim:
    """Say which claims come out otherwise with other choices of what P2 does not print."""
    base = claims["chosen"]
    turned = {
        setting: [
            f"{'no longer' if a.holds else 'now'} holds: {a.paper}" for a, b in zip(base, found, strict=True) if a.holds != b.holds
        ]
        for setting, found in claims.items()
        if setting != "chosen"
    }
    said = "; ".join(f"{setting}: {', '.join(differs) or 'the same'}" for setting, differs in turned.items())
    return Claim("(ours) what holds does not depend on what P2 does not print", said, not any(turned.values()))


def _watts(by: Figures, stream: str, name: str) -> float:
    return float(by[stream, name, "NoSw"]["mean_power_w"])


def _compare(by: Figures, holds: Callable[[float, float], bool]) -> Callable[[str, str, str, str], Claim]:
    """Give claims that a measure differs between two ways for all strategies and streams."""

    def claim(paper: str, measure: str, one: str, other: str) -> Claim:
        pairs = {
            f"{name} {'walk' if stream != 'real' else stream}": (by[stream, name, one][measure], by[stream, name, other][measure])
            for stream, name in product(STREAMS, ALPHAS)
        }
        wrong = [case for case, (a, b) in pairs.items() if not holds(a, b)]
        said = ", ".join(f"{case} {a:.3g} / {b:.3g}" for case, (a, b) in pairs.items())
        found = f"{measure}, {one} / {other}: {said}" + (f"; not for {', '.join(wrong)}" if wrong else "")
        return Claim(paper, found, not wrong)

    return claim


EXPERIMENT = Strategies()
