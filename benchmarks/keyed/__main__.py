"""Operators on keys compared with Spark's own keyed state: throughput, few active keys, a resize, skew, and the costs of elasticity and of many keys."""

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import skytide
from benchmarks.keyed.peers import SLIDE, apply_with_state, transform_with_state
from benchmarks.stream.measure import cpu_s
from benchmarks.timing import Disagreement, Goal, announce, show
from skytide.spark import local_session
from skytide_lab.experiments.blocking import Compared
from skytide_lab.trading import AlgoTrader

ROOT = Path(__file__).resolve().parents[2]
QUOTES, KEYS, FILES = 1_000_000, 3_000, 10
MANY, ROUNDS = 100_000, 8
MORE_KEYS = (2_836, 10_000, 30_000, 100_000)
"""Starting with P2's number of symbols (its Fig. 9)."""
PARTS = ("uniform", "zipf", "active", "resize", "elasticity", "keys")
CHECKED = 4
"""Spark's own are slow: they only read this many files, on which all have to agree. skytide reads all files for its time."""


class Totals:
    """Counts and sums the prices of a key: the simplest operator there is."""

    def open(self, key: str) -> Any:
        return np.zeros(2)

    def process(self, state: Any, rows: pa.Table) -> Any:
        prices = rows["price"].to_numpy()
        total = prices.sum()
        after = state + np.array([len(prices), total])
        return after, {"total": [total], "so_far": [after[1]]}


