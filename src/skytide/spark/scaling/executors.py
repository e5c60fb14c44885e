"""The actuator for executors of a real cluster: it requests more, and lets some go gracefully, without losing track of any."""

from collections.abc import Callable

from skytide.records import Allocation
from skytide.spark.scaling.gateway import Cluster, Executor

FIRST_LEAD_S = 6.0  # from the request for an executor to its first finished task, until that has been measured
SMOOTHING = 0.3  # the weight of the latest lead time
LOAD_KEPT = 0.5  # of the load at the look before
DRAIN_S = 60.0  # that a decommissioned executor has to go, before it is killed
SHORT_AFTER = 3  # lead times after which an executor that did not come counts as refused
Tell = Callable[[str], None]


class ClusterExecutors:
    """Keeps as many executors as were asked for last. Only `tend` looks at what is there; in between, nothing changes."""

    acts = True

    def __init__(self, cluster: Cluster, *, warm: Callable[[Executor], None] | None = None, tell: Tell = print) -> None:
        """Look at what is there. `warm` is called with each executor that comes later; `tell` with what happens unexpectedly."""
        self._cluster, self._warm, self._tell = cluster, warm, tell
        self._lead_s = FIRST_LEAD_S
        self._target: int | None = None
        self._asked_s = 0.0  # when the latest request was made
        self._present = {each.id: each for each in cluster.executors() if each.active}
        self._leaving: dict[str, float] = {}  # since when
        self._came: dict[str, float] = {}  # the ones without a finished task yet, and when they were asked for
        self._ceiling: int | None = None  # as many as the cluster gave, though more were asked for
        self._load: dict[str, float] = {}  # what each did lately

    @property
    def lead_s(self) -> float:
        """How long it has taken lately from asking for an executor until it has done its first task."""
        return self._lead_s

    @property
    def waits(self) -> bool:
        """Whether something is under way that `tend` should see soon."""
        return bool(self._leaving or self._came) or (self._target or 0) > len(self._staying())

    def current(self) -> Allocation:
        """Return the executors that are there and will stay."""
        return Allocation(len(self._staying()))

    @property
    def cores(self) -> int:
        """The cores of an executor."""
        return next((each.cores for each in self._present.values()), 1)

    def apply(self, wanted: Allocation, now_s: float) -> str:
        """Ask for executors, or let some go: idle ones first, and never more than necessary; return what was done."""
        self.tend(now_s)
        staying = self._staying()
        workers, refused = wanted.workers, ""
        if self._ceiling is not None and workers > self._ceiling:
            workers = min(workers, max(self._ceiling, self._target or 0))
            refused = f", and not for {wanted.workers}: the cluster gave only {self._ceiling}" if workers < wanted.workers else ""
        if workers > (self._target or 0):
            self._asked_s = now_s
        self._target = workers
        if not self._cluster.request(workers):  # also before some go: otherwise the cluster manager would replace them
            return f"the cluster did not accept the request for {workers} executors{refused}"
        if workers >= len(staying):
            more = workers - len(staying)
            return f"asked for {more} more executors: {workers} in all{refused}" if more else f"{workers} executors stay{refused}"
        going = sorted(staying, key=self._preference)[: len(staying) - workers]
        leaving = [each.id for each in going if self._decommission(each, now_s)]
        if not leaving:
            return f"the cluster did not accept that {len(going)} of {len(staying)} executors may go"
        return f"executor{'s' * (len(leaving) > 1)} {', '.join(leaving)} of {len(staying)} may go"

    def tend(self, now_s: float) -> None:
        """Find out which executors came, left, died, or are overdue."""
        listed = {each.id: each for each in self._cluster.executors()}
        before, self._present = self._present, {name: each for name, each in listed.items() if each.active}
        for name, each in self._present.items():
            did_s = each.busy_s - before[name].busy_s if name in before else 0.0
            self._load[name] = self._load.get(name, 0.0) * LOAD_KEPT + did_s
        gone = [listed.get(name, before[name]) for name in before.keys() - self._present.keys()]
        self._after_leaving(gone, now_s)
        for name, each in self._present.items():
            if name not in before:
                self._after_joining(each)
            if name in self._came and each.finished_tasks:
                took_s = max(0.0, now_s - self._came.pop(name))
                took_s = min(
                    took_s, SHORT_AFTER * self._lead_s
                )  # one that came even later had been refused at first, and did not take that long
                self._lead_s += SMOOTHING * (took_s - self._lead_s)
        for name in list(self._leaving):
            self._remove(name, now_s)
        self._judge(now_s)

    def _after_joining(self, executor: Executor) -> None:
        if self._target is not None:
            self._came[executor.id] = self._asked_s
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
        staying = len(self._staying())
        missing = (self._target or 0) - staying
        if missing <= 0:
            if self._ceiling is not None and staying > self._ceiling:
                self._tell(f"the cluster now gives all {staying} executors that were asked for")
            self._ceiling = None
        elif now_s - self._asked_s > SHORT_AFTER * self._lead_s and self._ceiling != staying:
            self._ceiling = staying
            self._tell(f"the cluster gives {staying} of the {self._target} executors asked for; the request stands")

    def _staying(self) -> list[Executor]:
        return [each for name, each in self._present.items() if name not in self._leaving]

    def _preference(self, executor: Executor) -> tuple[bool, float, float]:
        """Return the order in which executors may go: idle ones first, then those that did least lately; the youngest last."""
        return executor.active_tasks > 0, self._load.get(executor.id, 0.0), executor.added_s
