"""The command line: each subcommand is a module of this folder."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from skytide.errors import SkytideError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and give its exit status."""
    parser = argparse.ArgumentParser(prog="skytide", description="Elastic stream processing on Apache Spark.")
    commands = parser.add_subparsers(required=True, metavar="command")
    run = commands.add_parser("run", help="a continuous skyline on a bursty, late stream, watched live, and as a picture")
    run.add_argument("--seconds", type=float, default=40, help="how long to stream (default: %(default)s)")
    run.add_argument("--rate", type=float, default=20_000, help="tuples a second on average (default: %(default)s)")
    run.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")
    run.set_defaults(run=_run)
    hotels = commands.add_parser("hotels", help="the skyline of 100,000 made-up hotels, as a table and a picture")
    hotels.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")
    hotels.set_defaults(run=_hotels)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except SkytideError as error:
        print(f"skytide: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell says it
    return 0


def _run(options: argparse.Namespace) -> None:
    _module("run").run(seconds=options.seconds, rate=options.rate, out=options.out)


def _hotels(options: argparse.Namespace) -> None:
    _module("hotels").run(options.out)


def _module(command: str) -> Any:
    try:
        return import_module(f"skytide.cli.{command}")
    except ModuleNotFoundError as missing:
        raise SkytideError(f"{missing.name} is not installed; `pip install 'skytide[lab]'`") from missing
