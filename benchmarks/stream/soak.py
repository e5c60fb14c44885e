"""A long run at half of the sustainable load, then windows of hours, played fast: memory and the checkpoint must not grow."""

import argparse
import shutil
import tempfile
import time

from rich.console import Console

import skytide
from benchmarks.stream.hours import play
from benchmarks.stream.peers import skyline_of, skytide_chain
from benchmarks.stream.sampling import EVERY_S, Sample, live_mb, report, sizes
from skytide.spark import local_session


def main() -> None:
    """Run, print a table, and fail if something grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of the first part; 0 leaves it out (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=225_000, help="tuples per second (default: %(default)s)")
    parser.add_argument(
        "--hours", type=int, default=6, help="of the second part, at least 4; 0 leaves it out (default: %(default)s)"
    )
    options = parser.parse_args()
    if 0 < options.hours < 4:
        parser.error("the first two hours are warm-up, and others are compared: at least 4 are needed")
    console = Console(width=130, highlight=False)
    flat = not options.minutes or run_long(console, options.minutes, options.rate)
    right = not options.hours or play(console, options.hours)
    raise SystemExit(not (flat and right))


def run_long(console: Console, minutes: float, rate: int) -> bool:
    """Run a skyline for some minutes, and return whether nothing grew."""
    spark = local_session("skytide soak", **{"spark.driver.memory": "2g"})
    folder = tempfile.mkdtemp(prefix="skytide-soak-")
    source = skytide.workload(rate=rate, arrivals="poisson", delay="100 ms", late_share=0.1)
    started = skytide_chain(True, skyline_of)(spark, source, folder, "500 ms")
    samples: list[Sample] = []
    began = time.monotonic()
    try:
        while time.monotonic() - began < minutes * 60:
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
    return report(console, samples, f"at {rate:,} tuples per second", "soak")


if __name__ == "__main__":
    main()
