"""Looks at all subjects of this process now and then, and remembers what was seen: for pages and for metrics."""

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
REMEMBERED = 600  # updates that a page can ask for after it was away
VIEWS: dict[str, Any] = {"query": query_view, "scaler": scaler_view, "fleet": fleet_view}


class Watched:
    """One subject, and what was seen of it."""

    def __init__(self, subject: Subject) -> None:
        """Start with nothing."""
        self.subject = subject
        self.look: Any = None
        self.trail = Trail()
        self.latencies = Latencies()
        self.panel: Panel | None = None
        self.over = False

    def see(self) -> dict[str, Any] | None:
        """Look once more, and return what a page needs to know of it; None if it is as before."""
        view, before = VIEWS[self.subject.kind], self.look
        try:
            now = self.subject.look()
        except Exception as error:  # whatever it is: the page stays, and says so
            return self._lost(error)
        point = view.point(before, now) or view.idle_point(now, self.trail.latest)
        whole = point is not None and self.trail.add(point)
        panel = view.panel(now, self.trail)
        panel = replace(panel, actions=panel.actions or tuple(self.subject.actions))
        self.latencies.add(before, now)
        self.look, self.over = now, panel.over
        if point is None and panel == self.panel:
            return None
        self.panel = panel
        return self.told(whole, point)

    def told(self, whole: bool = True, point: Any = None) -> dict[str, Any]:
        """Return what a page needs: all points, or the one that is new."""
        subject = self.subject
        known = {"id": subject.id, "kind": subject.kind, "name": subject.name, "about": subject.about}
        shown = {**known, **(self.panel.to_json() if self.panel else {})}
        return shown | ({"trail": self.trail.columns()} if whole else {"point": point})

    def _lost(self, error: Exception) -> dict[str, Any] | None:
        if self.over:
            return None
        self.over = True
        verdict = Verdict(QUIET, "Ended", f"what is shown was seen last; it does not answer any more ({type(error).__name__})")
        self.panel = replace(self.panel, verdict=verdict, over=True, actions=()) if self.panel else Panel(verdict, over=True)
        return self.told(whole=False)


class Watch:
    """All subjects. A page that knows all up to some number asks for what came after."""

    def __init__(self) -> None:
        """Start without subjects; nothing is looked at before `start`."""
        self.born = secrets.token_hex(4)
        """Tells pages that know another process's numbers from those that know ours."""
        self._watched: dict[str, Watched] = {}
        self._updates: deque[tuple[int, str]] = deque(maxlen=REMEMBERED)
        self._number = 0
        self._lock = threading.Lock()
        self._heard: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def add(self, subject: Subject) -> None:
        """Look at a subject from now on; one with the id of an earlier one goes on with its points."""
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
        """Look no more; all that was seen stays."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def see(self) -> None:
        """Look at all that has not ended."""
        with self._lock:
            told = [news for watched in self._watched.values() if not watched.over and (news := watched.see())]
            for news in told:
                self._number += 1
                self._updates.append((self._number, json.dumps(news)))
        if told:
            for hear in list(self._heard):
                hear()

    def hear(self, called: Callable[[], None]) -> Callable[[], None]:
        """Call a function whenever there is something new; what is returned ends that."""
        self._heard.append(called)
        return lambda: self._heard.remove(called)

    def all(self) -> tuple[int, str]:
        """Return all that is known, and the number of the latest update in it."""
        with self._lock:
            return self._number, json.dumps([watched.told() for watched in self._watched.values()])

    def after(self, number: int) -> list[tuple[int, str]] | None:
        """Return the updates after a number, or None if they are not remembered any more."""
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
        """Ask something of a subject, and say whether it can be asked that."""
        with self._lock:
            known = self._watched.get(subject)
        asked = known.subject.actions.get(action) if known and not known.over else None
        if asked is None:
            return False
        asked()
        self.see()
        return True

    def _work(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                self.see()
            except Exception:  # it must not harm what is watched, and the next look comes
                logging.getLogger(__name__).exception("a look failed")
