"""The same stream and queries on skytide and on what a user might pick instead: latency at a load that all keep up with, and the highest."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rich.console import Console

from benchmarks.peers import environments
from benchmarks.peers.watch import Contestant, Failed, Lengths, measure
from benchmarks.stream.measure import Measured
from benchmarks.timing import Disagreement, show

COMMON_HZ = 20_000
QUICK = Lengths(warm_up_s=2.0, measured_s=5.0)

OWN, FRAME = Contestant("on_spark", "skytide", "own source"), Contestant("on_spark", "skytide", "any DataFrame")
SPARK = Contestant("on_spark", "skytide", "Spark alone")
FLINK, FLINK_SQL = Contestant("on_flink", "flink", "arrays"), Contestant("on_flink", "flink", "tuples")
BYTEWAX, BYTEWAX_FOLD = Contestant("on_bytewax", "bytewax", "arrays"), Contestant("on_bytewax", "bytewax", "tuples")
PATHWAY, PATHWAY_REDUCE = Contestant("on_pathway", "pathway", "arrays"), Contestant("on_pathway", "pathway", "tuples")
LOOP = Contestant("on_loop", "loop", "arrays")


@dataclass(frozen=True)
class Entry:
    """A contestant, its query, and loads to search for the highest that it keeps up with."""

    only: str
    name: str
    contestant: Contestant
    query: str
    rates_hz: Sequence[int]
    extra: bool = False  # left out unless asked for: Spark alone is in `benchmarks.stream` too


ENTRIES = [
    Entry("skytide", "skytide, own source", OWN, "skyline", (300_000, 450_000, 600_000, 800_000, 1_000_000)),
    Entry("skytide", "skytide, any DataFrame", FRAME, "skyline", (150_000, 300_000, 450_000), extra=True),
    Entry("spark", "Spark, foreachBatch", SPARK, "skyline", (50_000, 100_000, 150_000), extra=True),
    Entry("flink", "PyFlink, arrays", FLINK, "skyline", (75_000, 150_000, 300_000)),
    Entry("bytewax", "Bytewax, arrays", BYTEWAX, "skyline", (75_000, 150_000, 300_000)),
    Entry("pathway", "Pathway, arrays", PATHWAY, "skyline", (75_000, 150_000, 300_000)),
    Entry("loop", "a loop on NumPy", LOOP, "skyline", (75_000, 150_000, 300_000)),
    Entry("skytide", "skytide, own source", OWN, "aggregate", (600_000, 1_200_000, 1_800_000), extra=True),
    Entry("skytide", "skytide, any DataFrame", FRAME, "aggregate", (300_000, 600_000, 900_000)),
    Entry("spark", "Spark, its own windows", SPARK, "aggregate", (300_000, 600_000, 1_200_000), extra=True),
    Entry("flink", "PyFlink, SQL on rows", FLINK_SQL, "aggregate", (50_000, 100_000, 200_000)),
    Entry("flink", "PyFlink, arrays", FLINK, "aggregate", (600_000, 1_200_000, 1_800_000), extra=True),
    Entry("bytewax", "Bytewax, a tuple each", BYTEWAX_FOLD, "aggregate", (60_000, 120_000, 180_000)),
    Entry("bytewax", "Bytewax, arrays", BYTEWAX, "aggregate", (600_000, 1_200_000, 1_800_000), extra=True),
    Entry("pathway", "Pathway, a tuple each", PATHWAY_REDUCE, "aggregate", (30_000, 60_000, 90_000)),
    Entry("pathway", "Pathway, arrays", PATHWAY, "aggregate", (600_000, 1_200_000, 1_800_000), extra=True),
    Entry("loop", "a loop on Polars", LOOP, "aggregate", (600_000, 1_200_000, 1_800_000)),
]
NAMES = sorted({entry.only for entry in ENTRIES})


@dataclass
class Result:
    """What an entry did: at the common load, at the highest that it kept up with, and why not at others."""

    entry: Entry
    common: Measured | None = None
    best: Measured | None = None
    tried: list[Measured] = field(default_factory=list)
    wrong: str = ""

    def line(self) -> list[str]:
        """Return the cells of the table."""
        more = " and more" if self.best and self.best.rate_hz == max(self.entry.rates_hz) else ""
        highest = (
            f"{self.best.rate_hz:,}{more}" if self.best else f"below {min(m.rate_hz for m in self.tried):,}" if self.tried else "-"
        )
        return [self.entry.query, self.entry.name, *_cells(self.common), highest, *_cells(self.best)]


COLUMNS = ["query", "contestant", "mean s", "p99 s", "CPU s/million", "kept up, tuples/s", "mean s", "p99 s", "CPU s/million"]


def _cells(measured: Measured | None) -> list[str]:
    if measured is None:
        return ["-"] * 3
    return [f"{measured.latency_mean_s:.3f}", f"{measured.latency_p99_s:.3f}", f"{measured.cpu_s_per_million:.2f}"]


def highest(rates_hz: Sequence[int], keeps_up: Callable[[int], bool]) -> int | None:
    """Return the highest of some rising loads that is kept up with, by halving.

    >>> highest((10, 20, 30), lambda rate: rate <= 20), highest((10, 20, 30), lambda rate: False)
    (20, None)
    """
    low, high = 0, len(rates_hz)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if keeps_up(rates_hz[middle]) else (low, middle)
    return rates_hz[low - 1] if low else None


def run(entry: Entry, lengths: Lengths, rates_hz: Sequence[int], say: Callable[[str], None]) -> Result:
    """Measure an entry at the common load, and search for the highest among the others."""
    result = Result(entry)

    def keeps_up(rate_hz: int) -> bool:
        found = measure(entry.contestant, entry.query, rate_hz, lengths)
        result.tried.append(found)
        verdict = "kept up" if found.kept_up else f"did not keep up ({found.why})"
        say(f"{entry.query:9} {entry.name:24} {rate_hz:>9,}/s: {verdict}, {' '.join(_cells(found))}")
        return found.kept_up

    try:
        if keeps_up(COMMON_HZ):
            result.common = result.best = result.tried[0]
            best_hz = highest(rates_hz, keeps_up)
            result.best = next((found for found in result.tried if found.rate_hz == best_hz), result.common)
    except (Failed, Disagreement) as why:
        result.wrong = f"{type(why).__name__}: {why}"
        say(f"{entry.query:9} {entry.name:24} {result.wrong}")
    return result


def report(console: Console, results: Sequence[Result], lengths: Lengths, out: Path) -> None:
    """Print the table, and write it as Markdown and JSON."""
    kernels = " and ".join(dict.fromkeys(result.entry.contestant.kernel for result in results))
    title = f"At {COMMON_HZ:,} tuples/s, and at the highest load kept up with, {lengths.measured_s:.0f} s each; peers have {kernels} for skylines"
    rows = [result.line() for result in results]
    show(console, title, COLUMNS, rows)
    table = ["| " + " | ".join(row) + " |" for row in (COLUMNS, ["---"] * len(COLUMNS), *rows)]
    out.mkdir(exist_ok=True)
    (out / "bench-peers.md").write_text("\n".join([title, "", *table]) + "\n")
    (out / "bench-peers.json").write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES, help="run this one; may be given several times")
    parser.add_argument("--query", choices=("skyline", "aggregate"), help="run this query only")
    parser.add_argument(
        "--all",
        action="store_true",
        help="also what is left out for brevity: arrays for aggregates, skylines of DataFrames, Spark alone",
    )
    parser.add_argument("--quick", action="store_true", help="the common load only, for a few seconds: to see that it works")
    parser.add_argument("--kernel", choices=("moocore", "skytide"), default="moocore", help="by what peers find skylines")
    parser.add_argument("--rates", help="tuples a second to search instead of each entry's own, as 150000,300000")
    options = parser.parse_args(arguments)
    wanted = [
        entry
        for entry in ENTRIES
        if entry.only in (options.only or NAMES)
        and entry.query == (options.query or entry.query)
        and (options.all or not entry.extra or (entry.only == "spark" and options.only))
    ]
    lengths = QUICK if options.quick else Lengths()
    console = Console(width=150, highlight=False)
    for name in dict.fromkeys(entry.contestant.environment for entry in wanted):
        environments.make(name)
    results = []
    for entry in wanted:
        rates = [int(rate) for rate in options.rates.split(",")] if options.rates else [] if options.quick else entry.rates_hz
        contestant = replace(entry.contestant, kernel=options.kernel)
        results.append(run(replace(entry, contestant=contestant), lengths, rates, console.print))
    report(console, results, lengths, environments.ROOT / "out")
    if any(result.wrong for result in results):
        raise SystemExit("Not all contestants ran, or gave the right windows: see above.")


if __name__ == "__main__":
    main()