def main() -> None:
    """Run the parts, and print and save the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyed", description=__doc__)
    parser.add_argument("only", nargs="*", help=f"parts to run: {', '.join(PARTS)}")
    options = parser.parse_args()
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    console = Console(width=130, highlight=False)
    rocks = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark = local_session(
        "skytide bench",
        cores=2,
        **{"spark.driver.memory": "4g", "spark.sql.streaming.stateStore.providerClass": rocks, "spark.sql.shuffle.partitions": "2"},
    )
    goals: list[Goal] = []
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, console, Path(folder), goals)
        for part in options.only or PARTS:
            results[part] = getattr(bench, part)()
    announce(console, goals)
    out = ROOT / "out" / "bench-keyed.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=2) + "\n")
    spark.stop()


class Bench:
    """The parts of the benchmark."""

    def __init__(self, spark: SparkSession, console: Console, place: Path, goals: list[Goal]) -> None:
        self.spark, self.console, self.place, self.goals = spark, console, place, goals

    def uniform(self) -> dict[str, Any]:
        """Measure equally frequent keys: 333 quotes each, so windows are shorter."""
        return self._races("uniform", np.ones(KEYS), 100)

    def zipf(self) -> dict[str, Any]:
        """Measure keys some of which are very frequent."""
        return self._races("Zipf 1.1", 1 / np.arange(1, KEYS + 1) ** 1.1, 1_000)

    def active(self) -> dict[str, Any]:
        """Measure many keys of which few are in a batch, with five quotes each, and the same few without the others."""
        all_s, few_s = self._shares("all", [1.0] * 3 + [0.01] * 6)
        _, alone_s = self._shares("few", [0.01] * 9)
        self.console.print(
            f"{MANY:,} keys: a batch with all takes {all_s * 1e3:,.0f} ms, one with 1 % of them {few_s * 1e3:,.0f} ms; "
            f"without the other keys it takes {alone_s * 1e3:,.0f} ms"
        )
        self.goals.append(
            Goal("100,000 keys: a tenth of the time of a batch with all, over that with 1 % of them", all_s / few_s / 10, 1)
        )
        return {"all_s": all_s, "few_s": few_s, "alone_s": alone_s}

    def _shares(self, name: str, shares: list[float]) -> tuple[float, float]:
        """Return how long batches with all keys take, and batches with few."""
        place, files = self.place / name, []
        rng = np.random.default_rng(3)
        for number, share in enumerate(shares):
            keys = rng.permutation(MANY if 1.0 in shares else int(MANY * share))[: int(MANY * share)]
            files.append(_quotes(rng.permutation(np.repeat(keys, 5)), number, rng))
        seconds = self._timed(self._keyed(_written(files, place / "in"), "totals"), place / "run", to_function=False)["seconds"]
        return median(seconds[1:3]), median(seconds[4:])

    def resize(self) -> dict[str, Any]:
        """Resize from 2 to 4 slots in the middle, and measure the batches around that."""
        folder, place = self._day("uniform", np.ones(KEYS)), self.place / "resized"
        found = self._timed(self._keyed(folder, "mean"), place, resize_at=FILES // 2)
        seconds = found["seconds"]
        before, at, after = median(seconds[2 : FILES // 2]), seconds[FILES // 2 + 1], median(seconds[FILES // 2 + 2 :])
        self.console.print(
            f"2 to 4 slots: batches of {before * 1e3:,.0f} ms before, {at * 1e3:,.0f} ms when keys have moved, {after * 1e3:,.0f} ms after"
        )
        self.goals.append(Goal("the time of a batch over what the resize adds to it", before / max(at - before, 1e-3), 1))
        return {"seconds": seconds}

    def elasticity(self) -> dict[str, Any]:
        """Measure with reported loads, a rebalancer and an auto-scaler that watches, without the latter, and without all of it (P2 Fig. 8).

        All read the same files in turn, and who begins changes from round to round, as a process gets faster with time; a first run does not count.
        """
        folder = self._day("uniform", np.ones(KEYS))
        ways = {"all": (True, True), "rebalanced": (True, False), "none": (False, False)}
        rounds: list[dict[str, tuple[float, float]]] = []
        for turn in range(-1, ROUNDS):
            took = {}
            for way in list(ways)[:: -1 if turn % 2 else 1]:
                moves, watched = ways[way]
                asked = self._keyed(folder, "mean")
                asked = asked if moves else Compared.of(asked, "MP", 0)
                found = self._timed(asked, self.place / way, to_function=False, watched=watched)
                took[way] = (median(found["seconds"][2:]), found["cpu_s"])
            rounds += [took] if turn >= 0 else []
        batch_s = {way: median(took[way][0] for took in rounds) for way in ways}
        rows = [[way, f"{QUOTES / FILES / batch_s[way]:,.0f}", f"{median(took[way][1] for took in rounds):.2f}"] for way in ways]
        more = {}
        for way, row in zip(ways, rows, strict=True):
            for which, cost in enumerate(("throughput", "CPU")):
                ratios = [1 - took["none"][which] / took[way][which] for took in rounds]
                low, more[way, cost], high = quantiles(ratios, n=4)
                row.append(f"{more[way, cost]:.1%} ({low:.1%} to {high:.1%})")
        show(
            self.console,
            f"what elasticity costs: medians of {ROUNDS} rounds, and round by round (quartiles); P2 has 3 to 4 % of throughput",
            ["with", "quotes/s", "CPU s", "less throughput", "of CPU"],
            rows,
        )
        self.goals.append(Goal("5 % over what elasticity costs of throughput", 0.05 / max(more["all", "throughput"], 1e-3), 1))
        return {"rounds": rounds}

    def keys(self) -> dict[str, Any]:
        """Measure with more and more keys (P2 Fig. 9)."""
        found = {}
        for keys in MORE_KEYS:
            folder = self._day(f"{keys} keys", np.ones(keys))
            seconds = self._timed(self._keyed(folder, "mean", 10), self.place / f"with {keys}", to_function=False)["seconds"]
            found[str(keys)] = QUOTES / FILES / median(seconds[2:])
        rows = [[f"{int(keys):,}", f"{rate:,.0f}"] for keys, rate in found.items()]
        title = f"mean of windows of 10: quotes per second, by the median batch of {QUOTES // FILES:,}"
        show(self.console, title, ["keys", "quotes/s"], rows)
        return found

    def _races(self, name: str, weights: Any, length: int) -> dict[str, Any]:
        folder = self._day(name, weights)
        few = self._day(name, weights, CHECKED)
        found = {}
        for work in ("fit", "mean", "totals"):
            asked = {
                "skytide": self._keyed(folder, work, length),
                "transformWithStateInPandas": transform_with_state(self._stream(few), work, length),
                "applyInPandasWithState": apply_with_state(self._stream(few), work, length),
            }
            place = self.place / f"{name} {work}"
            timed = {who: self._timed(each, place) for who, each in asked.items()}
            self._check(name, work, {**timed, "skytide": self._timed(self._keyed(few, work, length), place)})
            found[work] = {who: each["seconds"] for who, each in timed.items()}
            self._shown(name, work, length, timed)
        return found

    def _shown(self, name: str, work: str, length: int, timed: dict[str, dict[str, Any]]) -> None:
        rates = {who: QUOTES / FILES / median(each["seconds"][1:]) for who, each in timed.items()}
        rows = [[who, f"{rate:,.0f}", f"{rates['skytide'] / rate:.1f} x"] for who, rate in rates.items()]
        title = f"{work}, {KEYS:,} keys, {name}, windows of {length}: quotes per second, by the median batch of {QUOTES // FILES:,}"
        show(self.console, title, ["contestant", "quotes/s", "skytide is faster"], rows)
        best = max(rate for who, rate in rates.items() if who != "skytide")
        self.goals.append(Goal(f"{work}, {name}: times as fast as Spark's faster one", rates["skytide"] / best, 5))
        status = timed["skytide"]["status"]
        self.console.print(
            f"Slots: {status.slots}, the most loaded has {status.imbalance:.2f} times the mean; {status.window_plan}"
        )
        self.goals.append(Goal(f"{work}, {name}: 1.2 times the mean load over the highest", 1.2 / status.imbalance, 1))

    def _check(self, name: str, work: str, timed: dict[str, dict[str, Any]]) -> None:
        """Refuse times of contestants with other results. How often a total comes out depends on batches, so only their sum has to agree."""
        first = timed["skytide"]["answer"]
        for who, each in timed.items():
            answer = each["answer"]
            if (work != "totals" and answer[0] != first[0]) or not np.isclose(answer[1], first[1], rtol=1e-6):
                raise Disagreement(f"{name}, {work}: {who} has {answer}, skytide {first}")

    def _day(self, name: str, weights: Any, files: int = FILES) -> Path:
        """Return a folder with the first files of a day."""
        folder = self.place / f"{files} of {name}"
        if not folder.exists():
            rng = np.random.default_rng(7)
            keys = rng.choice(len(weights), QUOTES, p=weights / weights.sum())
            each = QUOTES // FILES
            _written([_quotes(keys[n * each : (n + 1) * each], n, rng) for n in range(files)], folder)
        return folder

    def _stream(self, folder: Path) -> DataFrame:
        return (
            self.spark.readStream.schema("ts timestamp, symbol string, price double")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder))
        )

    def _keyed(self, folder: Path, work: str, length: int = 100) -> Any:
        keyed = skytide.stream(self._stream(folder)).keyed("symbol")
        slack = skytide.slacks.FixedSlack(0)
        if work == "totals":
            return keyed.apply(Totals(), slack=slack)
        windows = keyed.count_window(length, slide=min(SLIDE, length), slack=slack)
        return windows.apply(AlgoTrader()) if work == "fit" else windows.aggregate("avg(price) AS mean")

    def _timed(
        self, asked: Any, place: Path, *, to_function: bool = True, resize_at: int | None = None, watched: bool = False
    ) -> dict[str, Any]:
        """Read file after file, and return the seconds of each batch, as reported by Spark, and what came out."""
        sums = np.zeros(2)
        run: list[Any] = []
        place.mkdir(parents=True, exist_ok=True)
        began_cpu_s = cpu_s()

        def batch(rows: DataFrame, number: int) -> None:
            column = next(name for name in ("predicted", "mean", "total") if name in rows.columns)
            count, total = rows.agg(F.count("*"), F.sum(column)).collect()[0]
            sums[:] += (count, total or 0.0)
            if number == resize_at and run:
                run[0].resize(slots=4)

        status = None
        if isinstance(asked, DataFrame):
            writer = asked.writeStream.foreachBatch(batch).option("checkpointLocation", str(place / "c"))
            query = writer.outputMode("append").trigger(availableNow=True).start()
            query.awaitTermination()
        else:
            sink = {"sink": batch} if to_function else {"sink": "parquet", "path": place / "out"}
            run.append(asked.start(**sink, checkpoint=place / "c", trigger="availableNow", flush=True, slots=2))
            scaler = skytide.autoscale(run[0], interval="2 s", mode="recommend") if watched else None
            run[0].await_termination()
            if scaler:
                scaler.stop()
            query, status = run[0].query, run[0].status()
        seconds = [
            progress["durationMs"]["triggerExecution"] / 1e3 for progress in query.recentProgress if progress["numInputRows"]
        ]
        shutil.rmtree(place)
        return {"seconds": seconds, "answer": tuple(sums.tolist()), "status": status, "cpu_s": cpu_s() - began_cpu_s}


def _quotes(keys: Any, second: int, rng: Any) -> pa.Table:
    """Return quotes of some keys within a second."""
    times = np.sort(rng.integers(0, 1_000_000, len(keys))) + (1_700_000_000 + second) * 1_000_000
    prices = np.round(100 + np.cumsum(rng.normal(0, 0.01, len(keys))), 4)
    return pa.table(
        {"ts": pa.array(times, pa.timestamp("us", "UTC")), "symbol": [f"S{key}" for key in keys.tolist()], "price": prices}
    )


def _written(tables: list[pa.Table], folder: Path) -> Path:
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number:03}.parquet")
        os.utime(folder / f"{number:03}.parquet", (number, number))
    return folder


if __name__ == "__main__":
    main()
