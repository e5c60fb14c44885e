"""Takes snapshots of all subjects of this process, and remembers what was seen, for pages and for metrics."""

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skytide.watch import fleet_view, query_view, scaler_view
from skytide.watch.latencies import Latencies
from skytide.watch.panel import WARN, Panel, Verdict
from skytide.watch.snapshots import Subject
from skytide.watch.strict import to_json
from skytide.watch.trail import Trail

EVERY_S = 0.5
REMEMBERED = 200  # updates that a page can ask for after it was away
KEPT_OVER = 50  # subjects that have ended; the page forgets older ones
VIEWS: dict[str, Any] = {"query": query_view, "scaler": scaler_view, "fleet": fleet_view}
_log = logging.getLogger(__name__)


class Watched:
    """One subject, and what was seen of it."""

    def __init__(self, subject: Subject) -> None:
        """Start before the first snapshot."""
        self.subject = subject
        self.latest: Any = None
        """The latest snapshot that succeeded."""
        self._drawn: Any = None  # that of the latest point: there may be many during one batch
        self.trail = Trail()
        self.latencies = Latencies()
        self.panel: Panel | None = None
        self.over = False
        self._failure = ""

    def take(self, now: Any) -> dict[str, Any] | None:
        """Take in a snapshot, or the error that came in its place, and return the update for pages; None if nothing has changed."""
        if isinstance(now, Exception):
            return self._failed(now)
        self.latencies.add(self.latest, now)
        self.latest = now  # metrics are made of it, even if a page cannot show it
        try:
            return self._shown(now)
        except Exception as error:
            return self._failed(error)

    def update(self, whole: bool = True, point: Any = None) -> dict[str, Any]:
        """Return what a page needs: the panel with all points, or with the one that is new."""
        subject = self.subject
        about = {"id": subject.id, "kind": subject.kind, "name": subject.name, "about": subject.about}
        shown = {**about, **(self.panel.to_json() if self.panel else {})}
        return shown | ({"trail": self.trail.columns()} if whole else {"point": point})

    def _shown(self, now: Any) -> dict[str, Any] | None:
        view = VIEWS[self.subject.kind]
        point = view.point(self._drawn, now)
        if point is not None or self._drawn is None:
            self._drawn = now
        point = point or view.idle_point(now, self.trail.latest)
        whole = point is not None and self.trail.add(point)
        panel = view.panel(now, self.trail)
        panel = replace(panel, actions=panel.actions or tuple(self.subject.actions))
        self._failure = ""
        if panel.over:
            self._end()
        if point is None and panel == self.panel:
            return None
        self.panel = panel
        return self.update(whole, point)

    def _failed(self, error: Exception) -> dict[str, Any] | None:
        """Return the update for pages after a snapshot that failed, or cannot be shown; the next one may succeed."""
        failure = type(error).__name__
        if failure == self._failure:
            return None
        self._failure = failure
        _log.warning("%s %r cannot be shown now", self.subject.kind, self.subject.name, exc_info=error)
        verdict = Verdict(WARN, "Not seen now", f"what is shown was seen before ({failure}); the next snapshot may succeed")
        self.panel = replace(self.panel, verdict=verdict, actions=()) if self.panel else Panel(verdict)
        return self.update(whole=False)

    def _end(self) -> None:
        """Let go of what was watched, such as all rows of a sink in memory; what was seen stays."""
        self.over, self._drawn, last = True, None, self.latest
        self.subject = replace(self.subject, snapshot=lambda: last, actions={})


class Watch:
    """All subjects. A page that knows everything up to some number asks for what came after."""

    def __init__(self) -> None:
        """Start without subjects; no snapshot is taken before `start`."""
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
        """Watch a subject from now on; one with the id of an earlier one continues its points."""
        with self._lock:
            earlier = self._watched.get(subject.id)
            watched = Watched(subject)
            if earlier is not None:
                watched.trail, watched.latencies = earlier.trail, earlier.latencies
            self._watched[subject.id] = watched
        self.refresh()

    def start(self) -> None:
        """Take snapshots twice a second, in a thread of its own."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="skytide-watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop watching; all that was seen stays."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def refresh(self) -> None:
        """Take a snapshot of all subjects that have not ended; a slow one keeps no page waiting."""
        with self._looking:
            changed = [self._refresh(watched) for watched in self.watched() if not watched.over]
            changed.append(self._forget())
        if any(changed):
            for notify in list(self._subscribers):
                notify()

    def _refresh(self, watched: Watched) -> bool:
        """Take a snapshot of one subject, and return whether there is something new; what fails here concerns this subject only."""
        try:
            now = watched.subject.snapshot()
        except Exception as error:
            now = error
        with self._lock:
            update = watched.take(now)
            if update is not None:
                self._number += 1
                self._updates.append((self._number, to_json(update)))
        return update is not None

    def _forget(self) -> bool:
        """Forget what ended long ago, and return whether there was any; pages are told everything anew."""
        with self._lock:
            over = [id for id, watched in self._watched.items() if watched.over][:-KEPT_OVER]
            for id in over:
                del self._watched[id]
            if over:
                self._number += 1
                self._updates.clear()
            return bool(over)

    def subscribe(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call a function whenever there is something new; return what ends that."""
        self._subscribers.append(notify)
        return lambda: self._subscribers.remove(notify)

    def all(self) -> tuple[int, str]:
        """Return all that is known, and the number of the latest update in it."""
        with self._lock:
            return self._number, to_json([watched.update() for watched in self._watched.values()])

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
            watched = self._watched.get(subject)
        carry_out = watched.subject.actions.get(action) if watched and not watched.over else None
        if carry_out is None:
            return False
        carry_out()
        self.refresh()
        return True

    def _work(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                self.refresh()
            except Exception:  # it must not harm what is watched; the next snapshot may succeed
                _log.exception("a snapshot failed")
