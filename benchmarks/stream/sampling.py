"""Samples of what a long run takes: the memory of all processes, and its checkpoint."""

import contextlib
import json
import os
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.stream.measure import family
from benchmarks.timing import show

ROOT = Path(__file__).resolve().parents[2]
FLAT = 1.10  # highest ratio of what comes late in a run to what comes early; the beginning is warm-up
EVERY_S = 10.0

Sample = dict[str, float]


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


def report(console: Console, samples: list[Sample], load: str, name_of_file: str) -> bool:
    """Print and save the samples of a run, and return whether nothing grew."""
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
    save(samples, name_of_file)
    console.print(f"Not flat: {', '.join(grown)}" if grown else "Flat: nothing grew by more than 10 %")
    return not grown


def save(samples: list[Sample], name_of_file: str) -> None:
    """Write samples to the folder of results."""
    out = ROOT / "out" / f"{name_of_file}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(samples, indent=2) + "\n")
