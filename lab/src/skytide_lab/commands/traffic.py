"""What `skytide traffic` accepts."""

import argparse
from pathlib import Path

from skytide_lab.commands.options import add_out

HELP = "how fast the cabs of a city are, area by area, and where queues end, watched live, and as a map"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to a parser."""
    parser.add_argument("--seconds", type=float, default=45, help="how long to stream (default: %(default)s)")
    parser.add_argument(
        "--cabs",
        type=Path,
        metavar="FILE",
        help="replay a Parquet file of ts, cab, lat, lon, occupied; a name is also looked up in SKYTIDE_DATA "
        "(default: cabs_20080520.parquet if it is there, otherwise cabs are made up)",
    )
    parser.add_argument("--made-up", type=int, metavar="CABS", help="make so many cabs up, even if the file is there")
    parser.add_argument("--speed", type=float, default=600, help="how many times faster than the cabs were (default: %(default)s)")
    parser.add_argument("--metres", type=int, default=500, help="how wide an area is (default: %(default)s)")
    parser.add_argument(
        "--capacity",
        type=float,
        default=2_000,
        help="reports per second that a split takes, low enough to see several of them (default: %(default)s)",
    )
    parser.add_argument("--slots", type=int, default=4, help="how many tasks a level may have at most (default: %(default)s)")
    add_out(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from skytide_lab.demonstrations.traffic import run

    names = ("seconds", "cabs", "made_up", "speed", "metres", "capacity", "slots", "out")
    run(**{name: getattr(options, name) for name in names})
