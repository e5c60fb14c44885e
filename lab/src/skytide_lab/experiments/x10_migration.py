"""X10: latency and results while the state of 80 % of the keys moves, with three protocols (P2 Fig. 10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from skytide.keyed import Loads, Rebalancer, RoutingTable
from skytide.workloads.identity import derive
from skytide_lab.experiments import x10_engine
from skytide_lab.experiments.blocking import MP, R_BLK, S_BLK
from skytide_lab.experiments.experiment import Experiment, Findings, Piece, Row
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.sim.migration import PROTOCOLS, Costs, Outcome, Scene, Tuples, deal, deal_again, draw_tuples

Floats = NDArray[np.float64]
KEYS, SLIDE, STAY = 2_836, 25, 0.2
OLD, NEW = 6, 8
BEFORE_HZ, AFTER_HZ, JUMP_S, CHANGE_S, END_S = 3e5, 4e5, 30.0, 31.0, 34.0
CUT_S = 29.5  # the simulation begins here, as nothing happens before
SECOND_S = 1.0  # length of the second phase, in which latency decreases according to P2
SEEDS = tuple(range(8))
INSERT_S = 1e-6
ON_ENGINE = "on the engine"


@dataclass(frozen=True)
class Unprinted:
    """Values that P2 does not print, so that they have to be chosen."""

    replica_hz: float = 55_000.0
    """Tuples per second: above 50,000, as 6 replicas are no bottleneck before the jump, and below 66,667, as they are one afterwards."""
    state_s: float = 1e-6
    """Time to save the state of a key, and to load it: P2's replicas exchange pointers. A copy of 1,000 tuples takes some 10 µs."""
    route_s: float = 1e-6
    """Time of the splitter per tuple. P2's sends up to 8e5 per second."""
    exponent: float = 0.7
    """Exponent of Zipf's law, which the frequencies of keys follow."""
    compute_cv: float = 0.5
    interval_s: float = 0.1
    """The monitoring interval: results are counted and latencies averaged over it."""


CHOSEN, FASTER = "as chosen", "replicas of 60,000/s"
VARIANTS = {
    CHOSEN: Unprinted(),
    "replicas of 52,000/s": Unprinted(replica_hz=52_000.0),
    FASTER: Unprinted(replica_hz=60_000.0),
    "10 µs per state": Unprinted(state_s=1e-5),
    "2 µs to route": Unprinted(route_s=2e-6),
    "equally frequent keys": Unprinted(exponent=0.0),
    "even computations": Unprinted(compute_cv=0.0),
}
INTERVALS = {"intervals of 20 ms": 0.02, "intervals of 500 ms": 0.5}
"""The runs with the chosen values, measured over other intervals."""
COPIED, REBALANCED = "100 µs per state", "as few keys as possible move"
BEYOND = {COPIED: Unprinted(state_s=1e-4), REBALANCED: Unprinted()}
"""What P2 did not do: copy state to other machines, and use the routing of our rebalancer."""


OVER_TIME = (
    ("over time", CHANGE_S, "simulated, intervals of 100 ms"),
    ("engine over time", x10_engine.FULL.change + 1.0, "on the engine, intervals of 1 s"),
)
"""What is drawn: the figure of the rows, when the change is requested, and a title."""


