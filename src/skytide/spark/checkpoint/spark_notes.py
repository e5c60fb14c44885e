"""What Spark notes of a query, beside our own: which tuples a batch has (`offsets`), which batches are done (`commits`), files read."""

import json
import re

from skytide.errors import SkytideError
from skytide.spark.checkpoint.files import Files

_ENTRY = re.compile(r"\.?(\d+)(\.compact)?(?:\.\w+)*")

_DRAFT = re.compile(r"\.{1,2}\d+\.[0-9a-f-]{36}\.tmp(\.crc)?")


class SparkNotes:
    """Spark's notes below a folder. They are taken back only while no query runs."""

    def __init__(self, files: Files) -> None:
        """Use a folder."""
        self._files = files

    def remove_drafts(self) -> None:
        """Remove what a killed driver was about to note: Spark refuses to begin where such a draft of its first note lies."""
        for folder in ("offsets", "commits"):
            for entry in self._files.entries(folder):
                if _DRAFT.fullmatch(entry.name):
                    self._files.delete(f"{folder}/{entry.name}")

    def back_to(self, batch: int) -> None:
        """Let Spark go on after a batch, as if no later one were done. The next one keeps its tuples, if Spark had chosen them."""
        planned = batch + 1 if batch + 1 in self._numbers("offsets") else batch
        ends = self._source_ends(planned)
        self._check(batch, ends)
        self._delete_after("commits", batch)
        self._delete_after("offsets", planned)
        for number, end in ends.items():
            self._delete_after(f"sources/{number}", end)

    def _check(self, batch: int, ends: dict[int, int]) -> None:
        """Refuse what Spark could not go on from."""
        lost = [folder for folder in ("offsets", "commits") if batch >= 0 and batch not in self._numbers(folder)]
        if lost and (self._numbers("offsets") or self._numbers("commits")):
            raise SkytideError(
                f"{self._files.uri}/{lost[0]}: Spark has no note of batch {batch} any more, so it cannot go on after it; "
                "go back to a later one (Spark keeps as many as spark.sql.streaming.minBatchesToRetain says)"
            )
        for number, end in ends.items():
            entries, compact = self._log(f"sources/{number}")
            start = max((each for each in compact if each <= end), default=0)
            if not set(range(start, end + 1)) <= entries:
                raise SkytideError(
                    f"{self._files.uri}/sources/{number}: Spark has put its notes on files together since (a file .compact), and removed "
                    f"those up to {end} that are needed to go back so far; go back to a later state"
                )

    def _source_ends(self, batch: int) -> dict[int, int]:
        """Return for each source that keeps a log of files the number of the last entry that a batch has read."""
        if batch < 0:
            return {int(e.name): -1 for e in self._files.entries("sources") if e.name.isdigit() and self._is_file_log(int(e.name))}
        text = self._files.read_if_there(f"offsets/{batch}") or b""
        offsets = [_offset(line) for line in text.decode().splitlines()[2:]]
        return {number: offset["logOffset"] for number, offset in enumerate(offsets) if "logOffset" in offset}

    def _is_file_log(self, number: int) -> bool:
        first = next((self._files.read_if_there(name) or b"" for name in self._files.names(f"sources/{number}")), b"")
        return b'"path"' in first

    def _numbers(self, folder: str) -> set[int]:
        return self._log(folder)[0]

    def _log(self, folder: str) -> tuple[set[int], set[int]]:
        """Return the numbers of all entries, and of those that stand for the ones before them too."""
        found = [match for name in self._files.names(folder) if (match := _ENTRY.fullmatch(name.rpartition("/")[2]))]
        return {int(match[1]) for match in found}, {int(match[1]) for match in found if match[2]}

    def _delete_after(self, folder: str, last: int) -> None:
        """Remove later entries and their checksums, the latest first: what is cut off leaves notes that fit together."""
        later = []
        for entry in self._files.entries(folder):
            match = _ENTRY.fullmatch(entry.name)
            if match and int(match[1]) > last:
                later.append((int(match[1]), entry.name))
        for _, name in sorted(later, reverse=True):
            self._files.delete(f"{folder}/{name}")


def _offset(line: str) -> dict[str, int]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}  # "-": the source had nothing yet
    return found if isinstance(found, dict) else {}
