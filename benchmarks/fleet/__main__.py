"""Thousands of streams: rows a second and milliseconds of a batch, against what a user would have instead."""

import argparse
import json
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import skytide
from benchmarks.fleet.feeding import Files, RedisKeys, Timed
from benchmarks.fleet.peers import COLUMNS, a_task_each, closed_files, one_reader
from benchmarks.timing import Disagreement, Goal, announce, show
from skytide.spark import local_session

ROOT = Path(__file__).resolve().parents[2]
ROWS = 100_000
"""Of a batch, over all streams."""
ROUNDS = 7


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts to run: folder, redis, silent, burst")
    parser.add_argument("--streams", type=int, nargs="+", default=[1_000, 10_000], help="how many streams (default: %(default)s)")
    options = parser.parse_args()
    wanted = options.only or ["folder", "redis", "silent", "burst"]
    console = Console(width=130, highlight=False)
    spark = local_session("skytide bench", cores=2, **{"spark.driver.memory": "4g"})
    results: dict[str, Any] = {}
    goals: list[Goal] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(spark, console, Path(folder), goals, options.streams)
        for part in wanted:
            results[part] = getattr(bench, part)()
    announce(console, goals)
    out = ROOT / "out" / "bench-fleet.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=2) + "\n")
    spark.stop()


