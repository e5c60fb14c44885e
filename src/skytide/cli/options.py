"""Options that several commands have."""

import argparse
from collections.abc import Iterable

from skytide.cli.endpoint import HERE, endpoint


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Let a command show a live page."""
    text = "show a live page meanwhile, on this machine, or at another ADDRESS for those who have the token that is printed"
    parser.add_argument("--serve", type=endpoint, metavar="ADDRESS:PORT", nargs="?", const=HERE, help=text)


def span(text: str) -> tuple[int, int]:
    """Return the minimum and maximum of a text.

    >>> span("1:8")
    (1, 8)
    """
    minimum, _, maximum = text.partition(":")
    if not (minimum.isdigit() and maximum.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r}: not a minimum and a maximum; write them as 1:8")
    return int(minimum), int(maximum)


def named(text: str) -> tuple[str, str]:
    """Return the name and the value of a text.

    >>> named("orders=2 s")
    ('orders', '2 s')
    """
    name, equals, value = text.rpartition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r}: not a name and a value; write them as orders=2")
    return name, value


def numbers(values: Iterable[tuple[str, str]]) -> dict[str, int | str]:
    """Return named values, as numbers where they are.

    >>> numbers([("orders", "2"), ("trades", "high")])
    {'orders': 2, 'trades': 'high'}
    """
    return {name: int(value) if value.isdigit() else value for name, value in values}
