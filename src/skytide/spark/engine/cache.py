"""What a process has in memory of files that it has read or written: a cache, never the truth.

Files never change, so what was read stays right, and a worker that lacks some reads it from the checkpoint. A worker serves many queries,
and nobody tells it that one has ended: so it forgets those that it has done nothing for during a while.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Set
from typing import Any, NamedTuple, TypeVar

from skytide.errors.checks import read_number, refused
from skytide.spark.checkpoint.files import sequence_of

CACHE_MB = "256"
"""What a process keeps, unless SKYTIDE_CACHE_MB says otherwise; files on a disk are read in place, and count only with what is copied of them."""
MAX_FILES = 512  # so many stay open
KEPT_S = 60.0
"""How long the files of a query stay after its latest task."""
Value = TypeVar("Value")


def bytes_of(megabytes: str) -> float:
    """Return the bytes that SKYTIDE_CACHE_MB stands for.

    >>> bytes_of("0.5"), bytes_of("lots")
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: SKYTIDE_CACHE_MB='lots': not a number; write one, for instance 0.5
    """
    number = read_number("SKYTIDE_CACHE_MB", megabytes)
    if not number >= 0:
        raise refused("SKYTIDE_CACHE_MB", megabytes, "not a size", "give a number of megabytes, 0 or more")
    return number * 2**20


class _Kept(NamedTuple):
    value: Any
    nbytes: int


class Cache:
    """What was read from files, by the checkpoint of their query and by name; the latest ones, as many as there is room for."""

    def __init__(self, max_bytes: float, max_files: int = MAX_FILES, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Keep at most so much."""
        self.clock_s = clock_s
        self._max_bytes, self._max_files = max_bytes, max_files
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._nbytes = 0
        self._used_s: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """How much is kept."""
        return self._nbytes

    def queries(self) -> list[str]:
        """Return the checkpoints of which something is kept."""
        with self._lock:
            return list(dict.fromkeys(query for query, _ in self._kept))

    def find(self, query: str, name: str) -> Any:
        """Return what is kept of a file, or None."""
        with self._lock:
            kept = self._kept.get((query, name))
            if kept is None:
                return None
            self._kept.move_to_end((query, name))
            return kept.value

    def add(self, query: str, name: str, value: Any, nbytes: int) -> None:
        """Keep what a file holds, which takes so many bytes of memory."""
        with self._lock:
            if (query, name) not in self._kept:
                self._kept[query, name] = _Kept(value, nbytes)
                self._nbytes += nbytes
            while self._kept and (self._nbytes > self._max_bytes or len(self._kept) > self._max_files):
                self._nbytes -= self._kept.popitem(last=False)[1].nbytes

    def get(self, query: str, name: str, read: Callable[[], tuple[Value, int]]) -> Value:
        """Return what a file holds: what is kept, or what `read` returns with the bytes that it takes."""
        found: Value | None = self.find(query, name)
        if found is None:
            found, nbytes = read()
            self.add(query, name, found, nbytes)
        return found

    def keep_only(self, query: str, needed: Set[str] = frozenset(), *, since: int | None = None) -> None:
        """Forget the files of a query that are not needed any more: those that were removed take room as long as they are open.

        Those written from a batch on stay, if its number is given: another slot may have written them in this process just now.
        """

        def is_new(name: str) -> bool:
            return since is not None and (sequence_of(name) or 0) >= since

        with self._lock:
            self._used_s[query] = self.clock_s()
            self._forget(lambda owner, name: owner == query and name not in needed and not is_new(name))
        self.forget_ended()

    def forget_ended(self) -> None:
        """Forget queries that have had no task for a while."""
        with self._lock:
            now_s = self.clock_s()
            ended = {query for query, used_s in self._used_s.items() if now_s - used_s > KEPT_S}
            if ended:
                self._used_s = {query: used_s for query, used_s in self._used_s.items() if query not in ended}
                self._forget(lambda owner, _: owner in ended)

    def _forget(self, gone: Callable[[str, str], bool]) -> None:
        for key in [key for key in self._kept if gone(*key)]:
            self._nbytes -= self._kept.pop(key).nbytes


cache = Cache(bytes_of(os.environ.get("SKYTIDE_CACHE_MB") or CACHE_MB))
"""What this process has."""
