"""Executors of a real cluster: more are requested, some may go gracefully, and none is lost sight of.

They belong to the application, not to a query: if several queries are scaled, the one that needs the most decides.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable

from skytide.records import Allocation, Outcome
from skytide.spark.scaling.gateway import Cluster, Executor
from skytide.spark.scaling.live import LiveQuery, Watched
from skytide.spark.scaling.slots import RunSlots
from skytide.spark.scaling.warm import warm_behind

FIRST_LEAD_S = 6.0  # from the request for an executor to its first finished task, until that has been measured
SMOOTHING = 0.3  # the weight of the latest lead time
LOAD_HALVES_S = 10.0  # after which half of what an executor did counts no more
DRAIN_S = 60.0  # that a decommissioned executor has to go, before it is killed
SHORT_AFTER = 3  # lead times after which an executor that did not come counts as refused
Tell = Callable[[str], None]


class Pool:
    """Keeps as many executors as were asked for last. Only `track` looks at what is there; in between, nothing changes."""

    def __init__(self, cluster: Cluster, warm: Callable[[Executor], None] | None = None) -> None:
        """Begin with what is there. `warm` is called with each executor that comes later."""
        self._cluster, self._warm = cluster, warm
        self.lock = threading.RLock()
        self.wishes: dict[object, int] = {}  # how many executors each query wants
        self.tells: dict[object, Tell] = {}  # whom each query tells what happens unexpectedly
        self.lead_s = FIRST_LEAD_S
        """How long it has taken lately from asking for an executor until it has done its first task."""
        self._leaving: dict[str, float] = {}  # since when
        self._load: dict[str, float] = {}  # what each did lately
        self._news: list[tuple[Tell, str]] = []  # what is still to be told, and whom
        self.begin()

    def begin(self) -> None:
        """Look at what is there, and forget what was asked for: while no query was scaled, nobody looked."""
        self._target: int | None = None
        self._present = {each.id: each for each in self._cluster.executors() if each.active}
        self._leaving = {name: since_s for name, since_s in self._leaving.items() if name in self._present}
        self._asked_s = 0.0  # when the latest request was made
        self._missing: deque[float] = deque()  # when each executor was asked for that has not come yet
        self._came: dict[str, float] = {}  # the ones without a finished task yet, and when they were asked for
        self._ceiling: int | None = None  # as many as the cluster gave, though more were asked for
        self._looked_s: float | None = None

    @property
    def is_changing(self) -> bool:
        """Whether something is under way that `track` should see soon."""
        return bool(self._leaving or self._came) or (self._target or 0) > self.size()

    def size(self) -> int:
        """Return how many executors are there and will stay."""
        return len(self._staying())

    @property
    def cores(self) -> int:
        """The cores of an executor."""
        return next((each.cores for each in self._present.values()), 1)

    def request(self, total: int, now_s: float) -> Outcome:
        """Ask for executors, or let some go: idle ones first, and never more than necessary."""
        self.track(now_s)
        staying, before = self._staying(), self.size() if self._target is None else self._target
        workers, refused = total, ""
        if self._ceiling is not None and workers > self._ceiling:
            workers = min(workers, max(self._ceiling, self._target or 0))
            refused = f", and not for {total}: the cluster gave only {self._ceiling}" if workers < total else ""
        if not self._cluster.request(workers):  # also before some go: otherwise the cluster manager would replace them
            return Outcome("refused", f"the cluster did not accept the request for {workers} executors{refused}")
        if workers > (self._target or 0):
            self._asked_s = now_s
        self._aim(workers, now_s)
        if workers == len(staying):
            return Outcome("kept" if workers == before else "done", f"{workers} executors stay{refused}")
        if workers > len(staying):
            text = f"asked for {workers - len(staying)} more executors: {workers} in all{refused}"
            return Outcome("asked" if workers != before else "kept" if self._ceiling is None else "limited", text)
        going = sorted(staying, key=self._preference)[: len(staying) - workers]
        leaving = [each.id for each in going if self._decommission(each, now_s)]
        if not leaving:
            return Outcome("refused", f"the cluster did not accept that {len(going)} of {len(staying)} executors may go")
        return Outcome("done", f"executor{'s' * (len(leaving) > 1)} {', '.join(leaving)} of {len(staying)} may go")

    def call_off(self, total: int) -> None:
        """Ask for no more than this many, or than are there: what did not come, and nobody wants any more, need not come."""
        total = max(total, self.size())
        if self._target is not None and self._target > total and self._cluster.request(total):
            self._aim(total, self._asked_s)

    def _aim(self, target: int, now_s: float) -> None:
        self._target, missing = target, target - self.size()
        while len(self._missing) > max(0, missing):
            self._missing.pop()
        while len(self._missing) < missing:
            self._missing.append(now_s)

    def news(self) -> list[tuple[Tell, str]]:
        """Return what has not been told yet, and whom to tell, once; not to be told while the lock is held."""
        news, self._news = self._news, []
        return news

    def track(self, now_s: float) -> None:
        """Find out which executors came, left, died, or are overdue."""
        kept = 0.5 ** (max(0.0, now_s - (now_s if self._looked_s is None else self._looked_s)) / LOAD_HALVES_S)
        self._looked_s = now_s
        listed = {each.id: each for each in self._cluster.executors()}
        before, self._present = self._present, {name: each for name, each in listed.items() if each.active}
        for name, each in self._present.items():
            did_s = each.busy_s - before[name].busy_s if name in before else 0.0
            self._load[name] = self._load.get(name, 0.0) * kept + did_s
        gone = [listed.get(name, before[name]) for name in before.keys() - self._present.keys()]
        self._after_leaving(gone, now_s)
        for name, each in self._present.items():
            if name not in before:
                self._after_joining(each)
            if name in self._came and each.finished_tasks:
                took_s = max(0.0, now_s - self._came.pop(name))
                took_s = min(
                    took_s, SHORT_AFTER * self.lead_s
                )  # one that came even later had been refused at first, and did not take that long
                self.lead_s += SMOOTHING * (took_s - self.lead_s)
        for name in list(self._leaving):
            self._remove(name, now_s)
        self._judge(now_s)

    def _after_joining(self, executor: Executor) -> None:
        if self._target is not None:
            self._came[executor.id] = self._missing.popleft() if self._missing else self._asked_s
        if self._warm:
            self._warm(executor)

    def _after_leaving(self, gone: list[Executor], now_s: float) -> None:
        died = [each for each in gone if self._leaving.pop(each.id, None) is None]
        for each in gone:
            self._came.pop(each.id, None)
            self._load.pop(each.id, None)
        for each in died:
            self._tell(f"executor {each.id} is gone unexpectedly: {each.why_gone or 'no reason was given'}")
        if died and self._target is not None:
            self._missing.extend([now_s] * len(died))
            self._asked_s = now_s
            self._cluster.request(self._target)  # most cluster managers replace it anyway

    def _decommission(self, executor: Executor, now_s: float) -> bool:
        """Ask an executor to go, and return whether the request was accepted: only such an executor is ever killed."""
        if not self._cluster.decommission(executor.id):
            return False
        self._leaving[executor.id] = now_s
        self._came.pop(executor.id, None)
        return True

    def _remove(self, name: str, now_s: float) -> None:
        """Look after an executor that was asked to go."""
        if not self._cluster.drains and not self._present[name].active_tasks:
            self._cluster.decommission(name)
        if now_s - self._leaving[name] > DRAIN_S:
            self._tell(f"executor {name} still works {now_s - self._leaving[name]:.0f} s after it was asked to go: it is killed")
            self._leaving[name] = now_s  # if that does not work either, it is tried again
            self._cluster.kill(name)

    def _judge(self, now_s: float) -> None:
        """Notice that the cluster gives fewer executors than asked for, or that it gives them after all."""
        staying = self.size()
        missing = (self._target or 0) - staying
        if missing <= 0:
            if self._ceiling is not None and staying > self._ceiling:
                self._tell(f"the cluster now gives all {staying} executors that were asked for")
            self._ceiling = None
        elif now_s - self._asked_s > SHORT_AFTER * self.lead_s and self._ceiling != staying:
            self._ceiling = staying
            self._tell(f"the cluster gives {staying} of the {self._target} executors asked for; the request stands")

    def _tell(self, text: str) -> None:
        self._news += [(tell, text) for tell in self.tells.values()]

    def _staying(self) -> list[Executor]:
        return [each for name, each in self._present.items() if name not in self._leaving]

    def _preference(self, executor: Executor) -> tuple[bool, float, float]:
        """Return the order in which executors may go: idle ones first, then those that did least lately; the youngest last."""
        return executor.active_tasks > 0, self._load.get(executor.id, 0.0), executor.added_s


class Share(Watched):
    """The plant of one query on a pool of executors.

    Both levels of a skytide query use all executors, one after the other: its pane slots follow them.
    """

    what = "executors"

    def __init__(self, live: LiveQuery, pool: Pool, tell: Tell, slots: RunSlots | None = None) -> None:
        """Join the other queries."""
        super().__init__(live)
        self._pool, self._slots = pool, slots
        with pool.lock:
            if not pool.wishes:
                pool.begin()
            self._followed = pool.size()
            pool.tells[self], pool.wishes[self] = tell, self._followed

    @property
    def lead_s(self) -> float:
        """The lead time of an executor, as measured."""
        return self._pool.lead_s

    @property
    def is_changing(self) -> bool:
        """Whether executors come or go."""
        return self._pool.is_changing

    def size(self) -> Allocation:
        """Return the executors of the application."""
        with self._pool.lock:
            return Allocation(self._pool.size())

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Ask for executors, or let some go, unless another query needs more."""
        with self._pool.lock:
            self._pool.wishes[self] = wanted.workers
            most = max(self._pool.wishes.values())
            outcome = self._pool.request(most, now_s)
        self._after_a_look()
        if most == wanted.workers:
            return outcome
        return Outcome(outcome.kind, f"another query needs {most}: {outcome.text}")

    def keep(self, wanted: Allocation) -> None:
        """Note how many this query wants; what nobody wants any more, and did not come, is called off."""
        with self._pool.lock:
            self._pool.wishes[self] = wanted.workers
            self._pool.call_off(max(self._pool.wishes.values()))

    def track(self, now_s: float) -> None:
        """Look after executors that come and go."""
        with self._pool.lock:
            self._pool.track(now_s)
        self._after_a_look()

    def _after_a_look(self) -> None:
        """Let the slots follow the executors that are there, and tell people what happened."""
        with self._pool.lock:
            before, self._followed = self._followed, self._pool.size()
            cores, news = self._pool.cores, self._pool.news()
        if self._slots is not None and self._followed not in (before, 0):
            self._slots.resize(self._followed * cores, None)
        for tell, text in news:
            tell(text)

    def close(self) -> None:
        """Leave the other queries; executors stay until another query wants another number."""
        with self._pool.lock:
            self._pool.wishes.pop(self, None)
            self._pool.tells.pop(self, None)
        super().close()


_pools: "weakref.WeakValueDictionary[str, Pool]" = weakref.WeakValueDictionary()  # of each application
_pools_lock = threading.Lock()


def pool_of(live: LiveQuery, *, warm: bool) -> Pool:
    """Return the executors of a query's application; `warm`: new ones get a first task before the query's."""
    with _pools_lock:
        name = str(live.spark.sparkContext.applicationId)
        pool = _pools.get(name)
        if pool is None:
            spark = live.spark
            pool = _pools[name] = Pool(live.cluster, (lambda executor: warm_behind(spark, executor)) if warm else None)
        return pool
