"""What `skytide trading` accepts."""

import argparse
from pathlib import Path

from skytide_lab.commands.options import add_out

HELP = "a price forecast for each symbol of a trading day, watched live, and as a picture"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to a parser."""
    parser.add_argument("--seconds", type=float, default=40, help="how long to stream (default: %(default)s)")
    parser.add_argument("--symbols", type=int, default=40, help="how many to make up (default: %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=60_000, help="quotes per second of all symbols on average (default: %(default)s)"
    )
    parser.add_argument(
        "--quotes",
        type=Path,
        nargs="?",
        const=Path("quotes_20131007.parquet"),
        metavar="FILE",
        help="replay a Parquet file of ts, symbol, price, size instead; a name is also looked up in SKYTIDE_DATA",
    )
    parser.add_argument("--speed", type=float, default=600, help="how many times faster than the day was (default: %(default)s)")
    parser.add_argument("--slots", type=int, default=4, help="how many tasks may work on symbols at most (default: %(default)s)")
    add_out(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from skytide_lab.demonstrations.trading import run

    names = ("seconds", "symbols", "rate", "quotes", "speed", "slots", "out")
    run(**{name: getattr(options, name) for name in names})
