"""A long run at half of the sustainable load: the memory of all processes and the size of the checkpoint must not grow."""

import argparse
import contextlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from rich.console import Console

import skytide
from benchmarks.stream.measure import family
from benchmarks.stream.peers import skyline_of, skytide_chain
from benchmarks.timing import show
from skytide.spark import local_session

ROOT = Path(__file__).resolve().parents[2]
FLAT = 1.10  # highest ratio of the last quarter to the second one; the first is warm-up
EVERY_S = 10.0

Sample = dict[str, float]


def main() -> None:
    """Run, print a table, and fail if something grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=225_000, help="tuples per second (default: %(default)s)")
    options = parser.parse_args()
    console = Console(width=130, highlight=False)
    spark = local_session("skytide soak", **{"spark.driver.memory": "2g"})
    folder = tempfile.mkdtemp(prefix="skytide-soak-")
    source = skytide.workload(rate=options.rate, arrivals="poisson", delay="100 ms", late_share=0.1)
    started = skytide_chain(True, skyline_of)(spark, source, folder, "500 ms")
    samples: list[Sample] = []
    began = time.monotonic()
    try:
        while time.monotonic() - began < options.minutes * 60:
            if started.query.awaitTermination(EVERY_S):  # type: ignore[arg-type]
                raise RuntimeError("the query ended by itself")
            samples.append({"seconds": time.monotonic() - began, **sizes(folder), "JVM live MB": live_mb(spark)})
            latencies = list(started.latencies().values())[-25:]
            samples[-1]["latency s"] = sum(latencies) / max(len(latencies), 1)
            console.print("  ".join(f"{name} {value:,.1f}" for name, value in samples[-1].items()))
    finally:
        started.query.stop()
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    report(console, samples, f"at {options.rate:,} tuples per second", "soak")


def live_mb(spark: SparkSession) -> float:
    """Return the megabytes of the JVM's heap that are in use; its process takes more, and returns memory when it likes."""
    jvm = spark._jvm  # type: ignore[attr-defined]
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


def sizes(folder: str) -> Sample:
    """Return the megabytes of the driver, the JVM, the Python workers, and the checkpoint."""
    found = {"driver MB": 0.0, "JVM MB": 0.0, "workers MB": 0.0}
    for pid in family():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue  # it ended meanwhile
        kind = "driver MB" if pid == os.getpid() else "JVM MB" if b"java" in command.split(b"\0")[0] else "workers MB"
        found[kind] += pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    state = []
    for path in Path(folder, "checkpoint").rglob("*"):
        with contextlib.suppress(OSError):  # it may be gone meanwhile
            state += [path.stat().st_size] if path.is_file() else []
    return {**found, "checkpoint MB": sum(state) / 1e6, "checkpoint files": float(len(state))}


def report(console: Console, samples: list[Sample], load: str, name_of_file: str) -> None:
    """Print and save the samples of a run, and exit with a status that tells whether something grew."""
    quarter = len(samples) // 4
    rows, grown = [], []
    for name in samples[0]:
        if name == "seconds":
            continue
        # A checkpoint grows and shrinks with every batch, and samples catch it anywhere in between: its maximum counts.
        middle = max if name.startswith("checkpoint") else median
        early = middle(sample[name] for sample in samples[quarter : 2 * quarter])
        late = middle(sample[name] for sample in samples[-quarter:])
        rows.append([name, f"{early:,.1f}", f"{late:,.1f}", f"{late / early:.2f}"])
        if late > FLAT * early and name not in ("latency s", "JVM MB"):
            grown.append(name)
    title = f"{samples[-1]['seconds'] / 60:.0f} minutes {load} (medians; for the checkpoint, maxima)"
    show(console, title, ["what", "second quarter", "last quarter", "ratio"], rows)
    out = ROOT / "out" / f"{name_of_file}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(samples, indent=2) + "\n")
    console.print(f"Not flat: {', '.join(grown)}" if grown else "Flat: nothing grew by more than 10 %")
    raise SystemExit(bool(grown))


if __name__ == "__main__":
    main()
