"""What tasks report: how long they took, and what could not be read, which is kept if somebody wants to see it."""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.folder import folder_of
from skytide.spark.fleet.feeds import Range, Records

FOLDER = "reports"
BROKEN = "broken"
BROKEN_WORK = 32
"""A record that cannot be read is about as much work as this many others: it has to be found among them."""

Counts = Counter[str]
"""How often something was odd, by reason."""


class Wait(NamedTuple):
    """The stream that windows wait for, and how far it is behind the newest tuple, by the times of tuples."""

    stream: str
    behind_s: float


@dataclass(frozen=True)
class Report:
    """What one task did."""

    sequence: int
    split: int
    work: tuple[int, ...]
    """How many tuples it read of each range; a broken record counts as several."""
    busy_s: float
    odd: Counts
    wait: Wait | None = None
    skipped: tuple[int, ...] = ()
    """Which ranges it could not read to their end: the work says nothing about them."""

    @staticmethod
    def from_json(values: Any) -> "Report":
        """Return a report that was read."""
        sequence, split, work, busy_s, odd, wait, skipped = values
        return Report(sequence, split, tuple(work), busy_s, Counter(odd), wait and Wait(*wait), tuple(skipped))


class Reporter:
    """Reports for one task, under the name of its batch and split, so that a repeated task counts once."""

    def __init__(
        self, ranges: Sequence[Range], sequence: int, split: int, reports: Files | None, invalid: Files | None, number: int
    ) -> None:
        """Write to these folders, if there are any; what cannot be read, under the number of the query's batch."""
        self._ranges, self._sequence, self._split = ranges, sequence, split
        self._reports, self._invalid, self._number = reports, invalid, number
        self._work = np.zeros(len(ranges), np.int64)
        self._odd: Counts = Counter()
        self._skipped: set[str] = set()
        self._kept: list[str] = []

    def add(self, records: Records) -> None:
        """Count what was read."""
        self._work += np.bincount(records.ranges, minlength=len(self._work))
        self._odd.update(loss.reason for loss in records.skipped)
        self._skipped.update(loss.stream for loss in records.skipped)
        for broken in records.broken:
            self._odd[BROKEN] += 1
            self._work[broken.part] += BROKEN_WORK
            if self._invalid is not None:
                stream = self._ranges[broken.part].stream
                self._kept.append(json.dumps({"stream": stream, "reason": broken.reason, "record": broken.record}))

    def write(self, busy_s: float, wait: Wait | None = None) -> None:
        """Write the report, and the records that could not be read."""
        if self._invalid is not None and self._kept:
            folder = folder_of(self._number)
            self._invalid.put(f"{folder}/part-{self._split:05}.jsonl", ("\n".join(self._kept) + "\n").encode())
            self._invalid.settle([folder])
        if self._reports is not None:
            name = f"{self._sequence:012}-{self._split}"
            skipped = [number for number, wanted in enumerate(self._ranges) if wanted.stream in self._skipped]
            report = [self._sequence, self._split, self._work.tolist(), busy_s, self._odd, wait, skipped]
            self._reports.put(f"{FOLDER}/{name}.json", json.dumps(report).encode(), durable=False)


class Inbox:
    """Reads reports on the driver. Those of a batch stay until the next one is logged, together with what they say: so none is lost, and none counts twice."""

    def __init__(self, reports: Files) -> None:
        """Read from a folder."""
        self._reports = reports
        self._read: dict[str, Report] = {}

    def of(self, sequence: int) -> tuple[list[Report], list[Report]]:
        """Return the reports of a batch, and those of them that are new; those of other batches are removed."""
        before = set(self._read)
        for name in self._reports.names(FOLDER):
            if name in self._read and self._read[name].sequence == sequence:
                continue
            data = self._reports.read_if_there(name) if f"/{sequence:012}-" in name else None
            if data is None:
                self._reports.delete(name)
                continue
            with suppress(ValueError):  # of an older version: what it says is not known any more
                self._read[name] = Report.from_json(json.loads(data))
        self._read = {name: report for name, report in self._read.items() if report.sequence == sequence}
        return list(self._read.values()), [report for name, report in self._read.items() if name not in before]