@dataclass(frozen=True)
class Migration(Experiment):
    """Simulates the splitter, 6 replicas that become 8, and the merger tuple by tuple; and makes the same change on the real engine."""

    id = "X10"
    title = "latency and results while the state of keys moves"
    source = "P2 Fig. 10"
    question = "With which protocol does latency rise least while the state of most keys moves to other replicas?"
    seconds = 200.0

    alone_seconds = 150.0

    seeds: Sequence[int] = SEEDS
    repeats: int = x10_engine.REPEATS
    setup: x10_engine.Setup = x10_engine.FULL

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per choice of the values that P2 does not print, and seed."""
        return [(name, seed) for name in (*VARIANTS, *BEYOND) for seed in self.seeds]

    def alone(self) -> Sequence[Piece]:
        """Return the runs on the engine."""
        return [(ON_ENGINE, self.repeats)]

    def play(self, *piece: Any) -> list[Row]:
        """Simulate all protocols on the same tuples, or run them on the engine, and return the rows."""
        name, number = piece
        return x10_engine.measure(number, self.setup) if name == ON_ENGINE else simulate((name, number))

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Judge the simulated runs with all choices, and the runs on the engine, and return the findings."""
        real = [row for row in rows if row["figure"].startswith("engine")]
        simulated = [row for row in rows if not row["figure"].startswith("engine")]
        return Findings([*claims(simulated), *x10_engine.claims(real)], f"{notes(simulated)}. {x10_engine.NOTES}")

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw latency and results over time: simulated as in P2, and on the engine."""
        axes = figure.subplots(2, 2, sharex="col")
        for (latency, results), (kind, change_s, title) in zip(axes.T, OVER_TIME, strict=True):
            for name in PROTOCOLS:
                mine = [row for row in rows if row["figure"] == kind and row["protocol"] == name]
                times = sorted({row["at_s"] for row in mine})
                for axis, what in ((latency, "latency_ms"), (results, "results")):
                    means = [np.mean([row[what] for row in mine if row["at_s"] == at]) for at in times]
                    axis.plot(times, means, marker=".", label=name)
            latency.set(ylabel="mean latency (ms)", title=title)
            results.set(ylabel="results per interval", xlabel="seconds")
            for axis in (latency, results):
                axis.axvline(change_s, color="0.7", lw=0.8)
                axis.legend(frameon=False)


def scene(values: Unprinted, seed: int, *, rebalanced: bool = False) -> Scene:
    """Return P2's operator: keys, the replica of each before and after the change, and the rates. Times begin at 29.5 s."""
    shares = 1 / np.arange(1, KEYS + 1) ** values.exponent
    shares /= shares.sum()
    if rebalanced:
        before, after = _rebalanced(shares, seed)
    else:
        before = deal(shares, OLD)
        after = deal_again(shares, before, NEW, STAY, seed)
    compute_s = SLIDE / values.replica_hz - SLIDE * INSERT_S
    costs = Costs(values.route_s, INSERT_S, compute_s, values.compute_cv, values.state_s, values.state_s)
    rates = ((BEFORE_HZ, JUMP_S - CUT_S), (AFTER_HZ, END_S - JUMP_S))
    return Scene(shares, before, after, rates, CHANGE_S - CUT_S, costs, SLIDE)


