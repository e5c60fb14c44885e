"""Where a page is served, as people write it: `--serve`, `--serve 4100`, `--serve 0.0.0.0:4100`."""

import argparse
import re
from collections.abc import Sequence
from typing import NamedTuple

from skytide.errors.limits import MAX_PORT

_PLACE = re.compile(r"(?:(?P<address>[^\s:/]+|\[[0-9a-fA-F:]+\]):)?(?P<port>\d{1,5})")


class Place(NamedTuple):
    """An address and a port; without a port, any free one will do."""

    address: str = "127.0.0.1"
    port: int | None = None


HERE = Place()


def place(text: str) -> Place:
    """Return the address and the port that a text names.

    >>> place("4100"), place("0.0.0.0:4100")
    (Place(address='127.0.0.1', port=4100), Place(address='0.0.0.0', port=4100))
    """
    if not text:
        return HERE
    parts = _PLACE.fullmatch(text)
    if parts is None or int(parts["port"]) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}: not an address and a port; write them as 127.0.0.1:4100, or the port alone")
    return Place((parts["address"] or HERE.address).strip("[]"), int(parts["port"]))


def with_place(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command with an empty place for a `--serve` that has none: argparse would take a script after it for one.

    >>> with_place(["--mode", "act", "--serve", "job.py", "--serve"])
    ['--mode', 'act', '--serve=', 'job.py', '--serve']
    """
    words = list(arguments)
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--serve" and not _PLACE.fullmatch(words[at + 1] if at + 1 < len(words) else ""):
            words[at] = "--serve="
        at += 1 if "=" in words[at] else 2
    return words
