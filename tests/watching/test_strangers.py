"""Whoever has not shown the token, or does not read, keeps nobody from the page."""

import http.client
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from support.snapshots import TalkingQuery

from skytide.watch import server
from skytide.watch.listening import MAX_CONNECTIONS
from skytide.watch.server import Page
from skytide.watch.watch import Watch

TOKEN = "a token of the test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
DEADLINE_S = 60


class Viewer:
    """A connection that looks at a page, with or without the token."""

    def __init__(self, page: Page, headers: dict[str, str]) -> None:
        self.link = http.client.HTTPConnection("127.0.0.1", page.port, timeout=DEADLINE_S)
        self.link.request("GET", "/events", headers=headers)
        self.answer = self.link.getresponse()
        assert self.answer.status == 200

    def event(self) -> str:
        """Return the name of the next event."""
        while not (line := self.answer.readline().decode()).startswith("event: "):
            assert line, "it was closed"
        return line.removeprefix("event: ").strip()

    def close(self) -> None:
        self.answer.close()
        self.link.close()


@pytest.fixture
def query() -> TalkingQuery:
    return TalkingQuery()


@pytest.fixture
def watch(query: TalkingQuery) -> Watch:
    made = Watch()
    made.add(query.subject())
    return made


@pytest.fixture
def page(watch: Watch) -> Iterator[Page]:
    made = Page(watch, "127.0.0.1", 0, TOKEN)
    yield made
    made.stop()


def test_those_without_the_token_make_room(page: Page, watch: Watch, query: TalkingQuery) -> None:
    with ExitStack() as opened:
        trusted = opened.enter_context(closing(Viewer(page, BEARER)))
        assert trusted.event() == "all"
        for _ in range(MAX_CONNECTIONS + 5):  # they stay, and read no more than the beginning
            opened.enter_context(closing(Viewer(page, {})))
        late = opened.enter_context(closing(Viewer(page, BEARER)))
        assert late.event() == "all"
        query.batch()
        watch.refresh()
        assert trusted.event() == late.event() == "update"


def test_who_shows_the_token_everywhere_keeps_their_place(page: Page) -> None:
    with ExitStack() as opened:
        viewers = [opened.enter_context(closing(Viewer(page, BEARER))) for _ in range(MAX_CONNECTIONS)]
        with pytest.raises((OSError, http.client.HTTPException)):
            Viewer(page, BEARER)
        assert {viewer.event() for viewer in viewers} == {"all"}


def test_who_does_not_read_is_closed(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.2)
    request = f"GET /static/page.js HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER['Authorization']}\r\n\r\n".encode()
    page = Page(watch, "127.0.0.1", 0, TOKEN)
    try:
        with closing(socket.socket()) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            link.connect(("127.0.0.1", page.port))
            link.settimeout(DEADLINE_S)
            with pytest.raises(ConnectionError):  # more and more requests, until the server takes no more, and then no connection
                while select.select([], [link], [], DEADLINE_S)[1]:
                    link.send(request)
    finally:
        page.stop()
