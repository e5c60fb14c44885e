"""Thousands of streams: rows per second and milliseconds per batch, compared with what a user would have otherwise."""

import argparse
import json
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import skytide
from benchmarks.fleet.feeding import Files, RedisKeys, Timed
from benchmarks.fleet.peers import COLUMNS, closed_files, plain_files, plain_redis
from benchmarks.timing import Disagreement, Goal, announce, show
from skytide.spark import local_session

ROOT = Path(__file__).resolve().parents[2]
ROWS = 100_000
"""Rows of a batch, over all streams."""
ROUNDS = 7
OURS, ONE_READER, CLOSED, ONE_TASK_EACH = CONTESTANTS = ("skytide", "(b) one reader", "(c) closed files", "(a) one task per stream")
GOALS = {ONE_TASK_EACH: 5.0, ONE_READER: 1.5}
"""The goals: how many times as long as ours their batches should take."""


def main() -> None:
    """Run the parts, and print and save the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts to run: folder, redis, silent, redirect, burst")
    parser.add_argument("--streams", type=int, nargs="+", default=[1_000, 10_000], help="how many streams (default: %(default)s)")
    options = parser.parse_args()
    wanted = options.only or ["folder", "redis", "silent", "redirect", "burst"]
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
        """Measure streams in a folder."""
        found = {}
        for streams in self.sizes:
            place = self.place / f"folder{streams}"
            feeds = {name: Files(place / name[:3].strip("()"), streams, closed="closed" in name) for name in CONTESTANTS}
            fleet = skytide.fleet(feeds[OURS].folder, schema=COLUMNS)
            contestants = [
                Timed(
                    OURS,
                    feeds[OURS],
                    fleet.load(self.spark, checkpoint=place / "notes"),
                    lambda fleet=fleet: fleet.status().planning_s,
                ),  # type: ignore[misc]
                Timed(ONE_READER, feeds[ONE_READER], plain_files(self.spark, feeds[ONE_READER].folder)),
            ]
            if streams == 1_000:  # with ten times as many these two take minutes per batch
                contestants.append(Timed(CLOSED, feeds[CLOSED], closed_files(self.spark, feeds[CLOSED].folder)))
                contestants.append(
                    Timed(ONE_TASK_EACH, feeds[ONE_TASK_EACH], plain_files(self.spark, feeds[ONE_TASK_EACH].folder, one_each=True))
                )
            found[str(streams)] = self._race(f"{streams:,} streams in a folder", streams, contestants)
        return found

    def redis(self) -> dict[str, Any]:
        """Measure streams in Redis."""
        found = {}
        with _redis(self.place) as url:
            for streams in self.sizes:
                keys = {name: RedisKeys(url, f"{name}{streams}", streams) for name in CONTESTANTS}
                fleet = skytide.fleet(url, streams=keys[OURS].pattern, schema=COLUMNS)
                df = fleet.load(self.spark, checkpoint=self.place / f"redis{streams}")
                contestants = [
                    Timed(OURS, keys[OURS], df, lambda fleet=fleet: fleet.status().planning_s),  # type: ignore[misc]
                    Timed(ONE_READER, keys[ONE_READER], plain_redis(self.spark, url, keys[ONE_READER].pattern)),
                ]
                if streams == 1_000:
                    each = plain_redis(self.spark, url, keys[ONE_TASK_EACH].pattern, one_each=True)
                    contestants.append(Timed(ONE_TASK_EACH, keys[ONE_TASK_EACH], each))
                found[str(streams)] = self._race(f"{streams:,} streams in Redis", streams, contestants)
        return found

    def silent(self) -> dict[str, Any]:
        """Measure a batch of ten streams among 10,000 silent ones, and without these."""
        timed: dict[int, Timed] = {}
        for streams in (10, 10_000):
            place = self.place / f"silent{streams}"
            feed = Files(place / "feeds", streams)
            df = skytide.fleet(feed.folder, schema=COLUMNS).load(self.spark, checkpoint=place / "checkpoint")
            timed[streams] = Timed(f"{streams} streams", feed, df)
            timed[streams].start(1)
        for _ in range(2 * ROUNDS):
            for query in timed.values():
                query.round(10, active=10)
        for query in timed.values():
            query.stop()
        ratio = timed[10_000].median_s / timed[10].median_s
        self.console.print(
            f"A batch of 100 rows from ten streams: {timed[10].median_s * 1e3:.0f} ms alone, {timed[10_000].median_s * 1e3:.0f} ms among 9,990 silent ones"
        )
        self.goals.append(Goal("twice the time of a batch without silent streams, over that with 9,990 of them", 2 / ratio, 1))
        return {str(streams): query.seconds for streams, query in timed.items()}

    def redirect(self) -> dict[str, Any]:
        """Measure the cost of redirections: batches under a strategy that moves streams all the time, and under one that does not."""
        streams, timed, fleets = 1_000, {}, {}
        for strategy in ("drfm", "par"):
            place = self.place / f"redirect-{strategy}"
            feed = Files(place / "feeds", streams)
            fleets[strategy] = skytide.fleet(feed.folder, schema=COLUMNS, strategy=strategy, splits=2, capacity_hz=30_000)
            df = fleets[strategy].load(self.spark, checkpoint=place / "checkpoint")
            timed[strategy] = Timed(strategy, feed, df, lambda fleet=fleets[strategy]: fleet.status().redirections)  # type: ignore[misc]
            timed[strategy].start(1)
        for _ in range(2 * ROUNDS):
            for query in timed.values():
                query.round(ROWS // streams)
        for strategy, query in timed.items():
            query.stop()
            moved = median(later - earlier for earlier, later in pairwise(query.planning_s))
            self.console.print(
                f"{strategy}: {query.median_s * 1e3:.0f} ms per batch with {moved:.0f} redirections each, {len(fleets[strategy].splits())} splits"
            )
        return {name: query.seconds for name, query in timed.items()}

    def burst(self) -> dict[str, Any]:
        """Measure how late the records of 99 streams are while another one bursts to a hundred times its rate."""
        calm, burst = self._latency("calm", 1), self._latency("burst", 100)
        self.console.print(
            f"Records of the other 99 streams are read after {calm * 1e3:.0f} ms, and after {burst * 1e3:.0f} ms during a burst"
        )
        self.goals.append(Goal("twice the latency without a burst, over that of the other streams during one", 2 * calm / burst, 1))
        return {"calm_s": calm, "burst_s": burst}

    def _latency(self, name: str, times: int, *, seconds: float = 20.0, hz: int = 200) -> float:
        """Write 100 streams in real time, one of them `times` times as fast, and return the mean latency of the others."""
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

    def _race(self, title: str, streams: int, contestants: list[Timed]) -> dict[str, Any]:
        """Let contestants read the same records in turn, round by round, print the table, and return the times of batches."""
        for query in contestants:
            query.start(1, active=1)
        for _ in range(ROUNDS):
            for query in contestants:
                if not query.seconds or query.seconds[0] < 5:  # slow contestants have only one round
                    query.round(ROWS // streams)
        for query in contestants:
            query.stop()
        if len({query.answers[1] for query in contestants}) > 1:
            raise Disagreement(f"{title}: contestants counted different rows: {[query.answers[1] for query in contestants]}")
        mine = contestants[0]
        rows = [
            [query.name, f"{query.median_s * 1e3:,.0f}", f"{ROWS / query.median_s:,.0f}", f"{query.median_s / mine.median_s:.2f} x"]
            for query in contestants
        ]
        heading = f"{title}, {ROWS:,} rows per batch, median of {ROUNDS}"
        show(self.console, heading, ["contestant", "ms per batch", "rows/s", "takes"], rows)
        planning_s = mine.median_planning_s
        self.console.print(
            f"Listing streams, planning and saving offsets took {planning_s * 1e3:.0f} ms of {mine.median_s * 1e3:.0f} ms"
        )
        for query in contestants:
            if query.name in GOALS and streams == 1_000:
                self.goals.append(Goal(f"{title}: times {query.name}", query.median_s / mine.median_s, GOALS[query.name]))
        if streams == 10_000:
            self.goals.append(
                Goal(f"{title}: time of a batch over ten times that of planning and offsets", mine.median_s / planning_s / 10, 1)
            )
        return {query.name: query.seconds for query in contestants} | {"planning_s": planning_s}


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
