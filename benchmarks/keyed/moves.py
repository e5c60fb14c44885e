"""Measures what a batch takes when keys have moved and their state has to be read from an object store: `python -m benchmarks.keyed.moves`.

Four slots become two, each of which keeps its keys and gets as many from the others. The engine runs in this process, one slot after the
other, so that the second finds in memory what the first has read; the store is a disk with the latency and bandwidth of an object store added to each read of state that came from another slot.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks.timing import Disagreement, show
from skytide.batch import BatchRules, Keying
from skytide.keyed import KeyedStep, Operator, Tagged
from skytide.lateness import FixedSlack
from skytide.spark.checkpoint import Files, Store
from skytide.spark.engine import chunks
from skytide.spark.engine.cache import cache
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sinks.base import Sink
from skytide.spark.sinks.roles import Sinks
from skytide.testing import InProcess
from skytide.windows import Windows

KEYS, NUMBERS = 2_000, 4_000
"""A state of 32 kB per key: 64 MB in total."""
ROWS, SORTED, ROUNDS = 40_000, 10, 5
LATENCY_S, BYTES_PER_S = 0.03, 40e6
"""Of one request to an object store, about."""
COLUMNS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("key", pa.int64()), ("x", pa.float64())])
TICK = Windows(100_000, 100_000)


class Histogram:
    """Counts the values of a key in thousands of bins, and sorts these counts, some times over so that it has about as much to do as to read."""

    def open(self, key: Any) -> Any:
        return np.zeros(NUMBERS)

    def process(self, state: Any, rows: pa.Table) -> Any:
        state = state + np.histogram(rows["x"].to_numpy(), NUMBERS, (0.0, 1.0))[0]
        for _ in range(SORTED):
            highest = np.sort(state)[-100:]
        return state, {"filled": [int(highest.sum())]}


class Sum(Sink):
    """Adds up the results."""

    total = 0

    def publish(self, sequence: int, staged: Any) -> None:
        if staged:
            self.total += int(staged.frame()["filled"].to_numpy().sum())

    def describe(self) -> str:
        return "sum"


@dataclass
class Remote:
    """An object store with what has moved."""

    moved: frozenset[str] = frozenset()
    nbytes: int = 0

    def reads(self, read: Any) -> Any:
        """Return a way to read files that takes as long as from this store."""

        def slow(files: Files, name: str) -> pa.Table:
            table = read(files, name)
            if name in self.moved:
                time.sleep(LATENCY_S + table.nbytes / BYTES_PER_S)
                self.nbytes += table.nbytes
            return table

        return slow


class OneByOne:
    """Reads at once what it is asked for."""

    def __init__(self, readers: int) -> None:
        pass

    submit = staticmethod(chunks._at_once)

    def shutdown(self, **how: bool) -> None:
        pass


WAYS = {
    "one file after the other, then all groups": {"ThreadPoolExecutor": OneByOne},
    "files at once, then all groups": {"Chunks.is_there": lambda self, stored: True},
    "files at once, groups that stay meanwhile": {},
}


@contextmanager
def in_the_way(way: str, remote: Remote) -> Iterator[None]:
    """Let chunks be read in one of the ways."""
    with mock.patch.object(Files, "is_local", False), mock.patch.object(Files, "map_table", remote.reads(Files.map_table)):
        patches = [mock.patch(f"skytide.spark.engine.chunks.{name}", value) for name, value in WAYS[way].items()]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()


def batch(number: int) -> list[pa.Table]:
    """Return a tenth of a second with rows of all keys."""
    rng = np.random.default_rng(number)
    times = pa.array(number * 100_000 + np.arange(ROWS), pa.timestamp("us", "UTC"))
    return [pa.table({"ts": times, "key": rng.permutation(np.arange(ROWS) % KEYS), "x": rng.random(ROWS)}, COLUMNS)]


def play(way: str, folder: Path) -> tuple[float, float, float, int]:
    """Return the seconds of a usual batch, and of one when keys have moved, the megabytes that were read, and a sum of all results."""
    step, sink, remote = KeyedStep(("key",), "ts", COLUMNS, operator=Operator(Histogram())), Sum(), Remote()
    rules = BatchRules(TICK, FixedSlack(0), keying=Keying(4))
    spec = QuerySpec(Tagged(("key",)), "ts", COLUMNS, TICK, rules.slack, step=step)
    engine = Engine(spec, rules, Store(str(folder)), Sinks(sink))
    seconds = []
    with in_the_way(way, remote):
        for number in range(8):
            if number == 5:
                stay = known(engine).table.mask(0) | known(engine).table.mask(1)
                engine.resize(slots=2)
            if number == 6:
                remote.moved = frozenset(chunk.file for chunk in known(engine).chunks if chunk.groups & ~stay)
                cache.keep_only(engine.store.files.uri, known(engine).files() - remote.moved)
            began = time.perf_counter()
            engine.run_batch(InProcess(), batch(number), number)
            seconds.append(time.perf_counter() - began)
    return median(seconds[2:5]), seconds[6], remote.nbytes / 1e6, sink.total


def known(engine: Engine) -> Any:
    """Return the state of keys after the latest batch."""
    return engine.store.latest().keyed


def main() -> None:
    """Play all ways in turn, and print the medians."""
    seconds: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    totals = set()
    for turn in range(ROUNDS):
        for way in list(WAYS)[:: 1 if turn % 2 else -1]:
            with tempfile.TemporaryDirectory() as folder:
                *measured, total = play(way, Path(folder))
            seconds[way].append((measured[0], measured[1], measured[2]))
            totals.add(total)
    if len(totals) > 1:
        raise Disagreement(f"other results: {totals}")
    rows = []
    for way, rounds in seconds.items():
        usual, moved, read_mb = (median(column) for column in zip(*rounds, strict=True))
        rows.append([way, f"{read_mb:,.0f}", f"{usual * 1e3:,.0f}", f"{moved * 1e3:,.0f}", f"{(moved - usual) * 1e3:,.0f}"])
    title = f"4 slots become 2, {KEYS:,} keys with 32 kB each; medians of {ROUNDS} rounds"
    show(
        Console(width=130, highlight=False),
        title,
        ["state is read", "MB read", "usual batch (ms)", "when moved (ms)", "more (ms)"],
        rows,
    )


if __name__ == "__main__":
    main()
