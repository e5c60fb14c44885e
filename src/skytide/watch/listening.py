"""Addresses to listen on, and which of them only this machine can reach."""

import ipaddress
import socket
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from skytide.errors import InvalidInput
from skytide.errors.checks import check_text

WAITING = (
    32  # connections that the system holds before they are accepted; asyncio accepts as many at once, before any of them is counted
)
MAX_CONNECTIONS = 64
"""How many connections a server keeps: every one is an open file of the process that runs the query."""
IDLE_S = 5.0
"""How long a connection may take for a request."""


def bound(address: str, ports: Sequence[int]) -> socket.socket:
    """Return a socket that listens on the first free one of some ports."""
    check_text("address", address, "127.0.0.1")
    for tried in ports:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, tried))
            sock.listen(WAITING)
            return sock
        except OSError as error:
            sock.close()
            reason: Any = error.strerror or error
    where = f"{address}:{ports[0]}" if len(ports) == 1 else f"{address}:{ports[0]} to {ports[-1]}"
    raise InvalidInput(
        value=where, reason=f"cannot listen there ({reason})", remedy="choose an address of this machine and a free port"
    )


def url_of(address: str, port: int) -> str:
    """Return the start of a URL.

    >>> url_of("127.0.0.1", 4090), url_of("::1", 4090)
    ('http://127.0.0.1:4090', 'http://[::1]:4090')
    """
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def is_loopback(address: str) -> bool:
    """Return whether an address can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("10.0.0.7")
    (True, True, False, False)
    """
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def names_loopback(host: str) -> bool:
    """Return whether a request was sent to this machine under a name that is always its own: another site can lead a browser here under the site's name.

    >>> names_loopback("127.0.0.2:4090"), names_loopback("[::1]:4090"), names_loopback("localhost"), names_loopback("evil.example:4090")
    (True, True, True, False)
    """
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
