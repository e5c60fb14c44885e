"""The command line: each subcommand is a module of this folder."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from skytide.errors import SkytideError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and give its exit status."""
    parser = argparse.ArgumentParser(prog="skytide", description="Elastic stream processing on Apache Spark.")
    commands = parser.add_subparsers(required=True, metavar="command")
    hotels = commands.add_parser("hotels", help="the skyline of 100,000 made-up hotels, as a table and a picture")
    hotels.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")
    hotels.set_defaults(run=_hotels)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except SkytideError as error:
        print(f"skytide: {error}", file=sys.stderr)
        return 1
    return 0


def _hotels(options: argparse.Namespace) -> None:
    try:
        from skytide.cli import hotels
    except ModuleNotFoundError as missing:
        raise SkytideError(f"{missing.name} is not installed; `pip install 'skytide[lab]'`") from missing
    hotels.run(options.out)
