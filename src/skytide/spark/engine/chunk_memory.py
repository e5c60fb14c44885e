"""The chunks that a worker has in memory, so that it need not read them again.

A worker serves many queries, and nobody tells it that one has ended. So it forgets those that it has done nothing for during a while; a
query that comes back reads its chunks again.
"""

import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from skytide.keyed import Chunk

KEPT_S = 60.0
"""How long the chunks of a query stay after its latest task."""


@dataclass
class ChunkMemory:
    """Chunks by the checkpoint of their query, and by file."""

    clock_s: Callable[[], float] = time.monotonic
    queries: dict[str, dict[str, Chunk]] = field(default_factory=dict)
    _used_s: dict[str, float] = field(default_factory=dict)

    def of(self, query: str, needed: Set[str]) -> dict[str, Chunk]:
        """Return the chunks of a query, to which others may be added, and forget those of its files that are not needed any more."""
        self._used_s[query] = self.clock_s()
        self.forget_ended()
        mine = self.queries.setdefault(query, {})
        for file in mine.keys() - needed:
            del mine[file]
        return mine

    def forget_ended(self) -> None:
        """Forget queries that have had no task for a while."""
        now_s = self.clock_s()
        for query in [query for query, used_s in self._used_s.items() if now_s - used_s > KEPT_S]:
            del self._used_s[query]
            self.queries.pop(query, None)


memory = ChunkMemory()
"""What this process has."""
