"""Whoever reaches the ports of a page and of metrics cannot use up the files of the process that runs the query."""

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from skytide.watch.listening import MAX_CONNECTIONS, WAITING

FILES = 400  # that the victim may have open
DEADLINE_S = 60
VICTIM = f"""
import os, resource, sys
from skytide.watch.exporter import Exporter
from skytide.watch.server import Page
from skytide.watch.watch import Watch

page, exporter = Page(Watch(), "0.0.0.0", 0), Exporter(Watch(), 0, "0.0.0.0")
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
print(page.port, exporter.port, flush=True)
for line in sys.stdin:  # do what a query does: open files
    opened = [open(os.devnull) for _ in range(100)]
    for file in opened:
        file.close()
    print("works", len(os.listdir("/proc/self/fd")), flush=True)
"""


class Victim:
    """A process with a page, metrics, and few files."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.page, self.metrics = map(int, self._line().split())

    def works(self) -> int:
        """Let it open files, and return how many it has open otherwise."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        word, _, number = self._line().partition(" ")
        assert word == "works"
        return int(number)

    def _line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "it has failed"
        return line

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    made = Victim()
    yield made
    made.stop()


def answers(port: int, path: str) -> bool:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as link:
            link.request("GET", path)
            return link.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half a request"])
def test_idle_connections_leave_files_to_the_query_and_are_closed(victim: Victim, sent: bytes) -> None:
    before = victim.works()
    with ExitStack() as opened:
        for _ in range(2 * MAX_CONNECTIONS + 20):
            for port in (victim.page, victim.metrics):
                link = opened.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)))
                with suppress(OSError):  # it was one too many
                    link.sendall(sent)
        assert victim.works() <= before + 2 * (MAX_CONNECTIONS + WAITING) + 10  # some may be about to be closed
        deadline = time.monotonic() + DEADLINE_S
        while not (answers(victim.page, "/") and answers(victim.metrics, "/metrics") and victim.works() <= before + 10):
            assert time.monotonic() < deadline, "connections that ask for nothing stay, or keep others out"


def test_a_connection_that_sends_too_much_is_closed(victim: Victim) -> None:
    with closing(socket.create_connection(("127.0.0.1", victim.metrics), timeout=DEADLINE_S)) as link, pytest.raises(OSError):
        for _ in range(1_000):
            link.sendall(b"x" * 65_536)
    assert answers(victim.metrics, "/metrics") and answers(victim.page, "/")


def test_one_connection_may_ask_several_times(victim: Victim) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", victim.page, timeout=30)) as link:
        for _ in range(3):
            link.request("GET", "/")
            with link.getresponse() as answer:
                assert answer.status == 200 and answer.read()
