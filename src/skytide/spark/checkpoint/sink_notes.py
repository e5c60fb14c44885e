"""Which sinks a query has written to, as its checkpoint notes it: whoever goes back has to know who has later results."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from skytide.spark.checkpoint.files import Files

SINKS = "sinks.json"


class SinkNote(NamedTuple):
    """A sink, without its options."""

    role: str
    """What it gets: results, late, windows, invalid or unread."""
    kind: str
    """A folder, a function, a format or a table."""
    uri: str = ""
    """Where a folder is."""

    def __str__(self) -> str:
        """Return the words for people.

        >>> print(SinkNote("late", "function"))
        late (function)
        """
        return f"{self.role} ({self.uri or self.kind})"


def note_sinks(files: Files, sinks: Iterable[SinkNote]) -> None:
    """Note sinks after those of earlier starts, which still have what they got."""
    before, now = noted_sinks(files) or [], list(dict.fromkeys(sinks))
    after = [*(sink for sink in before if sink not in now), *now]
    if after != before:
        files.put(SINKS, json.dumps([sink._asdict() for sink in after]).encode())
        files.settle([""])


def noted_sinks(files: Files) -> list[SinkNote] | None:
    """Return all sinks that were noted, or None if an earlier version wrote the checkpoint, which noted none."""
    try:
        return [SinkNote(**sink) for sink in json.loads(files.read_if_there(SINKS) or b"")]
    except (ValueError, TypeError):
        return None
