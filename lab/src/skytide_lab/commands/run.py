"""What `skytide run` accepts."""

import argparse

from skytide.cli.options import add_serve
from skytide_lab.commands.options import add_out

HELP = "a continuous skyline of a bursty, late stream, watched live, and as a picture"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to a parser."""
    parser.add_argument("--seconds", type=float, default=40, help="how long to stream (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=20_000, help="tuples per second on average (default: %(default)s)")
    add_out(parser)
    add_serve(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from skytide_lab.demonstrations.run import run

    run(seconds=options.seconds, rate=options.rate, out=options.out, serve=options.serve)
