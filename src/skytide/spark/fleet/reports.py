"""What tasks report: how long they took, and what could not be read, which is kept if somebody wants to see it."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skytide.spark.checkpoint import Files
from skytide.spark.fleet.feeds import Range, Records

FOLDER = "reports"
BROKEN = "broken"
REMEMBERED = 1_000  # reports, so that each counts once

Counts = Counter[tuple[str, str]]
"""How often something was odd, by stream and reason."""


@dataclass(frozen=True)
class Report:
    """What one task did."""

    sequence: int
    split: int
    tuples: int
    busy_s: float
    odd: Counts


class Reporter:
    """Reports for one task, under the name of its batch and split, so that a repeated task counts once."""

    def __init__(self, ranges: Sequence[Range], sequence: int, split: int, reports: Files | None, invalid: Files | None) -> None:
        """Write to these folders, if there are any."""
        self._ranges, self._sequence, self._split = ranges, sequence, split
        self._reports, self._invalid = reports, invalid
        self._tuples = 0
        self._odd: Counts = Counter()
        self._kept: list[str] = []

    def add(self, records: Records) -> None:
        """Count what was read."""
        self._tuples += records.rows.num_rows
        self._odd.update((each.stream, each.reason) for each in records.skipped)
        for broken in records.broken:
            stream = self._ranges[broken.part].stream
            self._odd[stream, BROKEN] += 1
            if self._invalid is not None:
                self._kept.append(json.dumps({"stream": stream, "reason": broken.reason, "record": broken.record}))

    def write(self, busy_s: float) -> None:
        """Write the report, and the records that could not be read."""
        name = f"{self._sequence:012}-{self._split}"
        if self._invalid is not None and self._kept:
            self._invalid.put(f"{name}.jsonl", ("\n".join(self._kept) + "\n").encode())
        if self._reports is not None:
            odd = [[stream, reason, count] for (stream, reason), count in self._odd.items()]
            report = [self._sequence, self._split, self._tuples, busy_s, odd]
            self._reports.put(f"{FOLDER}/{name}.json", json.dumps(report).encode(), durable=False)


class Inbox:
    """Reads reports on the driver, each once."""

    def __init__(self, reports: Files) -> None:
        """Read from a folder."""
        self._reports = reports
        self._read: dict[str, None] = {}

    def new(self) -> list[Report]:
        """Return the reports that have come since the last call."""
        found = []
        for name in self._reports.names(FOLDER):
            data = self._reports.read_if_there(name)
            self._reports.delete(name)
            if data is not None and name not in self._read:
                self._read[name] = None
                sequence, split, tuples, busy_s, odd = json.loads(data)
                found.append(Report(sequence, split, tuples, busy_s, Counter({(stream, why): n for stream, why, n in odd})))
        while len(self._read) > REMEMBERED:
            del self._read[next(iter(self._read))]
        return found
