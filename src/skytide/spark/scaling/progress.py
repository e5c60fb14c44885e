"""From the progress of any streaming query to what a controller needs to know. No Spark here: progress is its JSON.

A batch takes D = F + A seconds. A is the time of its tasks over how many run at once, in waves; F is the rest: planning, logs, the sink,
waiting for the slowest task. What follows from that is in `skytide.control.models.micro_batch`, for any number of workers. What is
observed is its utilisation with the present ones, for the interval that was asked for: a query that falls behind takes in more with every
batch, until batches take as long as what came during them, and would look just full if that were compared.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import fmean, pstdev
from typing import Any

from skytide.control.models.micro_batch import left_share, time_left, utilisation
from skytide.records import Allocation, MicroBatch, Observation

OVERDUE = 2.0  # intervals or usual batches after which a batch counts as longer than before
MAX_GROWTH = 2.0  # of utilisation that an unfinished batch can show


@dataclass(frozen=True)
class State:
    """What the stateful operators of a query have at the end of a batch, all together."""

    partitions: int
    """The tasks of each operator: the state is divided into so many parts, from the first start of the query on."""
    rows: float
    size_bytes: float
    """As much memory as they use."""

    @staticmethod
    def read(operators: Any) -> "State | None":
        """Return the state in a progress report; None if there is none, or it is not as expected.

        >>> State.read([{"numShufflePartitions": 8, "numRowsTotal": 30, "memoryUsedBytes": 4_000}] * 2)
        State(partitions=8, rows=60.0, size_bytes=8000.0)
        """
        try:
            return State(
                partitions=max(int(operator["numShufflePartitions"]) for operator in operators),
                rows=float(sum(operator["numRowsTotal"] for operator in operators)),
                size_bytes=float(sum(operator["memoryUsedBytes"] for operator in operators)),
            )
        except (KeyError, TypeError, ValueError):
            return None

    def width(self, tasks: int) -> int:
        """Return how many of all tasks of a batch can run at once, at most: those of an operator wait for those before it.

        >>> State(partitions=8, rows=0.0, size_bytes=0.0).width(12)
        8
        """
        return max(self.partitions, tasks - self.partitions)


@dataclass(frozen=True)
class Batch:
    """A batch that has ended."""

    run: str
    """The run of the query: a query that is started again has another one, and may count from any number."""
    number: int
    start_s: float
    duration_s: float
    work_s: float
    """The part of the duration with jobs."""
    rows: float
    behind: float | None
    """How many batches as large as this one wait at its end, as far as the sources know."""
    state: State | None = None
    busy_s: float | None = None
    """The time of its own tasks, added up; None: not known."""
    others_s: float = 0.0
    """The time of tasks of others meanwhile."""

    @property
    def end_s(self) -> float:
        """When it ended."""
        return self.start_s + self.duration_s

    @property
    def backlog(self) -> float | None:
        """The tuples that wait."""
        return None if self.behind is None else self.behind * self.rows

    @staticmethod
    def read(progress: Mapping[str, Any]) -> "Batch | None":
        """Return the batch of a progress report; None if the report is not as expected."""
        try:
            took = progress["durationMs"]
            return Batch(
                run=str(progress["runId"]),
                number=int(progress["batchId"]),
                start_s=datetime.fromisoformat(progress["timestamp"]).timestamp(),
                duration_s=float(took["triggerExecution"]) / 1e3,
                work_s=float(took.get("addBatch", 0)) / 1e3,
                rows=float(progress["numInputRows"]),
                behind=_behind(progress.get("sources", [])),
                state=State.read(progress.get("stateOperators")),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


class Dating:
    """Dates the batches of a run by a clock that passes evenly. Spark's own times are those of the machine's clock, which may be set meanwhile."""

    def __init__(self) -> None:
        """Begin without a batch."""
        self._ended_s: float | None = None

    def dated(self, batch: Batch, *, heard_s: float, ahead_s: float) -> Batch:
        """Return a batch with steady times; `heard_s`: when its report came, `ahead_s`: how far the steady clock was ahead of the machine's then.

        If the clock was set during the batch, it ended at the latest when that was heard, and began at the earliest when the one before ended.

        >>> dating = Dating()
        >>> first = dating.dated(Batch("run", 0, 100.0, 0.5, 0.4, 10, 0.0), heard_s=1_100.6, ahead_s=1_000.0)
        >>> second = dating.dated(Batch("run", 1, 91.1, 0.5, 0.4, 10, 0.0), heard_s=1_101.6, ahead_s=1_010.0)  # set back by 10 s
        >>> first.start_s, round(second.start_s, 3)
        (1100.0, 1101.1)
        """
        earliest_s = float("-inf") if self._ended_s is None else self._ended_s
        end_s = max(min(batch.end_s + ahead_s, heard_s), earliest_s)
        start_s = max(end_s - batch.duration_s, earliest_s)
        self._ended_s = end_s
        return replace(batch, start_s=start_s, duration_s=end_s - start_s, work_s=min(batch.work_s, end_s - start_s))


@dataclass(frozen=True)
class Means:
    """What a query worked with while its batches ran."""

    allocation: Allocation
    workers: float
    """The mean number of workers."""
    busy_share: float = 1.0
    """The share of the time with jobs in which executors work: their busy seconds over those of all tasks that could run."""
    loads: tuple[tuple[str, float], ...] = ()
    cores: float = 1.0
    """Tasks that a worker runs at once."""
    tasks: int | None = None
    """How many tasks of a batch can run at once, if that is known."""


def measure(
    batches: Sequence[Batch],
    before: Batch | None,
    means: Means,
    *,
    trigger_s: float | None,
    now_s: float,
    interval_s: float | None = None,
) -> Observation | None:
    """Return what batches show; `before` is the one before the first. None if they show nothing.

    The tuples of a batch came since the start of the batch before. So a batch without one before it does not count. `interval_s` is the
    time since the last observation (default: the time of the batches).
    """
    if not batches:
        return None
    batches = [batch for batch in batches if batch.run == batches[-1].run]  # a query that was started again begins anew
    if before is None or before.run != batches[0].run or before.number >= batches[0].number:
        before, batches = batches[0], batches[1:]
    if not batches or batches[-1].start_s <= before.start_s or batches[-1].end_s <= before.end_s:
        return None
    last = batches[-1]
    elapsed_s, tuples = last.end_s - before.end_s, sum(batch.rows for batch in batches)
    waiting, waited = last.backlog, before.backlog
    if waiting and waited is not None:  # not all that came was taken in
        arrival_hz = max(0.0, tuples + waiting - waited) / elapsed_s
    else:
        arrival_hz = tuples / (last.start_s - before.start_s)
    usual, lasted_s = _usual(batches, means, trigger_s), fmean(batch.duration_s for batch in batches)
    used = float(utilisation(usual, arrival_hz, means.workers))
    wait_s = (last.start_s - before.start_s) / len(batches) / 2
    if waiting and tuples:
        wait_s = max(wait_s, waiting * elapsed_s / tuples)
    return Observation(
        at_s=now_s,
        interval_s=interval_s or elapsed_s,
        allocation=means.allocation,
        arrival_rate_hz=arrival_hz,
        processed_rate_hz=tuples / elapsed_s,
        utilisation=used,
        service_s=usual.work_s / usual.rows / time_left(usual) / means.cores if tuples else None,
        backlog=waiting or 0.0,
        latency_s=wait_s + lasted_s if tuples else None,
        loads=means.loads,
        batch=usual if tuples else None,
    )


def _usual(batches: Sequence[Batch], means: Means, trigger_s: float | None) -> MicroBatch:
    """Return the mean of batches, with their time divided into that of tasks and the rest."""
    rows, lasted_s = fmean(batch.rows for batch in batches), [batch.duration_s for batch in batches]
    at_once = means.workers * means.cores
    known = [batch for batch in batches if batch.busy_s is not None]
    others_s = fmean(batch.others_s for batch in known) / at_once if known else 0.0
    jobs_s = fmean(batch.work_s for batch in batches)
    work_s = fmean(batch.busy_s or 0.0 for batch in known) if known else jobs_s * means.busy_share * at_once
    usual = MicroBatch(rows, 0.0, work_s, trigger_s, means.tasks, means.cores, pstdev(lasted_s))
    taken_s = work_s * float(left_share(usual, means.workers))
    return replace(usual, fixed_s=max(0.0, fmean(lasted_s) - taken_s - others_s))


def overdue(
    latest: Observation, means: Means, *, lasted_s: float, usual_s: float, interval_s: float, now_s: float
) -> Observation | None:
    """Return what a batch that does not end shows; None as long as it may still be like those before.

    Each batch works on what came during the one before. So if it lasts twice as long, twice as much came in as could be served; how
    much it was is known only at its end. The assumption is that more tuples came, not that a tuple costs more.
    """
    if lasted_s <= OVERDUE * max(usual_s, interval_s):
        return None
    growth = min(lasted_s / usual_s, MAX_GROWTH)
    if growth <= latest.utilisation:
        return None
    served_hz = means.workers / latest.service_s if latest.service_s else latest.processed_rate_hz
    return replace(
        latest,
        at_s=now_s,
        interval_s=interval_s,
        allocation=means.allocation,
        arrival_rate_hz=growth * served_hz,
        processed_rate_hz=served_hz,
        utilisation=growth,
        latency_s=max(latest.latency_s or 0.0, lasted_s),
        loads=means.loads,
    )


def idle(means: Means, *, interval_s: float, now_s: float) -> Observation:
    """Return the observation of an interval in which nothing came."""
    return Observation(now_s, interval_s, means.allocation, 0.0, 0.0, utilisation=0.0, loads=means.loads)


def _behind(sources: Sequence[Mapping[str, Any]]) -> float | None:
    """Return how many batches like this one wait, if all sources show it.

    Each source has offsets of its own: rows, seconds, files. What waits is assumed to have as many rows per step of the offset as the batch.
    """
    rows = waiting = 0.0
    for source in sources:
        taken, latest = advance(source.get("startOffset"), source.get("endOffset")), source.get("latestOffset")
        missing = None if latest is None else advance(source.get("endOffset"), latest)
        if missing == 0:
            rows += source["numInputRows"]
        elif missing is not None and missing > 0 and taken is not None and taken > 0:
            rows += source["numInputRows"]
            waiting += source["numInputRows"] * missing / taken
        else:
            return None
    return waiting / rows if rows else 0.0 if sources else None


def advance(start: Any, end: Any) -> float | None:
    """Return by how much an offset moved, or None if that is not known.

    It is known if an offset is a number, has a count per partition (as in Kafka), or has one number that moves.

    >>> advance("25", "26"), advance('{"t": {"0": 5, "1": 7}}', '{"t": {"0": 9, "1": 7}}'), advance('{"n": 1, "ms": 5}', '{"n": 2, "ms": 9}')
    (1.0, 4.0, None)
    """
    first, last = _parsed(start), _parsed(end)
    if isinstance(first, int | float) and isinstance(last, int | float):
        return float(last - first)
    if not isinstance(first, dict) or not isinstance(last, dict):
        return None
    if _number(first.get("tuples")) and _number(last.get("tuples")):  # a fleet counts them itself
        return float(last["tuples"] - first["tuples"])
    if first.keys() != last.keys():
        return None
    if all(isinstance(value, dict) for value in (*first.values(), *last.values())):
        parts = [(first[topic], last[topic]) for topic in first]
        if any(old.keys() != new.keys() for old, new in parts):
            return None
        moved = [new[key] - old[key] for old, new in parts for key in old if _number(old[key]) and _number(new[key])]
        return float(sum(moved)) if len(moved) == sum(map(len, first.values())) else None
    changed = [key for key in first if first[key] != last[key]]
    if not changed:
        return 0.0
    old, new = first[changed[0]], last[changed[0]]
    return float(new - old) if len(changed) == 1 and _number(old) and _number(new) else None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parsed(offset: Any) -> Any:
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None
