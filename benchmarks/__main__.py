"""Run the named parts, or all, and write a machine-readable copy to out/bench.json."""

import argparse
import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import dataframe, first_call, growth, kernel, nba
from benchmarks.timing import Disagreement

ROOT = Path(__file__).resolve().parents[1]
PARTS: dict[str, Callable[[Console], dict[str, Any]]] = {
    "kernel": kernel.run,
    "first_call": first_call.run,
    "dataframe": dataframe.run,
    "growth": growth.run,
    "nba": nba.run,
}
COMPARED = ("skytide", "numpy", "numba", "pyspark", "pyarrow", "moocore", "paretoset")


def main() -> None:
    """Run the parts, and print and save the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"some of {', '.join(PARTS)}")
    parts = parser.parse_args().parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: no such part; choose some of {', '.join(PARTS)}")
    console = Console(width=130, highlight=False)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()} | {name: version(name) for name in COMPARED}
    console.print(", ".join(f"{name} {what}" for name, what in machine.items()))
    results: dict[str, Any] = {"machine": machine}
    try:
        for part in parts:
            console.print()
            results[part] = PARTS[part](console)
    except Disagreement as disagreement:
        raise SystemExit(f"Results differ, so nothing was compared: {disagreement}") from disagreement
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    (out / "bench.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
