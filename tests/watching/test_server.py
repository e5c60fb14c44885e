"""The server of the page, over HTTP: who may look, who may ask, and what is told after an absence."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.snapshots import TalkingQuery

from skytide.errors import InvalidInput
from skytide.watch.exporter import Exporter
from skytide.watch.server import Page
from skytide.watch.serving import serve
from skytide.watch.snapshots import Subject
from skytide.watch.watch import Watch

TOKEN = "a token of the test"
BEARER = f"Bearer {TOKEN}"


class Setting:
    """A watch with one query that can be asked one thing, and its page."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.watch, self.query, self.asked = Watch(), TalkingQuery(), []
        subject = self.query.subject()
        self.watch.add(
            Subject(
                subject.id, "query", subject.name, subject.about, subject.snapshot, {"pause": lambda: self.asked.append("pause")}
            )
        )
        self.page = Page(self.watch, address, 0, TOKEN)
        self.path = f"/act/{urllib.request.quote(subject.id)}/pause"

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.page.port, timeout=30)) as link:
            link.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            with link.getresponse() as answer:
                endless = answer.headers.get("content-type", "").startswith("text/event-stream")
                return answer.status, "" if endless else answer.read().decode()

    def events(self, last_id: str = "", count: int = 1) -> list[tuple[str, str, dict]]:
        """Read so many events."""
        link = http.client.HTTPConnection("127.0.0.1", self.page.port, timeout=30)
        link.request("GET", "/events", headers={"Last-Event-ID": last_id} if last_id else {})
        answer = link.getresponse()
        found, lines = [], {}
        while len(found) < count:
            line = answer.readline().decode().rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                lines[name] = value
            elif "data" in lines:
                found.append((lines["event"], lines["id"], json.loads(lines["data"])))
                lines = {}
        answer.close()
        link.close()
        return found


@pytest.fixture
def setting() -> Iterator[Setting]:
    made = Setting()
    yield made
    made.page.stop()


@pytest.fixture
def far() -> Iterator[Setting]:
    made = Setting("0.0.0.0")
    yield made
    made.page.stop()


def test_on_this_machine_everybody_may_look(setting: Setting) -> None:
    status, text = setting.ask("/")
    assert status == 200 and "<title>skytide</title>" in text
    assert setting.ask("/static/page.js")[0] == 200
    assert setting.ask("/events")[0] == 200


def test_nothing_is_fetched_from_elsewhere(setting: Setting) -> None:
    for name in ("/", "/static/page.js", "/static/events.js", "/static/chart.js", "/static/page.css", "/static/uPlot.min.css"):
        text = setting.ask(name)[1]
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text, name


def test_on_another_address_nobody_sees_anything_without_the_token(far: Setting) -> None:
    empty = far.ask("/")
    assert empty[0] == 200 and "prices" not in empty[1]
    assert far.ask("/events")[0] == far.ask("/events", Authorization="Bearer wrong")[0] == 403
    assert far.ask(f"/events?token={urllib.request.quote(TOKEN)}")[0] == far.ask("/events", Cookie=f'token="{TOKEN}"')[0] == 403
    assert far.ask("/events", Authorization=BEARER)[0] == 200


def test_the_token_is_where_a_browser_sends_nothing_and_in_no_cookie(setting: Setting) -> None:
    address, _, fragment = setting.page.url.partition("#")
    assert TOKEN not in urllib.request.unquote(address) and urllib.request.unquote(fragment) == f"token={TOKEN}"
    for path in ("/", "/events", "/static/page.js"):
        with closing(http.client.HTTPConnection("127.0.0.1", setting.page.port, timeout=30)) as link:
            link.request("GET", path, headers={"Authorization": BEARER})
            with link.getresponse() as answer:
                assert answer.headers["set-cookie"] is None


def test_only_the_token_lets_one_ask(setting: Setting) -> None:
    assert setting.ask(setting.path, "POST")[0] == 403
    assert setting.ask(setting.path, "POST", Authorization="Bearer wrong")[0] == 403
    assert setting.ask(setting.path, "GET", Authorization=BEARER)[0] == 405
    assert setting.asked == []
    assert setting.ask(setting.path, "POST", Authorization=BEARER)[0] == 200
    assert setting.asked == ["pause"]
    assert setting.ask("/act/nobody/pause", "POST", Authorization=BEARER)[0] == 404


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "127.0.0.2", "::1"])
def test_page_and_metrics_answer_at_their_own_address(address: str) -> None:
    if address == "::1" and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    page, exporter = Page(Watch(), address, 0), Exporter(Watch(), 0, address)
    try:
        for url in (page.url, exporter.url):
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.status == 200, url
    finally:
        page.stop()
        exporter.stop()


def test_a_name_of_another_site_is_refused(setting: Setting) -> None:
    assert setting.ask("/", Host="evil.example")[0] == setting.ask("/events", Host="127.0.0.1.evil.example:80")[0] == 400
    exporter = Exporter(setting.watch, 0)
    try:
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(urllib.request.Request(exporter.url, headers={"Host": "evil.example"}), timeout=30)
    finally:
        exporter.stop()


def test_files_beside_are_not_served(setting: Setting) -> None:
    assert setting.ask("/static/../server.py")[0] == setting.ask("/static/%2e%2e/server.py")[0] == 404


def test_who_comes_back_gets_what_came_meanwhile(setting: Setting) -> None:
    setting.query.batch()
    setting.watch.refresh()
    ((kind, known, subject),) = setting.events()
    assert kind == "all" and len(subject["subjects"][0]["trail"]["t"]) == 1
    for tuples in (2_000, 3_000):
        setting.query.batch(tuples=tuples)
        setting.watch.refresh()
    came = setting.events(known, count=2)
    assert [(kind, update["point"]["input_hz"]) for kind, _, update in came] == [("update", 4_000), ("update", 6_000)]
    assert setting.events("another-7")[0][0] == "all"


def test_a_viewer_hears_what_happens_while_it_listens(setting: Setting) -> None:
    link = http.client.HTTPConnection("127.0.0.1", setting.page.port, timeout=30)
    link.request("GET", "/events")
    answer = link.getresponse()
    while not answer.readline().startswith(b"data: "):
        pass
    setting.query.batch(tuples=7_000)
    setting.watch.refresh()
    while not (line := answer.readline()).startswith(b"data: "):
        pass
    assert json.loads(line[6:])["point"]["input_hz"] == 14_000
    answer.close()
    link.close()


def test_a_port_that_is_taken_is_refused(setting: Setting) -> None:
    with pytest.raises(InvalidInput, match="cannot listen there"):
        Page(setting.watch, "127.0.0.1", setting.page.port)
    for wrong in ({"port": 70_000}, {"address": ""}, {"token": "short"}, {"address": "not an address"}):
        with pytest.raises(InvalidInput):
            Page(setting.watch, **wrong)


def test_all_that_is_served_at_an_address_is_on_one_page() -> None:
    first, second = TalkingQuery("first"), TalkingQuery("second")
    page = serve([first.subject()], port=0)
    try:
        assert serve([second.subject()], port=page.port) is page
        with pytest.raises(InvalidInput, match="has another"):
            serve([], port=page.port, token="another token")
        with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/") as answer:
            assert answer.status == 200
    finally:
        page.stop()
    assert not page.is_up
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{page.port}/", timeout=5)
