"""X10 on the real engine: latency while 80 % of the keys move from 6 slots to 8, with our protocol and two blocking ones.

All runs continue from one checkpoint, in which each key has a full window. A file of quotes arrives every second, just before a batch begins.
A slot is done when it has written its results, and a batch is out when its last slot is done. Slots share the cores of this machine, so more
slots do not mean more capacity.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skytide.keyed import RoutingTable, hashes_of
from skytide.lateness import FixedSlack
from skytide.records import Step
from skytide.spark.api.run import Run
from skytide.spark.api.stream import stream
from skytide.spark.checkpoint import Store
from skytide.spark.session.local import local_session
from skytide.workloads.identity import derive
from skytide_lab.experiments.blocking import MP, R_BLK, S_BLK, Compared
from skytide_lab.experiments.experiment import Row
from skytide_lab.experiments.scenarios import START_US
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.trading import AlgoTrader

OLD, NEW, CORES = 6, 8, 2
EXPONENT = 0.7
WARM_S = 60.0  # of event time
REPEATS = 3
COLUMNS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("price", pa.float64())])
SCHEMA = "ts timestamp, symbol string, price double"


@dataclass(frozen=True)
class Setup:
    """What is played; rates are a twentieth of P2's, and times are seconds."""

    keys: int = 2_836
    length: int = 1_000
    slide: int = 25
    before_hz: int = 15_000
    after_hz: int = 20_000
    jump: int = 7
    change: int = 8
    end: int = 13
    warm_files: int = 12

    @cached_property
    def symbols(self) -> pa.Array:
        """The names of the keys."""
        return pa.array([f"S{number}" for number in range(self.keys)])


FULL = Setup()
SMALL = Setup(keys=60, length=20, slide=1, before_hz=300, after_hz=400, jump=4, change=5, end=10, warm_files=2)


@dataclass(frozen=True)
class Results:
    """Results of a run: key, arrival of the last quote, when the slot was done and when the batch was out, in seconds of the run."""

    hashes: Any
    came_s: Any
    done_s: Any
    out_s: Any
    batch: Any


def measure(repeats: int = REPEATS, setup: Setup = FULL) -> list[Row]:
    """Run all protocols in turn, and return the rows to compare."""
    spark = local_session("skytide lab", cores=CORES)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="skytide-lab-") as folder:
        place = Path(folder)
        _warm_up(spark, place / "warm", setup)
        for repeat in range(repeats):
            for protocol in np.roll((MP, R_BLK, S_BLK), repeat).tolist():
                results, tables, costs = _play(spark, place, protocol, repeat, setup)
                rows += _rows(results, tables, protocol, repeat, costs, setup)
    return rows


def _asked(spark: Any, feed: Path, protocol: str, seed: int, setup: Setup) -> Compared:
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1 if protocol == "warm" else 100).parquet(str(feed))
    windows = stream(df).keyed("symbol").count_window(setup.length, slide=setup.slide, slack=FixedSlack(0))
    return Compared.of(windows.apply(AlgoTrader()), protocol, seed)


