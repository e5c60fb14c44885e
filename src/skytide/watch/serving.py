"""One watch per process, and the addresses where it is shown: everything served at one address is on one page."""

import threading
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from skytide.errors.checks import refused
from skytide.watch.snapshots import Subject
from skytide.watch.watch import Watch

if TYPE_CHECKING:
    from skytide.watch.exporter import Exporter
    from skytide.watch.server import Page

_lock = threading.Lock()
_watch: Watch | None = None
_pages: list["Page"] = []
_exporters: list["Exporter"] = []


def serve(subjects: Sequence[Subject], address: str = "127.0.0.1", port: int | None = None, token: str | None = None) -> "Page":
    """Show subjects on a page, and return it: the one that is already served at that address, if it has that port or no port is given."""
    from skytide.watch.server import Page

    with _lock:
        watch = _the_watch()
        _pages[:] = [page for page in _pages if page.is_up]
        page = next((other for other in _pages if other.address == address and port in (None, other.port)), None)
        if page is None:
            page = Page(watch, address, port, token)
            _pages.append(page)
        elif token is not None and not page.has_token(token):
            raise refused("token", "...", f"the page at {address}:{page.port} has another", "choose another port, or leave it out")
    for subject in subjects:
        watch.add(subject)
    return page


def export(subjects: Sequence[Subject], port: int, address: str = "127.0.0.1") -> "Exporter":
    """Let Prometheus read about subjects, together with those already exported at that address and port; return the exporter."""
    from skytide.watch.exporter import Exporter

    with _lock:
        watch = _the_watch()
        _exporters[:] = [other for other in _exporters if other.is_up]
        exporter = next((other for other in _exporters if (other.address, other.port) == (address, port)), None)
        if exporter is None:
            exporter = Exporter(watch, port, address)
            _exporters.append(exporter)
    for subject in subjects:
        watch.add(subject)
    return exporter


def check_installed(*, page: bool, metrics: bool) -> None:
    """Raise now if what a page or metrics need is not installed."""
    for wanted, module in ((page, "server"), (metrics, "exporter")):
        if wanted:
            import_module(f"skytide.watch.{module}")


def _the_watch() -> Watch:
    global _watch  # noqa: PLW0603 (one for the process, as its ports are)
    if _watch is None:
        _watch = Watch()
        _watch.start()
    return _watch
