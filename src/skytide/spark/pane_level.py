"""The pane level: tasks that turn tuples into partial results of panes, and report only what they did."""

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.lateness import Arrivals, observe
from skytide.queries import Query
from skytide.routing import Router, SlotUse
from skytide.spark.checkpoint import Files
from skytide.spark.tasks import Reducer
from skytide.windows import Windows

REPORT = pa.schema(
    [
        ("slot", pa.int64()),
        ("pane", pa.int64()),  # null in the row about the task as a whole
        ("tuples", pa.int64()),
        ("kept", pa.int64()),
        ("file", pa.string()),
        ("late", pa.int64()),
        ("newest_us", pa.int64()),
        ("longest_delay_us", pa.int64()),
        ("delays", pa.list_(pa.int64())),
        ("busy_s", pa.float64()),
        ("source_end", pa.int64()),
    ]
)
SLOT, LATE, SEEN = "__skytide_slot", "__skytide_late", "__skytide_seen"
ROUTED = pa.schema([(SLOT, pa.int32()), (LATE, pa.bool_()), (SEEN, pa.string())])
"""What a split task adds to tuples: their slot, and whether they are late; and to one empty row what it saw of arrivals."""

Piece = tuple[int | None, pa.RecordBatch]
"""Tuples in order of arrival, after a newest one that another task may have seen."""


@dataclass(frozen=True)
class PaneTask:
    """What one task of the pane level needs to know."""

    query: Query
    columns: pa.Schema
    time: str
    windows: Windows
    newest_us: int | None
    punctuation_us: int | None
    store: Files
    sequence: int
    late_wanted: bool = False

    def run(self, pieces: Iterable[Piece], slot: int, source_end: int = 0) -> Iterator[pa.RecordBatch]:
        """Reduce tuples pane by pane, write what is kept, and report."""
        work = _Work(self, slot)
        arrivals = Arrivals(newest_us=self.newest_us)
        for newest_us, batch in pieces:
            rows, times = self._rows(batch)
            before = max((known for known in (arrivals.newest_us, newest_us) if known is not None), default=None)
            arrivals += observe(times, before, self.punctuation_us)
            if self.punctuation_us is not None and len(times) and times.min() < self.punctuation_us:
                in_time = times >= self.punctuation_us
                work.late(rows.filter(pa.array(~in_time)))
                rows, times = rows.filter(pa.array(in_time)), times[in_time]
            work.add(rows, times)
        yield work.report(arrivals, source_end)

    def split(self, batches: Iterable[pa.RecordBatch], router: Router, part: int, share: float) -> Iterator[pa.RecordBatch]:
        """Give each tuple its slot by the plan of the driver's router, of whose threshold this task has a `share`.

        Slots are numbered from 0. Tasks of a batch begin with other slots, so that not all fill the first one at first.
        """
        arrivals = Arrivals(newest_us=self.newest_us)
        router.threshold, router.base_threshold = router.threshold * share, router.base_threshold * share
        queued = {(part + turn) % len(router.slots): turn for turn in range(len(router.slots))}
        for batch in batches:
            rows, times = self._rows(batch)
            arrivals += observe(times, arrivals.newest_us, self.punctuation_us)
            late = np.zeros(len(times), bool) if self.punctuation_us is None else times < self.punctuation_us
            slots = np.full(len(times), router.slots[0], np.int32)
            in_time = np.flatnonzero(~late)
            slots[in_time] = _slots(self.windows.pane_of(times[in_time]), router, queued)
            routed = rows.append_column(ROUTED.field(SLOT), pa.array(slots)).append_column(ROUTED.field(LATE), pa.array(late))
            yield from routed.append_column(ROUTED.field(SEEN), pa.nulls(len(times), pa.string())).to_batches()
        said = [pa.array([router.slots[0]], pa.int32()), pa.array([False]), pa.array([json.dumps(vars(arrivals))])]
        nothing = [pa.nulls(1, field.type) for field in self.columns]
        yield pa.RecordBatch.from_arrays([*nothing, *said], names=[*self.columns.names, *ROUTED.names])

    def run_routed(self, batches: Iterable[pa.RecordBatch], slot: int) -> Iterator[pa.RecordBatch]:
        """Reduce tuples that a split task sent here, and pass on what it saw."""
        work = _Work(self, slot)
        arrivals = Arrivals()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            seen = np.asarray(pc.is_valid(table[SEEN]))
            if seen.any():
                for text in table[SEEN].drop_null().to_pylist():
                    arrivals += _arrivals(**json.loads(text))
                table = table.filter(pa.array(~seen))
            late = np.asarray(table[LATE])
            rows = table.drop_columns(list(ROUTED.names)).cast(self.columns)
            if late.any():
                work.late(rows.filter(pa.array(late)))
                rows = rows.filter(pa.array(~late))
            work.add(rows, times_us(rows, self.time))
        yield work.report(arrivals)

    def _rows(self, batch: pa.RecordBatch) -> tuple[pa.Table, NDArray[np.int64]]:
        rows = pa.Table.from_batches([batch]).cast(self.columns)  # Spark writes its session's time zone into the type
        return rows, times_us(rows, self.time)


