"""What `skytide fleet` accepts."""

import argparse
from pathlib import Path

from skytide_lab.commands.options import add_out

HELP = "windows over hundreds of streams that come and go, watched live, and as a picture"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to a parser."""
    parser.add_argument("--seconds", type=float, default=30, help="how long to stream (default: %(default)s)")
    parser.add_argument("--streams", type=int, default=500, help="how many to make up (default: %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=20_000, help="tuples per second of all streams on average (default: %(default)s)"
    )
    parser.add_argument(
        "--cabs",
        type=Path,
        nargs="?",
        const=Path("cabs_20080520.parquet"),
        metavar="FILE",
        help="replay a Parquet file of ts, cab, lat, lon, occupied instead, one stream per cab; a name is also looked up in SKYTIDE_DATA",
    )
    parser.add_argument("--speed", type=float, default=600, help="how many times faster than the cabs were (default: %(default)s)")
    parser.add_argument(
        "--capacity",
        type=float,
        default=15_000,
        help="tuples per second that a split takes, low enough to see several of them (default: %(default)s)",
    )
    add_out(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from skytide_lab.demonstrations.fleet import run

    names = ("seconds", "streams", "rate", "cabs", "speed", "capacity", "out")
    run(**{name: getattr(options, name) for name in names})
