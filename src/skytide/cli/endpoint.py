"""Where a page is served, as people write it: `--serve`, `--serve 4100`, `--serve 0.0.0.0:4100`."""

import argparse
import re
from collections.abc import Sequence
from typing import NamedTuple

from skytide.errors.limits import MAX_PORT

_ENDPOINT = re.compile(r"(?:(?P<address>[^\s:/]+|\[[0-9a-fA-F:]+\]):)?(?P<port>\d{1,5})")


class Endpoint(NamedTuple):
    """An address and a port; without a port, any free one will do."""

    address: str = "127.0.0.1"
    port: int | None = None


HERE = Endpoint()


def endpoint(text: str) -> Endpoint:
    """Return the address and the port that a text names.

    >>> endpoint("4100"), endpoint("0.0.0.0:4100")
    (Endpoint(address='127.0.0.1', port=4100), Endpoint(address='0.0.0.0', port=4100))
    """
    if not text:
        return HERE
    parts = _ENDPOINT.fullmatch(text)
    if parts is None or int(parts["port"]) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}: not an address and a port; write them as 127.0.0.1:4100, or the port alone")
    return Endpoint((parts["address"] or HERE.address).strip("[]"), int(parts["port"]))


def with_endpoint(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command with an empty value for a `--serve` that has none: argparse would take a script after it for one.

    >>> with_endpoint(["--mode", "act", "--serve", "job.py", "--serve"])
    ['--mode', 'act', '--serve=', 'job.py', '--serve']
    """
    words = list(arguments)
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--serve" and not _ENDPOINT.fullmatch(words[at + 1] if at + 1 < len(words) else ""):
            words[at] = "--serve="
        at += 1 if "=" in words[at] else 2
    return words
