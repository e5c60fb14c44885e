"""Ten thousand streams for minutes: a tenth send each second, some join and some leave, and memory and files must not grow."""

import argparse
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path

from rich.console import Console

import skytide
from benchmarks.stream.sampling import EVERY_S, Sample, live_mb, report, sizes
from skytide.spark import local_session

STREAMS = 10_000


def main() -> None:
    """Run, print a table, and fail if something grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    console = Console(width=150, highlight=False)
    spark = local_session("skytide soak", **{"spark.driver.memory": "2g"})
    folder = Path(tempfile.mkdtemp(prefix="skytide-soak-"))
    writer = _Writer(folder / "feeds")
    fleet = skytide.fleet(folder / "feeds", schema="ts timestamp, x double", splits=2)
    asked = skytide.stream(fleet).window("10 s", "2 s").aggregate("count(*)", "avg(x) AS mean")
    run = asked.start("parquet", path=folder / "results", checkpoint=folder / "checkpoint", trigger="1 s")
    samples: list[Sample] = []
    began = time.monotonic()
    try:
        writer.start()
        while time.monotonic() - began < options.minutes * 60:
            if run.query.awaitTermination(EVERY_S):  # type: ignore[arg-type]
                raise RuntimeError(f"the query ended by itself: {run.query.exception()}")
            status = fleet.status()
            samples.append({"seconds": time.monotonic() - began, **sizes(str(folder)), "JVM live MB": live_mb(spark)})
            samples[-1] |= {"streams": status.streams, "splits": status.splits, "planning ms": status.planning_s * 1e3}
            console.print(
                "  ".join(f"{name} {value:,.1f}" for name, value in samples[-1].items()) + f"  tuples {run.status().tuples:,}"
            )
    finally:
        writer.done.set()
        run.query.stop()
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    flat = report(
        console,
        [{k: v for k, v in s.items() if k not in ("planning ms", "splits")} for s in samples],
        "with 10,000 streams",
        "soak-fleet",
    )
    raise SystemExit(not flat)


class _Writer(threading.Thread):
    """Appends to a tenth of the streams each second; now and then one leaves, and another one joins."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        folder.mkdir()
        self.folder, self.done, self.dice = folder, threading.Event(), random.Random(7)
        self.names = [f"s{number}" for number in range(STREAMS)]
        for name in self.names:
            (folder / f"{name}.jsonl").touch()

    def run(self) -> None:
        number = STREAMS
        while not self.done.wait(1.0):
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            for name in self.dice.sample(self.names, STREAMS // 10):
                with (self.folder / f"{name}.jsonl").open("a") as file:
                    file.write(f'{{"ts": "{now}", "x": 1.5}}\n' * 5)
            at = self.dice.randrange(len(self.names))
            (self.folder / f"{self.names[at]}.jsonl").unlink()
            self.names[at] = f"s{number}"
            (self.folder / f"{self.names[at]}.jsonl").touch()
            number += 1


if __name__ == "__main__":
    main()