def _warm_up(spark: Any, place: Path, setup: Setup) -> None:
    (place / "in").mkdir(parents=True)
    per_file = -(-setup.keys * setup.length // setup.warm_files)
    for number in range(setup.warm_files):
        keys = np.arange(number * per_file, min((number + 1) * per_file, setup.keys * setup.length)) % setup.keys
        _write(
            place / "in",
            number,
            setup.symbols.take(pa.array(keys)),
            START_US + WARM_S * 1e6 * number / setup.warm_files,
            WARM_S / setup.warm_files,
            seed=-1,
        )
    run = _asked(spark, place / "in", MP, 0, setup).start(
        "parquet", path=place / "out", checkpoint=place / "c", trigger="availableNow", slots=OLD
    )
    run.await_termination()


def _write(feed: Path, number: int, symbols: pa.Array, from_us: float, seconds: float, seed: int) -> None:
    random = derive(seed, "x10 engine", number)
    times = np.sort(random.random(len(symbols))) * seconds * 1e6 + from_us
    prices = np.round(100 + np.cumsum(random.normal(0, 0.01, len(symbols))), 4)
    table = pa.table(
        {"ts": pa.array(times.astype(np.int64)).cast(COLUMNS.field(0).type), "symbol": symbols, "price": prices}, COLUMNS
    )
    pq.write_table(table, feed / f".{number}")
    (feed / f".{number}").rename(feed / f"{number:04}.parquet")


def _play(
    spark: Any, place: Path, protocol: str, seed: int, setup: Setup
) -> tuple[Results, tuple[RoutingTable, RoutingTable], Row]:
    """Continue from the warm checkpoint in real time, and return results, routing tables before and after, and costs."""
    own, feed = place / f"{protocol}-{seed}", place / "warm" / "in"
    shutil.copytree(place / "warm" / "c", own / "c")
    run = _asked(spark, feed, protocol, seed, setup).start(
        "parquet", path=own / "out", checkpoint=own / "c", trigger="1 second", slots=OLD
    )
    began = run.seconds().get(Step.KEY_TASKS, 0.0), run.status().windows_out
    began_s, before = _just_before_a_trigger(), run.routing()
    try:
        _feed(feed, run, began_s, seed, setup)
        run.query.processAllAvailable()
        after = run.routing()
        busy_s, windows = run.seconds()[Step.KEY_TASKS] - began[0], run.status().windows_out - began[1]
    finally:
        run.stop()
        for file in sorted(feed.glob("*.parquet"))[setup.warm_files :]:
            file.unlink()
    results = _results(own / "out", began_s, Store(str(own / "c" / "skytide")).key_seed())
    shutil.rmtree(own, ignore_errors=True)
    return results, (before, after), {"service_ms": 1e3 * busy_s / max(windows, 1)}


def _feed(feed: Path, run: Run, began_s: float, seed: int, setup: Setup) -> None:
    """Write a file every second, and ask for more slots at the change."""
    shares = 1 / np.arange(1, setup.keys + 1) ** EXPONENT
    pause = threading.Event()
    for second in range(setup.end):
        rate = setup.before_hz if second < setup.jump else setup.after_hz
        keys = derive(seed, "x10 engine keys", second).choice(setup.keys, rate, p=shares / shares.sum())
        pause.wait(max(0.0, began_s + second + 1 - time.time()))
        _write(feed, setup.warm_files + second, setup.symbols.take(pa.array(keys)), START_US + (WARM_S + second) * 1e6, 1.0, seed)
        if second == setup.change:
            run.resize(slots=NEW)


def _just_before_a_trigger() -> float:
    """Return a time one or two seconds ahead, just before a whole second, when Spark's batches begin."""
    return float(np.ceil(time.time() + 1.0) - 0.2)


def _results(out: Path, began_s: float, key_seed: int) -> Results:
    """Return the results that came out after the run began."""
    parts: list[tuple[Any, Any, float, int]] = []
    for file in sorted(out.glob("batch=*/*.parquet")):
        done_s = file.stat().st_mtime - began_s
        if done_s > 0:
            table = pq.ParquetFile(file).read(columns=["symbol", "window_end"])
            came = table["window_end"].cast(pa.int64()).to_numpy()
            parts.append(
                (hashes_of(table, ("symbol",), key_seed), (came - START_US) / 1e6 - WARM_S, done_s, int(file.parent.name[6:]))
            )
    counts = [len(part[0]) for part in parts]
    batch, done = (np.repeat([part[place] for part in parts], counts) for place in (3, 2))
    out_s = {number: max(part[2] for part in parts if part[3] == number) for number in set(batch.tolist())}
    came_s = np.concatenate([part[1] for part in parts])
    results = Results(
        np.concatenate([part[0] for part in parts]), came_s, done, np.array([out_s[number] for number in batch.tolist()]), batch
    )
    live = came_s > 0
    return Results(*(getattr(results, name)[live] for name in ("hashes", "came_s", "done_s", "out_s", "batch")))


def _rows(
    results: Results, tables: tuple[RoutingTable, RoutingTable], protocol: str, seed: int, costs: Row, setup: Setup
) -> list[Row]:
    """Return the measures of a run, and its latency and results over time; the change shows in the first batch that began after it."""
    moved = tables[0].slots_of(results.hashes) != tables[1].slots_of(results.hashes)
    latency_ms, done_ms = 1e3 * (results.out_s - results.came_s), 1e3 * (results.done_s - results.came_s)
    # the table changes at the end of the batch that was running when slots were requested: the next batch uses it
    later = sorted(set(results.batch[results.came_s > setup.change + 1].tolist()))
    at = results.batch == later[0]
    before = (results.came_s > 1) & (results.came_s < setup.jump - 1)
    row = {
        "figure": "engine",
        "protocol": protocol,
        "seed": seed,
        **costs,
        "moved_keys": float(moved[at].mean()),
        "before_ms": float(latency_ms[before].mean()),
        "staying_ms": float(latency_ms[at & ~moved].mean()),
        "moving_ms": float(latency_ms[at & moved].mean()),
        "staying_done_ms": float(done_ms[at & ~moved].mean()),
        "moving_done_ms": float(done_ms[at & moved].mean()),
        "after_ms": float(latency_ms[results.came_s > setup.change + 3].mean()),
    }
    rows: list[Row] = [row]
    for second in range(1, setup.end):
        mine = (results.out_s > second) & (results.out_s <= second + 1)
        if mine.any():
            rows.append(
                {
                    "figure": "engine over time",
                    "protocol": protocol,
                    "seed": seed,
                    "at_s": float(second + 1),
                    "latency_ms": float(latency_ms[mine].mean()),
                    "results": int(mine.sum()),
                }
            )
    return rows


def _mean(rows: Sequence[Row], protocol: str, what: str) -> float:
    return float(np.mean([row[what] for row in rows if row["figure"] == "engine" and row["protocol"] == protocol]))


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Return the claims about the engine: how much later results come at the change than before it in the same run."""
    of = {
        protocol: {what: _mean(rows, protocol, what) for what in ("before_ms", "staying_ms", "moving_ms")}
        for protocol in (MP, R_BLK, S_BLK)
    }
    later = {
        protocol: {what: values[f"{what}_ms"] - values["before_ms"] for what in ("staying", "moving")}
        for protocol, values in of.items()
    }
    text = "; ".join(
        f"{protocol}: {of[protocol]['before_ms']:.0f} ms before, {values['staying']:+.0f} (stay) and {values['moving']:+.0f} (move) at the change"
        for protocol, values in later.items()
    )
    return [
        Claim(
            "(ours) on the engine, results of keys that stay come out less than one batch (1 s) later when other keys move",
            f"on the engine {later[MP]['staying']:.0f} ms later, with {FULL.after_hz / FULL.before_hz - 1:.0%} more quotes as well",
            later[MP]["staying"] < 1_000,
        ),
        Claim(
            "(ours) on the engine, keys wait longer with the blocking protocols",
            f"on the engine, mean latency of {len({row['seed'] for row in rows if row['figure'] == 'engine'})} runs: {text}",
            of_all(later[protocol][what] > later[MP][what] for protocol in (R_BLK, S_BLK) for what in ("staying", "moving")),
        ),
    ]


NOTES = (
    f"On the engine: {OLD} to {NEW} slots on {CORES} cores, {FULL.before_hz:,} and then {FULL.after_hz:,} quotes per second (a twentieth of P2's), windows of {FULL.length:,} by "
    f"{FULL.slide}, one batch per second; all results of a batch come out when its last slot is done, so keys that stay and keys that move differ little. "
    "What blocks is the hand-over of state between slots, which the engine's own protocol does not need"
)
