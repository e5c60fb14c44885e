"""What `skytide hotels` accepts."""

import argparse

from skytide_lab.commands.options import add_out

HELP = "the skyline of 100,000 made-up hotels, as a table and a picture"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to a parser."""
    add_out(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from skytide_lab.demonstrations.hotels import run

    run(options.out)