class _Bench:
    def __init__(self, spark: SparkSession, console: Console, place: Path, goals: list[Goal], sizes: list[int]) -> None:
        self.spark, self.console, self.place, self.goals, self.sizes = spark, console, place, goals, sizes

    def folder(self) -> dict[str, Any]:
        """Measure 1,000 and 10,000 streams in a folder."""
        found = {}
        for streams in self.sizes:
            fleets: list[skytide.spark.fleet.Fleet] = []

            def fleet(folder: str, fleets: list[Any] = fleets) -> DataFrame:
                fleets.append(skytide.fleet(folder, schema=COLUMNS))
                return fleets[0].load(self.spark, checkpoint=f"{folder}.notes")

            contestants: dict[str, Callable[[str], DataFrame]] = {
                "skytide": fleet,
                "(b) one reader": lambda f: one_reader(self.spark, f),
            }
            if streams == 1_000:  # with ten times as many these two take minutes a batch
                contestants["(c) closed files"] = lambda f: closed_files(self.spark, f)
                contestants["(a) a task each"] = lambda f: a_task_each(self.spark, f)
            timed = self._race(streams, contestants)
            planning_s = fleets[0].status().planning_s
            found[str(streams)] = self._shown(f"{streams:,} streams in a folder", timed, planning_s)
            mine = timed["skytide"].median_s
            if streams == 1_000:
                self.goals.append(Goal("1,000 streams: times (a), a task each", timed["(a) a task each"].median_s / mine, 5))
                self.goals.append(Goal("1,000 streams: times (b), one reader", timed["(b) one reader"].median_s / mine, 1.5))
            else:
                self.goals.append(
                    Goal("10,000 streams: batch over ten times what planning and offsets take", mine / planning_s / 10, 1)
                )
        return found

    def redis(self) -> dict[str, Any]:
        """Measure 1,000 and 10,000 streams in Redis."""
        found = {}
        with _redis(self.place) as url:
            for streams in self.sizes:
                keys = RedisKeys(url, str(streams), streams)
                keys.write(1)
                fleet = skytide.fleet(url, streams=f"{streams}:*", schema=COLUMNS)
                timed = Timed(
                    "skytide", fleet.load(self.spark, checkpoint=self.place / f"notes{streams}"), self.place / f"redis{streams}"
                )
                timed.start()
                for _ in range(ROUNDS):
                    timed.round(lambda keys=keys, streams=streams: keys.write(ROWS // streams))  # type: ignore[misc]
                timed.stop()
                if {count for count, _ in timed.answers[1:]} != {ROWS}:
                    raise Disagreement(f"{streams} keys: {timed.answers}")
                found[str(streams)] = self._shown(f"{streams:,} streams in Redis", {"skytide": timed}, fleet.status().planning_s)
        return found

    def silent(self) -> dict[str, Any]:
        """Measure a batch of ten streams beside 10,000 that are silent, and without them."""
        timed: dict[int, Timed] = {}
        feeds = {}
        for streams in (10, 10_000):
            place = self.place / f"silent{streams}"
            feeds[streams] = Files(place / "feeds", streams)
            feeds[streams].write(1)
            df = skytide.fleet(place / "feeds", schema=COLUMNS).load(self.spark, checkpoint=place / "checkpoint")
            timed[streams] = Timed(f"{streams} streams", df, place / "checkpoint")
            timed[streams].start()
        for _ in range(2 * ROUNDS):
            for streams, query in timed.items():
                query.round(lambda streams=streams: feeds[streams].write(10, active=10))  # type: ignore[misc]
        for query in timed.values():
            query.stop()
        ratio = timed[10_000].median_s / timed[10].median_s
        self.console.print(
            f"A batch of 100 rows from ten streams: {timed[10].median_s * 1e3:.0f} ms alone, {timed[10_000].median_s * 1e3:.0f} ms beside 9,990 silent ones"
        )
        self.goals.append(Goal("twice a batch without silent streams, over one with 9,990 of them", 2 / ratio, 1))
        return {str(streams): query.seconds for streams, query in timed.items()}

    def burst(self) -> dict[str, Any]:
        """Measure how late the records of 99 streams are while another one bursts to a hundred times its rate."""
        calm, burst = self._latency("calm", 1), self._latency("burst", 100)
        self.console.print(
            f"Records of the other 99 streams are read after {calm * 1e3:.0f} ms, and after {burst * 1e3:.0f} ms during a burst"
        )
        self.goals.append(Goal("twice the latency without a burst, over that of the other streams during one", 2 * calm / burst, 1))
        return {"calm_s": calm, "burst_s": burst}

    def _latency(self, name: str, times: int, *, seconds: float = 20.0, hz: int = 200) -> float:
        """Write 100 streams in real time, one of them so many times as fast, and return the mean latency of the others."""
        place = self.place / name
        (place / "feeds").mkdir(parents=True)
        fleet = skytide.fleet(place / "feeds", schema="sent double", interval="1 s")
        found: list[tuple[float, float, int]] = []

        def batch(rows: DataFrame, _: int) -> None:
            others = rows.where("stream != 's0'").agg(F.sum("sent"), F.count("*")).collect()[0]
            found.append((time.time(), others[0] or 0.0, others[1]))

        for stream in range(100):
            (place / "feeds" / f"s{stream}.jsonl").write_text("")
        writer = fleet.load(self.spark, checkpoint=place / "c").writeStream.foreachBatch(batch)
        query = writer.option("checkpointLocation", str(place / "c")).trigger(processingTime="1 second").start()
        began = time.time()
        while time.time() - began < seconds:
            for stream in range(100):
                many = hz // 10 * (times if stream == 0 and time.time() - began > seconds / 4 else 1)
                with (place / "feeds" / f"s{stream}.jsonl").open("a") as file:
                    file.write(f'{{"sent": {time.time()}}}\n' * many)
            time.sleep(0.1)
        query.processAllAvailable()
        query.stop()
        late = [(at * count - sent, count) for at, sent, count in found if at - began > seconds / 4 and count]
        return sum(each for each, _ in late) / sum(count for _, count in late)

    def _race(self, streams: int, contestants: dict[str, Callable[[str], DataFrame]]) -> dict[str, Timed]:
        """Let contestants read the same records, round by round in turn."""
        timed: dict[str, Timed] = {}
        feeds: dict[str, Files] = {}
        for number, (name, load) in enumerate(contestants.items()):
            place = self.place / f"{streams}-{number}"
            feeds[name] = Files(place / "feeds", streams, closed="closed" in name)
            feeds[name].write(1, active=1)
            timed[name] = Timed(name, load(str(place / "feeds")), place / "checkpoint")
            timed[name].start()
        for _ in range(ROUNDS):
            for name, query in timed.items():
                if not query.seconds or query.seconds[0] < 5:  # who takes long has one round
                    query.round(lambda name=name: feeds[name].write(ROWS // streams))  # type: ignore[misc]
        for query in timed.values():
            query.stop()
        if len({query.answers[1] for query in timed.values()}) > 1:
            raise Disagreement(f"{streams} streams: contestants counted other rows: {[q.answers[1] for q in timed.values()]}")
        return timed

    def _shown(self, title: str, timed: dict[str, Timed], planning_s: float) -> dict[str, Any]:
        mine = timed["skytide"].median_s
        rows = [
            [name, f"{query.median_s * 1e3:,.0f}", f"{ROWS / query.median_s:,.0f}", f"{query.median_s / mine:.2f} x"]
            for name, query in timed.items()
        ]
        show(
            self.console,
            f"{title}, {ROWS:,} rows a batch, median of {ROUNDS}",
            ["contestant", "ms a batch", "rows/s", "takes"],
            rows,
        )
        self.console.print(f"Looking, planning and noting offsets took {planning_s * 1e3:.0f} ms of {mine * 1e3:.0f} ms")
        return {name: query.seconds for name, query in timed.items()} | {"planning_s": planning_s}


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("no redis-server; install it (Debian: apt-get install redis-server), or leave this part out")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    server = subprocess.Popen([program, *settings], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    next(line for line in server.stdout if "Ready to accept connections" in line)
    drain = threading.Thread(target=server.stdout.read, daemon=True)
    drain.start()
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