class _Work:
    """What a slot does with its tuples.

    Every attempt writes files of its own, so that one that was left behind by an earlier try of the batch harms nothing.
    """

    def __init__(self, task: PaneTask, slot: int) -> None:
        self._task, self._slot = task, slot
        self._began = time.perf_counter()
        self._panes: dict[int, Reducer] = {}
        self._late: list[pa.Table] = []

    def add(self, rows: pa.Table, times: NDArray[np.int64]) -> None:
        for pane, part in _split(rows, self._task.windows.pane_of(times)):
            self._panes.setdefault(pane, Reducer(self._task.query)).add(part)

    def late(self, rows: pa.Table) -> None:
        if self._task.late_wanted:
            self._late.append(rows)

    def report(self, arrivals: Arrivals, source_end: int = 0) -> pa.RecordBatch:
        store, sequence, attempt = self._task.store, self._task.sequence, uuid.uuid4().hex
        reports: list[dict[str, object]] = []
        for pane, reducer in sorted(self._panes.items()):
            name, kept = f"panes/{sequence}-{pane}-{attempt}.arrow", reducer.kept()
            store.write_table(name, kept)
            reports.append({"pane": pane, "tuples": reducer.tuples, "kept": kept.num_rows, "file": name})
        late_file = None
        if self._late:
            late_file = f"late/{sequence}-{attempt}.arrow"
            store.write_table(late_file, pa.concat_tables(self._late))
        whole = {
            **{name: getattr(arrivals, name) for name in ("tuples", "late", "newest_us", "longest_delay_us", "delays")},
            "file": late_file,
            "busy_s": time.perf_counter() - self._began,
            "source_end": source_end,
        }
        return pa.RecordBatch.from_pylist([{"slot": self._slot, **row} for row in (*reports, whole)], REPORT)


def _arrivals(**known: Any) -> Arrivals:
    return Arrivals(**{**known, "delays": tuple(known["delays"])})


def _slots(panes: NDArray[np.int64], router: Router, queued: dict[int, int]) -> NDArray[np.int32]:
    """Choose a slot for each tuple, in order of arrival within its pane."""
    slots = np.empty(len(panes), np.int32)
    if not len(panes):
        return slots
    order = np.argsort(panes, kind="stable")
    numbers, starts = np.unique(panes[order], return_index=True)
    for pane, places in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        given = router.route(pane, len(places), queued)
        slots[places] = np.repeat(np.array(list(given), np.int32), list(given.values()))
    return slots


def times_us(rows: pa.Table, time: str) -> NDArray[np.int64]:
    """Give the times of tuples in microseconds."""
    if rows[time].null_count:
        raise InvalidInput(
            value=f"NULL in the time column {time}",
            reason="a tuple without a time belongs to no window",
            remedy=f'filter such rows out before skytide.stream: df.where("{time} IS NOT NULL")',
        )
    return np.asarray(rows[time].cast(pa.int64()).to_numpy())


def by_pane(rows: pa.Table, time: str, windows: Windows) -> Iterator[tuple[int, pa.Table]]:
    """Divide rows by the pane they belong to."""
    yield from _split(rows, windows.pane_of(times_us(rows, time)))


@dataclass(frozen=True)
class PaneReport:
    """What all tasks of a batch reported together."""

    arrivals: Arrivals = field(default_factory=Arrivals)
    files: dict[int, tuple[str, ...]] = field(default_factory=dict)
    tuples: dict[int, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    """The rows of each file."""
    partitions: dict[tuple[int, int], int] = field(default_factory=dict)
    """The tuples of each pane and slot."""
    busy_s: dict[int, float] = field(default_factory=dict)
    """The time that each slot worked."""
    late_files: tuple[str, ...] = ()
    source_end: int = 0

    @staticmethod
    def read(reports: pa.Table) -> "PaneReport":
        """Put the reports of all tasks together."""
        whole = PaneReport()
        arrivals, source_end, late_files = Arrivals(), 0, []
        for row in reports.to_pylist():
            pane, slot = row["pane"], row["slot"]
            if pane is not None:
                whole.files[pane] = (*whole.files.get(pane, ()), row["file"])
                whole.kept[row["file"]] = row["kept"]
                whole.tuples[pane] = whole.tuples.get(pane, 0) + row["tuples"]
                whole.partitions[pane, slot] = whole.partitions.get((pane, slot), 0) + row["tuples"]
                continue
            arrivals += _arrivals(**{name: row[name] for name in ("tuples", "late", "newest_us", "longest_delay_us", "delays")})
            late_files += [row["file"]] if row["file"] else []
            whole.busy_s[slot] = whole.busy_s.get(slot, 0.0) + row["busy_s"]
            source_end = max(source_end, row["source_end"])
        return replace(whole, arrivals=arrivals, late_files=tuple(late_files), source_end=source_end)

    def uses(self, slots: Iterable[int]) -> list[SlotUse]:
        """Give what each slot did: in a batch all that was sent to a slot is done when it ends."""
        sent: dict[int, int] = {}
        for (_, slot), tuples in self.partitions.items():
            sent[slot] = sent.get(slot, 0) + tuples
        return [SlotUse(sent.get(slot, 0), sent.get(slot, 0), self.busy_s.get(slot, 0.0)) for slot in slots]


def _split(rows: pa.Table, panes: NDArray[np.int64]) -> Iterator[tuple[int, pa.Table]]:
    if len(panes) == 0:
        return
    if panes.min() == panes.max():
        yield int(panes[0]), rows
        return
    order = np.argsort(panes, kind="stable")
    rows = rows.take(pa.array(order))
    numbers, starts = np.unique(panes[order], return_index=True)
    ends = np.append(starts[1:], len(panes))
    for pane, start, end in zip(numbers.tolist(), starts.tolist(), ends.tolist(), strict=True):
        yield pane, rows.slice(start, end - start)
