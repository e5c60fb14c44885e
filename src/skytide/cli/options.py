"""Options that several commands have."""

import argparse
from pathlib import Path

from skytide.cli.place import HERE, place


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Let a command show a live page."""
    text = "show a live page meanwhile, on this machine, or at another ADDRESS for those who have the token that is printed"
    parser.add_argument("--serve", type=place, metavar="ADDRESS:PORT", nargs="?", const=HERE, help=text)


def add_out(parser: argparse.ArgumentParser) -> None:
    """Let a command write its results to another folder."""
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (default: %(default)s)")


def span(text: str) -> tuple[int, int]:
    """Return the minimum and maximum of a text.

    >>> span("1:8")
    (1, 8)
    """
    minimum, _, maximum = text.partition(":")
    if not (minimum.isdigit() and maximum.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r}: not a minimum and a maximum; write them as 1:8")
    return int(minimum), int(maximum)
