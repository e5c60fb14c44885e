"""What Spark notes about a query: which tuples a batch has (`offsets`), which batches are done (`commits`), which files were read."""

import json
import re
from typing import Any

from skytide.errors import SkytideError
from skytide.spark.checkpoint.files import Files

_ENTRY = re.compile(r"\.?(\d+)(\.compact)?(?:\.\w+)*")

_DRAFT = re.compile(r"\.{1,2}\d+\.[0-9a-f-]{36}\.tmp(\.crc)?")


class SparkLogs:
    """Spark's notes below a folder. They are taken back only while no query runs."""

    def __init__(self, files: Files) -> None:
        """Use a folder."""
        self._files = files
        self._logs: dict[str, tuple[set[int], set[int]]] = {}
        """What is in the folders that were listed, until something is removed there."""

    def remove_drafts(self) -> None:
        """Remove what a killed driver was about to note: Spark refuses to begin if there is such a draft of its first note."""
        for folder in ("offsets", "commits"):
            for entry in self._files.entries(folder):
                if _DRAFT.fullmatch(entry.name):
                    self._files.delete(f"{folder}/{entry.name}")

    def back_to(self, batch: int) -> None:
        """Let Spark continue after a batch, as if no later one were done. The next one keeps its tuples, if Spark had chosen them."""
        self.check(batch)
        planned = self._planned(batch)
        ends = self._source_ends(planned)
        self._delete_after("commits", batch)
        self._delete_after("offsets", planned)
        for number, end in ends.items():
            self._delete_after(f"sources/{number}", end)

    def check(self, batch: int) -> None:
        """Refuse a batch after which Spark could not continue."""
        lost = [folder for folder in ("offsets", "commits") if batch >= 0 and batch not in self._numbers(folder)]
        if lost and (self._numbers("offsets") or self._numbers("commits")):
            raise SkytideError(
                f"{self._files.uri}/{lost[0]}: Spark no longer has a note of batch {batch}, so it cannot continue after it; "
                "go back to a later one (Spark keeps as many as spark.sql.streaming.minBatchesToRetain says), or start with another "
                "checkpoint folder"
            )
        for number, end in self._source_ends(self._planned(batch)).items():
            entries, compact = self._log(f"sources/{number}")
            start = max((each for each in compact if each <= end), default=0)
            if not set(range(start, end + 1)) <= entries:
                raise SkytideError(
                    f"{self._files.uri}/sources/{number}: Spark has merged its notes on files since (into a file .compact), and removed "
                    f"those up to {end} that are needed to go back that far; go back to a later state, or start with another checkpoint folder"
                )

    def offsets(self, batch: int) -> list[dict[str, Any]]:
        """Return where each source begins and ends that Spark continues with after a batch, as far as it is noted."""
        texts = [self._files.read_if_there(f"offsets/{number}") or b"" for number in (batch, batch + 1)]
        return [_offset(line) for text in texts for line in text.decode().splitlines()[2:]]

    def _planned(self, batch: int) -> int:
        """Return the last batch whose tuples Spark keeps when it goes back: the one that comes next, if it was chosen."""
        return batch + 1 if batch + 1 in self._numbers("offsets") else batch

    def _source_ends(self, batch: int) -> dict[int, int]:
        """Return the number of the last entry that a batch has read, for each source that keeps a log of files."""
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
        """Return the numbers of all entries, and of those that replace all before them."""
        if folder not in self._logs:
            entries = [match for name in self._files.names(folder) if (match := _ENTRY.fullmatch(name.rpartition("/")[2]))]
            self._logs[folder] = {int(match[1]) for match in entries}, {int(match[1]) for match in entries if match[2]}
        return self._logs[folder]

    def _delete_after(self, folder: str, last: int) -> None:
        """Remove later entries and their checksums, latest first: if that is cut off, the notes still fit together."""
        later = []
        self._logs.pop(folder, None)
        for entry in self._files.entries(folder):
            match = _ENTRY.fullmatch(entry.name)
            if match and int(match[1]) > last:
                later.append((int(match[1]), entry.name))
        for _, name in sorted(later, reverse=True):
            self._files.delete(f"{folder}/{name}")


def _offset(line: str) -> dict[str, Any]:
    try:
        offset = json.loads(line)
    except ValueError:
        return {}  # "-": the source had nothing yet
    return offset if isinstance(offset, dict) else {}
