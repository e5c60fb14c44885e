"""Looks at all subjects of this process regularly, and remembers what was seen, for pages and for metrics."""

import json
import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skytide.watch import fleet_view, query_view, scaler_view
from skytide.watch.latencies import Latencies
from skytide.watch.looks import Subject
from skytide.watch.panel import QUIET, Panel, Verdict
from skytide.watch.trail import Trail

EVERY_S = 0.5
REMEMBERED = 200  # updates that a page can ask for after it was away
VIEWS: dict[str, Any] = {"query": query_view, "scaler": scaler_view, "fleet": fleet_view}


class Watched:
    """One subject, and what was seen of it."""

    def __init__(self, subject: Subject) -> None:
        """Start before the first look."""
        self.subject = subject
        self.look: Any = None
        self._drawn: Any = None  # the look of the latest point: batches may take many looks
        self.trail = Trail()
        self.latencies = Latencies()
        self.panel: Panel | None = None
        self.over = False

    def take(self, now: Any) -> dict[str, Any] | None:
        """Take in a look, or the error that came in its place, and return the update for pages; None if nothing has changed."""
        if isinstance(now, Exception):
            return self._lost(now)
        view, before = VIEWS[self.subject.kind], self.look
        point = view.point(self._drawn, now)
        if point is not None or self._drawn is None:
            self._drawn = now
        point = point or view.idle_point(now, self.trail.latest)
        whole = point is not None and self.trail.add(point)
        panel = view.panel(now, self.trail)
        panel = replace(panel, actions=panel.actions or tuple(self.subject.actions))
        self.latencies.add(before, now)
        self.look, self.over = now, panel.over
        if point is None and panel == self.panel:
            return None
        self.panel = panel
        return self.update(whole, point)

    def update(self, whole: bool = True, point: Any = None) -> dict[str, Any]:
        """Return what a page needs: the panel with all points, or with the one that is new."""
        subject = self.subject
        known = {"id": subject.id, "kind": subject.kind, "name": subject.name, "about": subject.about}
        shown = {**known, **(self.panel.to_json() if self.panel else {})}
        return shown | ({"trail": self.trail.columns()} if whole else {"point": point})

    def _lost(self, error: Exception) -> dict[str, Any] | None:
        if self.over:
            return None
        self.over = True
        verdict = Verdict(QUIET, "Ended", f"it no longer answers; what is shown was seen last ({type(error).__name__})")
        self.panel = replace(self.panel, verdict=verdict, over=True, actions=()) if self.panel else Panel(verdict, over=True)
        return self.update(whole=False)


def _look(subject: Subject) -> Any:
    try:
        return subject.look()
    except Exception as error:  # whatever it is: the page stays, and says so
        return error


class Watch:
    """All subjects. A page that knows everything up to some number asks for what came after."""

    def __init__(self) -> None:
        """Start without subjects; nothing is looked at before `start`."""
        self.born = secrets.token_hex(4)
        """Distinguishes pages that know the numbers of an earlier process from those that know ours."""
        self._watched: dict[str, Watched] = {}
        self._updates: deque[tuple[int, str]] = deque(maxlen=REMEMBERED)
        self._number = 0
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._subscribers: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def add(self, subject: Subject) -> None:
        """Look at a subject from now on; one with the id of an earlier one continues its points."""
        with self._lock:
            known = self._watched.get(subject.id)
            watched = Watched(subject)
            if known is not None:
                watched.trail, watched.latencies = known.trail, known.latencies
            self._watched[subject.id] = watched
        self.see()

    def start(self) -> None:
        """Look twice a second, in a thread of its own."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="skytide-watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop looking; all that was seen stays."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def see(self) -> None:
        """Look at all subjects that have not ended; a slow look keeps no page waiting."""
        updates = 0
        with self._looking:
            for watched in self.watched():
                if watched.over:
                    continue
                now = _look(watched.subject)
                with self._lock:
                    news = watched.take(now)
                    if news is not None:
                        self._number, updates = self._number + 1, updates + 1
                        self._updates.append((self._number, json.dumps(news)))
        if updates:
            for notify in list(self._subscribers):
                notify()

    def subscribe(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call a function whenever there is something new; return what ends that."""
        self._subscribers.append(notify)
        return lambda: self._subscribers.remove(notify)

    def all(self) -> tuple[int, str]:
        """Return all that is known, and the number of the latest update in it."""
        with self._lock:
            return self._number, json.dumps([watched.update() for watched in self._watched.values()])

    def after(self, number: int) -> list[tuple[int, str]] | None:
        """Return the updates after a number, or None if they are no longer remembered."""
        with self._lock:
            first = self._updates[0][0] if self._updates else self._number + 1
            if not first - 1 <= number <= self._number:
                return None
            return [update for update in self._updates if update[0] > number]

    def watched(self) -> list[Watched]:
        """Return what was seen of all subjects."""
        with self._lock:
            return list(self._watched.values())

    def act(self, subject: str, action: str) -> bool:
        """Carry out an action of a subject, and return whether it has that action."""
        with self._lock:
            known = self._watched.get(subject)
        carry_out = known.subject.actions.get(action) if known and not known.over else None
        if carry_out is None:
            return False
        carry_out()
        self.see()
        return True

    def _work(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                self.see()
            except Exception:  # it must not harm what is watched; the next look may succeed
                logging.getLogger(__name__).exception("a look failed")
