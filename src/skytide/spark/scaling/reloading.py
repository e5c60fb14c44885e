"""What a change of size costs a query with state: parts of the state move to other executors, which have to load them from the checkpoint.

It shows in the first batches after executors have come or gone: they take longer than the model of a batch expects of that size. The
model may be wrong, too. So what it is wrong by for the batches that follow, when all is loaded, is taken off.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from skytide.control.models.micro_batch import left_share
from skytide.records import MicroBatch
from skytide.spark.scaling.gateway import Executor
from skytide.spark.scaling.progress import Batch

FIRST, NEXT = 3, 3  # batches after a change in which state is loaded; those after them, as a comparison
SMOOTHING = 0.5  # the weight of the latest change


@dataclass
class _Change:
    usual: MicroBatch
    """What batches were like before it."""
    since_s: float
    longer_s: list[float] = field(default_factory=list)
    """By how much each batch took longer than expected."""

    def cost_s(self) -> float:
        first, later = self.longer_s[:FIRST], self.longer_s[FIRST:]
        wrong_s = fmean(later) if later else 0.0
        return max(0.0, sum(first) - wrong_s * len(first))


class Reloading:
    """Measures how long state takes to be loaded again, from change to change."""

    def __init__(self) -> None:
        """Begin with no change seen."""
        self.reload_s: float | None = None
        """How much longer the first batches after a change take, all together; None: not measured yet."""
        self._change: _Change | None = None

    def see(
        self,
        batches: Sequence[Batch],
        usual: MicroBatch | None,
        before: Mapping[str, Executor],
        now: Mapping[str, Executor],
        looked_s: float,
    ) -> None:
        """Take in the batches since the last look, at `looked_s`, which the executors `before` and `now` may have worked on; `usual`: as it was until then."""
        there = {name: executor for name, executor in now.items() if executor.active}
        came = [executor.added_s for name, executor in there.items() if name not in before]
        left = any(executor.active and name not in there for name, executor in before.items())
        if came or left:
            self._end()
            if usual is not None and usual.rows > 0:
                self._change = _Change(usual, looked_s if left else min(came))
        if (change := self._change) is None or not there:
            return
        for batch in batches:
            if batch.start_s >= change.since_s and batch.rows > 0:
                workers = sum(name in before or executor.added_s <= batch.start_s for name, executor in there.items())
                change.longer_s.append(batch.duration_s - expected_s(change.usual, batch.rows, max(1, workers)))
        if len(change.longer_s) >= FIRST + NEXT:
            self._end()

    def _end(self) -> None:
        """Learn from the latest change, if it has been seen for long enough."""
        change, self._change = self._change, None
        if change is not None and len(change.longer_s) >= FIRST:
            change.longer_s = change.longer_s[: FIRST + NEXT]
            cost_s = change.cost_s()
            self.reload_s = cost_s if self.reload_s is None else self.reload_s + SMOOTHING * (cost_s - self.reload_s)


def expected_s(usual: MicroBatch, rows: float, workers: int) -> float:
    """Return how long a batch of so many rows should take.

    >>> expected_s(MicroBatch(900, 0.2, 1.8), 1_800, 2)
    2.0
    """
    return usual.fixed_s + usual.work_s * rows / usual.rows * float(left_share(usual, workers))
