"""The page in a real browser: it loads, updates, shows a late burst, loses and regains its server."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.browser import browser
from support.snapshots import TalkingQuery

from skytide.watch.server import Page
from skytide.watch.snapshots import Subject
from skytide.watch.watch import Watch

pytestmark = pytest.mark.slow
TOKEN = "a token of the test"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


class Shown:
    """A query, its page, and a tab of a browser that shows it; complaints of the browser fail the test."""

    def __init__(self, chromium: Any, names: tuple[str, ...] = ("prices",), **context: Any) -> None:
        self.watch, self.queries, self.paused = Watch(), [TalkingQuery(name) for name in names], []
        for query in self.queries:
            subject = query.subject()
            actions = {"pause": lambda: self.paused.append(True)}
            self.watch.add(Subject(subject.id, subject.kind, subject.name, subject.about, subject.snapshot, actions))
        self.page = Page(self.watch, "127.0.0.1", 0, TOKEN)
        self.tab = chromium.new_context(**context).new_page()
        self.complaints: list[str] = []
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.set_default_timeout(30_000)

    def batches(self, number: int = 1, **batch: Any) -> None:
        for _ in range(number):
            for query in self.queries:
                query.batch(**batch)
            self.watch.refresh()

    def open(self, token: bool = False) -> None:
        self.tab.goto(self.page.url if token else f"http://127.0.0.1:{self.page.port}/")

    def until(self, selector: str, text: str) -> None:
        self.tab.locator(selector, has_text=text).first.wait_for()

    def tile(self, label: str) -> str:
        return str(self.tab.locator(".tile", has=self.tab.locator("dt", has_text=label)).locator(".value").inner_text())


@pytest.fixture
def shown(chromium: Any) -> Iterator[Callable[..., Shown]]:
    made: list[Shown] = []

    def show(*names: str, **context: Any) -> Shown:
        made.append(Shown(chromium, names or ("prices",), **context))
        return made[-1]

    yield show
    for each in made:
        each.tab.context.close()
        each.page.stop()
        assert each.complaints == []


def test_it_loads_and_updates(shown: Callable[..., Shown]) -> None:
    one = shown()
    one.open()
    one.until("#verdict", "Starting")
    one.batches(5)
    one.until("#verdict", "Keeps up")
    one.until("#tiles", "2,000/s")
    one.until("#tables", "1,000")
    assert one.tab.locator("#charts canvas").count() == 8
    assert one.tab.locator("#scatter svg").is_visible()
    assert one.tab.title() == "Keeps up: prices · skytide"
    one.batches(3, trigger_share=2.0)
    one.batches(20, trigger_share=2.0, tuples=45_000)
    one.until("#verdict", "Falls behind")
    one.until("#tiles", "90,000/s")


def test_it_shows_a_late_burst(shown: Callable[..., Shown]) -> None:
    one = shown()
    one.batches(10)
    one.open()
    one.until("#tiles", "0 dropped")
    chart = one.tab.get_by_role("img", name="Late and invalid")
    assert "late 0, at most 0" in chart.get_attribute("aria-label")
    one.batches(1, late=400)
    one.batches(2)
    one.until("#tiles", "400 dropped")
    one.tab.locator('[aria-label*="late 0, at most 800"]').wait_for()  # tuples a second: 400 in half of one
    assert one.tab.locator('.tile[data-level="warn"] dt').inner_text() == "Late"
    assert "400" in one.tab.locator("#tables").inner_text()


def test_it_loses_and_regains_its_server(shown: Callable[..., Shown]) -> None:
    one = shown()
    one.batches(3)
    one.open()
    one.until("#link", "live")
    one.page.stop()
    one.until("#link", "connection lost")
    assert one.tab.locator("#verdict").inner_text().startswith("Keeps up")  # the last state stays
    one.batches(2, tuples=11_000)
    one.page = Page(one.watch, "127.0.0.1", one.page.port, TOKEN)
    one.until("#link", "live")
    one.until("#tiles", "22,000/s")
    other = Watch()  # as if the program itself had been started again
    query = TalkingQuery()
    other.add(query.subject())
    one.page.stop()
    one.until("#link", "connection lost")
    query.batch(tuples=13_000)
    other.refresh()
    one.page = Page(other, "127.0.0.1", one.page.port, TOKEN)
    one.until("#tiles", "26,000/s")


def test_the_end_of_a_query_stays_on_the_page(shown: Callable[..., Shown]) -> None:
    one = shown()
    one.batches(4)
    one.open()
    one.until("#verdict", "Keeps up")
    one.queries[0].set_state("failed", "InvalidInput: NULL in x0")
    one.watch.refresh()
    one.until("#verdict", "NULL in x0")
    assert one.tile("Windows") == "4"


def test_several_queries_by_keyboard(shown: Callable[..., Shown]) -> None:
    one = shown("first", "second")
    one.batches(3)
    one.open()
    one.until("h2", "first")
    one.tab.get_by_role("link", name="second").focus()
    one.tab.keyboard.press("Enter")
    one.until("h2", "second")
    one.tab.get_by_role("img", name="Input").focus()
    one.tab.keyboard.press("ArrowLeft")
    one.tab.get_by_role("button", name="30 min").focus()
    one.tab.keyboard.press("Space")
    assert one.tab.get_by_role("button", name="30 min").get_attribute("aria-pressed") == "true"


def test_it_fits_a_phone_in_dark_and_light(shown: Callable[..., Shown]) -> None:
    grounds = []
    for scheme in ("dark", "light"):
        one = shown("a query with a rather long name that nobody would like to read twice", viewport=PHONE, color_scheme=scheme)
        one.batches(30)
        one.open()
        one.until("#verdict", "Keeps up")
        assert one.tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        grounds.append(one.tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1]


def test_only_who_has_the_token_finds_a_button(shown: Callable[..., Shown]) -> None:
    one = shown()
    one.batches(2)
    one.open()
    one.until("#verdict", "Keeps up")
    assert one.tab.get_by_role("button", name="Pause").count() == 0
    one.open(token=True)
    one.tab.get_by_role("button", name="Pause").click()
    deadline = time.monotonic() + 30
    while not one.paused and time.monotonic() < deadline:
        one.tab.evaluate("new Promise(done => setTimeout(done, 20))")
    assert one.paused and "token" not in one.tab.url
    assert one.tab.context.cookies() == []
    one.tab.reload()
    one.tab.get_by_role("button", name="Pause").wait_for()


def test_without_its_token_a_page_on_another_address_says_what_is_missing(shown: Callable[..., Shown]) -> None:
    one = shown()
    one.page.stop()
    one.page = Page(one.watch, "0.0.0.0", 0, TOKEN)
    one.batches(2)
    one.open()
    one.until("#empty", "This page needs its token")
    one.tab.goto(one.page.url.replace("0.0.0.0", "127.0.0.1"))  # only what is after "#" changes
    one.until("#verdict", "Keeps up")
