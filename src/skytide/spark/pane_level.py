"""The pane level: tasks that turn tuples into partial results of panes, and report only what they did."""

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.lateness import Arrivals, observe
from skytide.queries import Query
from skytide.spark.store import Store
from skytide.spark.tasks import Reducer

REPORT = pa.schema(
    [
        ("pane", pa.int64()),  # null in the row about the task as a whole
        ("tuples", pa.int64()),
        ("file", pa.string()),
        ("late", pa.int64()),
        ("newest_us", pa.int64()),
        ("longest_delay_us", pa.int64()),
        ("delays", pa.list_(pa.int64())),
        ("busy_s", pa.float64()),
        ("source_end", pa.int64()),
    ]
)


@dataclass(frozen=True)
class PaneTask:
    """What one task of the pane level needs to know."""

    query: Query
    columns: pa.Schema
    time: str
    pane_us: int
    newest_us: int | None
    punctuation_us: int | None
    store: Store
    sequence: int
    late_wanted: bool = False

    def run(self, batches: Iterable[pa.RecordBatch], source_end: int = 0) -> Iterator[pa.RecordBatch]:
        """Reduce tuples pane by pane, write what is kept, and report.

        Every attempt writes files of its own, so that one that was left behind by an earlier try of the batch harms nothing.
        """
        began = time.perf_counter()
        attempt = uuid.uuid4().hex
        panes: dict[int, Reducer] = {}
        late: list[pa.Table] = []
        arrivals = Arrivals(newest_us=self.newest_us)
        for batch in batches:
            rows = pa.Table.from_batches([batch]).cast(self.columns)  # Spark writes its session's time zone into the type
            times = times_us(rows, self.time)
            arrivals += observe(times, arrivals.newest_us, self.punctuation_us)
            if self.punctuation_us is not None and len(times) and times.min() < self.punctuation_us:
                in_time = times >= self.punctuation_us
                if self.late_wanted:
                    late.append(rows.filter(pa.array(~in_time)))
                rows, times = rows.filter(pa.array(in_time)), times[in_time]
            for pane, part_rows in _split(rows, times // self.pane_us):
                panes.setdefault(pane, Reducer(self.query)).add(part_rows)
        reports = []
        for pane, reducer in sorted(panes.items()):
            name = f"panes/{self.sequence}-{pane}-{attempt}.arrow"
            self.store.write_table(name, reducer.kept())
            reports.append({"pane": pane, "tuples": reducer.tuples, "file": name})
        late_file = None
        if late:
            late_file = f"late/{self.sequence}-{attempt}.arrow"
            self.store.write_table(late_file, pa.concat_tables(late))
        whole = {
            "tuples": arrivals.tuples,
            "late": arrivals.late,
            "file": late_file,
            "newest_us": arrivals.newest_us,
            "longest_delay_us": arrivals.longest_delay_us,
            "delays": arrivals.delays,
            "busy_s": time.perf_counter() - began,
            "source_end": source_end,
        }
        yield pa.RecordBatch.from_pylist([*reports, whole], REPORT)


def times_us(rows: pa.Table, time: str) -> NDArray[np.int64]:
    """Give the times of tuples in microseconds."""
    if rows[time].null_count:
        raise InvalidInput(
            value=f"NULL in the time column {time}",
            reason="a tuple without a time belongs to no window",
            remedy=f'filter such rows out before skytide.stream: df.where("{time} IS NOT NULL")',
        )
    return np.asarray(rows[time].cast(pa.int64()).to_numpy())


def by_pane(rows: pa.Table, time: str, pane_us: int) -> Iterator[tuple[int, pa.Table]]:
    """Divide rows by the pane they belong to."""
    yield from _split(rows, times_us(rows, time) // pane_us)


@dataclass(frozen=True)
class PaneReport:
    """What all tasks of a batch reported together."""

    arrivals: Arrivals = field(default_factory=Arrivals)
    files: dict[int, tuple[str, ...]] = field(default_factory=dict)
    tuples: dict[int, int] = field(default_factory=dict)
    late_files: tuple[str, ...] = ()
    busy_s: float = 0.0
    source_end: int = 0

    @staticmethod
    def read(reports: pa.Table) -> "PaneReport":
        """Put the reports of all tasks together."""
        arrivals = Arrivals()
        files: dict[int, tuple[str, ...]] = {}
        tuples: dict[int, int] = {}
        late_files: list[str] = []
        busy_s, source_end = 0.0, 0
        for row in reports.to_pylist():
            if row["pane"] is not None:
                files[row["pane"]] = (*files.get(row["pane"], ()), row["file"])
                tuples[row["pane"]] = tuples.get(row["pane"], 0) + row["tuples"]
                continue
            arrivals += Arrivals(row["tuples"], row["late"], row["newest_us"], row["longest_delay_us"], tuple(row["delays"]))
            late_files += [row["file"]] if row["file"] else []
            busy_s += row["busy_s"]
            source_end = max(source_end, row["source_end"])
        return PaneReport(arrivals, files, tuples, tuple(late_files), busy_s, source_end)


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
