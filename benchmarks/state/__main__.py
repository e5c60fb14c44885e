"""How the state of continuous queries scales, part by part, each in processes of its own; results go to out/bench-state.json, too."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.state.common import Bench, Found
from benchmarks.state.day import day
from benchmarks.state.driver import driver
from benchmarks.state.hour import hour
from benchmarks.state.keys import keys
from benchmarks.state.skylines import skylines
from benchmarks.state.slots import slots
from benchmarks.state.tumbling import tumbling
from benchmarks.timing import Goal, Limit, announce, show

ROOT = Path(__file__).resolve().parents[2]
PARTS: dict[str, Callable[[Bench], Found]] = {
    "hour": hour,
    "keys": keys,
    "day": day,
    "tumbling": tumbling,
    "slots": slots,
    "skylines": skylines,
    "driver": driver,
}


def main() -> None:
    """Run the parts, and print and save the results."""
    options = arguments()
    console = Console(width=150, highlight=False)
    if options.alone:
        run_part(console, options)
        return
    results: dict[str, Any] = {}
    for part in options.parts or PARTS:
        results[part] = run_in_process(part, options)
    console.print()
    announce(console, [goal for result in results.values() for goal in map(goal_of, result.get("goals", []))])
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    if failed := [part for part, result in results.items() if "failed" in result]:
        raise SystemExit(f"Failed: {', '.join(failed)}")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything works: the figures mean nothing")
    parser.add_argument("--spark-minutes", type=float, default=10.0, help="when to stop Spark's own windows (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "bench-state.json", help="where the results go")
    parser.add_argument("--alone", action="store_true", help="run one part in this process, as the benchmark itself does")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: no such part; choose some of {', '.join(PARTS)}")
    if options.alone and len(options.parts) != 1:
        parser.error("--alone takes one part")
    return options


def run_in_process(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a part in a process of its own, so that none has the memory and the sessions of another, and return its results."""
    with tempfile.TemporaryDirectory(prefix="skytide-state-") as folder:
        out = Path(folder, "results.json")
        quick = ["--quick"] if options.quick else []
        command = [part, "--alone", "--out", str(out), "--spark-minutes", str(options.spark_minutes), *quick]
        done = subprocess.run([sys.executable, "-m", "benchmarks.state", *command], check=False, cwd=ROOT)
        if done.returncode:
            return {"failed": done.returncode}
        return dict(json.loads(out.read_text()))


def run_part(console: Console, options: argparse.Namespace) -> None:
    """Run a part here, print its table and goals, and write its results."""
    (part,) = options.parts
    with tempfile.TemporaryDirectory(prefix="skytide-state-", ignore_cleanup_errors=True) as folder:
        found = PARTS[part](Bench(console, Path(folder), options.quick, options.spark_minutes))
    show(console, found.title, found.columns, found.rows)
    goals = announce(console, found.goals)
    options.out.write_text(json.dumps({"title": found.title, "goals": goals, **found.figures}, indent=2) + "\n")


def goal_of(written: dict[str, Any]) -> Goal | Limit:
    """Return a goal from the machine-readable copy."""
    kind = Goal if "at_least" in written else Limit
    return kind(**{name: value for name, value in written.items() if name != "reached"})


if __name__ == "__main__":
    main()