def _rebalanced(shares: Floats, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the slots that our rebalancer assigns to the keys, before and after; like P2's, it aims at a nearly perfect balance."""
    hashes = derive(seed, "migration", "hashes").integers(0, 2**64, len(shares), dtype=np.uint64)
    logic, table, found = Rebalancer(threshold=1.02, target=1.01).build(), RoutingTable.even(OLD), []
    for slots in (OLD, NEW):
        loads = Loads(np.bincount(table.groups_of(hashes), shares, minlength=len(table.slots)).tolist())
        table = logic.plan(table, slots, loads).table
        found.append(table.slots_of(hashes))
    return found[0], found[1]


def simulate(plan: tuple[str, int]) -> list[Row]:
    """Play all protocols on the same tuples, with the values of a variant, and return the rows."""
    name, seed = plan
    values = (VARIANTS | BEYOND)[name]
    played = scene(values, seed, rebalanced=name == REBALANCED)
    tuples = draw_tuples(played, seed)
    outcomes = {each: protocol.play(played, tuples) for each, protocol in PROTOCOLS.items()}
    first_s = outcomes[R_BLK].migrated_s  # P2's first phase, of the same length for all protocols
    rows: list[Row] = []
    for protocol, outcome in outcomes.items():
        run = {"protocol": protocol, "seed": seed}
        moved = {"moved_keys": float(played.moved.mean()), "moved_load": float(played.shares[played.moved].sum())}
        for variant, interval_s in {name: values.interval_s, **(INTERVALS if name == CHOSEN else {})}.items():
            measured = measures(played, tuples, outcome, first_s, interval_s)
            rows.append({"figure": "measures", "variant": variant, **run, **moved, **measured})
        if name == CHOSEN:
            at, means, counts = _over_time(tuples, outcome, values.interval_s)
            over_time = zip((CUT_S + at).tolist(), (1e3 * means).tolist(), counts.tolist(), strict=True)
            rows += [
                {"figure": "over time", "variant": name, **run, "at_s": end, "latency_ms": mean, "results": count}
                for end, mean, count in over_time
                if end <= END_S
            ]
    return rows


def measures(played: Scene, tuples: Tuples, outcome: Outcome, first_s: float, interval_s: float) -> Row:
    """Return the measures that are compared; latency is from the arrival at the splitter's input to the result, of tuples that have one."""
    has = tuples.triggers
    latency_s, done_s, came_s = (outcome.done_s - tuples.at_s)[has], outcome.done_s[has], tuples.at_s[has]
    first = (came_s > played.change_s) & (came_s <= first_s)
    moved = played.moved[tuples.key[has]]
    at, means, _ = _over_time(tuples, outcome, interval_s)
    second = (done_s > first_s) & (done_s <= first_s + SECOND_S)
    return {
        "peak_ms": 1e3 * float(means[at > played.change_s].max()),
        "worst_ms": 1e3 * float(latency_s.max()),
        "first_ms": 1e3 * (first_s - played.change_s),
        "results_first": int(np.sum((done_s > played.change_s) & (done_s <= first_s))),
        "staying_ms": 1e3 * float(latency_s[first & ~moved].mean()),
        "moving_ms": 1e3 * float(latency_s[first & moved].mean()),
        "second_ms": 1e3 * float(latency_s[second].mean()),
        "migrated_ms": 1e3 * (outcome.migrated_s - played.change_s),
    }


def _over_time(tuples: Tuples, outcome: Outcome, interval_s: float) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return the ends of intervals, and the mean latency and the number of results in each."""
    done_s = outcome.done_s[tuples.triggers]
    interval = np.floor(done_s / interval_s + 1e-9).astype(np.int64)
    counts = np.bincount(interval).astype(np.int64)
    sums = np.bincount(interval, done_s - tuples.at_s[tuples.triggers])
    ends = np.asarray((np.arange(len(counts)) + 1) * interval_s, np.float64)
    return ends, np.asarray(sums / np.maximum(counts, 1)), counts


def _values(rows: Sequence[Row], variant: str, protocol: str, what: str) -> Floats:
    mine = [row for row in rows if row["figure"] == "measures" and row["variant"] == variant and row["protocol"] == protocol]
    return np.array([row[what] for row in sorted(mine, key=lambda row: row["seed"])], np.float64)


def _mean(rows: Sequence[Row], variant: str, protocol: str, what: str) -> float:
    return float(_values(rows, variant, protocol, what).mean())


def significantly_more(more: Floats, less: Floats) -> bool:
    """Return whether `more` is above `less` on the same tuples by more than two standard errors of the differences."""
    differences = more - less
    return bool(differences.mean() > 2 * differences.std(ddof=1) / np.sqrt(len(differences)))


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Return the verdicts on P2's claims: a claim holds if it does with all values that P2 leaves open."""
    return [
        _compared(rows, "R-BLK produces higher latency peaks than MP", "peak_ms", R_BLK, [MP]),
        _compared(rows, "MP has a lower latency peak than S-BLK", "peak_ms", S_BLK, [MP]),
        _compared(rows, "S-BLK achieves lower latency peaks than R-BLK", "peak_ms", R_BLK, [S_BLK]),
        _compared(rows, "after the migration, latency decreases more slowly with S-BLK than with MP", "second_ms", S_BLK, [MP]),
        _compared(rows, "while state moves, MP produces more results than the other two", "results_first", MP, [R_BLK, S_BLK]),
        _compared(rows, "keys that do not move have greater latency with R-BLK than with MP", "staying_ms", R_BLK, [MP]),
        _ours(rows),
    ]


WORDS = {
    "peak_ms": "highest mean latency of an interval: {} ms",
    "second_ms": "mean latency in the first second after state has moved: {} ms",
    "results_first": "results until R-BLK has moved all state: {}",
    "staying_ms": "latency of tuples of staying keys that arrive while state moves: {} ms",
}


def _compared(rows: Sequence[Row], paper: str, what: str, more: str, less: Sequence[str]) -> Claim:
    """Return the claim that one protocol has significantly more of something than others."""
    variants = [*VARIANTS, *INTERVALS] if what == "peak_ms" else list(VARIANTS)
    fails = [
        name
        for name in variants
        if not all(significantly_more(_values(rows, name, more, what), _values(rows, name, protocol, what)) for protocol in less)
    ]
    means = ", ".join(f"{_mean(rows, CHOSEN, protocol, what):,.0f} ({protocol})" for protocol in (MP, R_BLK, S_BLK))
    where = f"in {len(variants) - len(fails)} of {len(variants)} variants" + (f", not: {', '.join(fails)}" if fails else "")
    return Claim(paper, f"{WORDS[what].format(means)}; this holds {where}", of_all(name not in fails for name in variants))


def _ours(rows: Sequence[Row]) -> Claim:
    peaks = {
        protocol: (_mean(rows, REBALANCED, protocol, "peak_ms"), _mean(rows, CHOSEN, protocol, "peak_ms")) for protocol in PROTOCOLS
    }
    pairs = [(_values(rows, REBALANCED, protocol, "peak_ms"), _values(rows, CHOSEN, protocol, "peak_ms")) for protocol in PROTOCOLS]
    return Claim(
        "(ours) with the routing of our rebalancer less load moves, and no protocol has a higher peak",
        f"{_mean(rows, REBALANCED, MP, 'moved_load'):.0%} of the load moves instead of "
        f"{_mean(rows, CHOSEN, MP, 'moved_load'):.0%}; peaks "
        + ", ".join(f"{few:.0f} instead of {many:.0f} ms ({protocol})" for protocol, (few, many) in peaks.items()),
        not any(significantly_more(few, many) for few, many in pairs),
    )


def notes(rows: Sequence[Row]) -> str:
    """Return which values P2 leaves open, and what else was observed."""
    worst = ", ".join(f"{_mean(rows, CHOSEN, protocol, 'worst_ms'):.0f} ms ({protocol})" for protocol in PROTOCOLS)
    copied = ", ".join(f"{_mean(rows, COPIED, protocol, 'peak_ms'):.0f} ms ({protocol})" for protocol in PROTOCOLS)
    faster = ", ".join(f"{_mean(rows, FASTER, protocol, 'peak_ms'):.0f} ms ({protocol})" for protocol in PROTOCOLS)
    return (
        "P2 prints no numbers besides Fig. 10. It leaves open the capacity of a replica, the costs of moving a state, of the splitter and of a "
        "computation, the frequencies of keys, the monitoring interval, and over what latency is averaged. "
        f"Chosen: {_chosen_values()}. A claim holds if with each of these values the difference exceeds two standard errors over "
        f"{len({row['seed'] for row in rows})} runs on the same tuples. "
        "Latency is from the arrival at the splitter's input to the result. A replica finds the message to move state in its queue, behind what "
        "the overloaded second before left there: moving state mostly means waiting for that queue, which is the same for all protocols; "
        "they differ by as much as the queues of the replicas do. S-BLK releases all tuples of moved keys at once, so its "
        "peak is high in short intervals; keys that stay wait least with it, as nothing else is in their way. Afterwards latency falls "
        "equally fast with all protocols, from different heights: a slower decrease is judged by the mean of one second. With MP the tuples put "
        f"aside are served key by key, as P2 says: the mean is lowest, but the latency of the single worst tuple is not: {worst}. Peaks "
        f"with {FASTER}: {faster}; there four runs did not tell MP from S-BLK, but eight do. If moving a state takes 100 µs (copies instead of P2's pointers), peaks are {copied}"
    )


def _chosen_values() -> str:
    chosen = VARIANTS[CHOSEN]
    return (
        f"{chosen.replica_hz:,.0f} tuples/s per replica (P2's text allows 50,000 to 66,667), {1e6 * chosen.state_s:g} µs to save and "
        f"to load a state, {1e6 * chosen.route_s:g} µs to route a tuple, Zipf {chosen.exponent:g}, computations with a "
        f"variation of {chosen.compute_cv:g}, intervals of {1e3 * chosen.interval_s:g} ms; "
        f"variants: {', '.join([*VARIANTS, *INTERVALS][1:])}"
    )


EXPERIMENT = Migration()
TOY = Migration(seeds=(0, 1), repeats=1, setup=x10_engine.SMALL)
