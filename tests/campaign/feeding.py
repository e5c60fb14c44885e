"""Where the tuples of a case come from: files that are there before the first life, or grow while a fleet reads them."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from support.oracle import Row

from campaign.cases import Case, Files, Fleet
from campaign.streams import COLUMNS, Parts, watermark_us

SECOND_FOLDER = "in2"
RIGHT = ("d", "g")
"""Columns that a joined input gets from the second folder, one file later than the others."""
STEP_S = 0.12
TIMES_AT = 1_000_000


class Feeding:
    """Writes what comes, in the order it has to come in."""

    def __init__(self, case: Case, parts: Parts, folder: Path) -> None:
        """Write what is there from the start."""
        self._stream, self._folder = case.stream, folder / "in"
        self._steps = iter(())
        self._share = len(parts) // len(case.lives)
        self._written = 0
        self._newest = max((row["ts"] or 0 for part in parts for row in part), default=0)
        if isinstance(self._stream, Files):
            self._write_files(self._stream, parts, folder)
        if isinstance(self._stream, Fleet):
            self._folder.mkdir()
            self._steps = iter(parts)
            self._dice = Random(self._stream.seed)
            self._grow()

    @contextmanager
    def growing(self, begun: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
        """Let a fleet grow a share of its steps while a life lasts, the first at once, the others when its job has `begun`; yield whether that is over."""
        over = threading.Event()

        def grow() -> None:
            step = 0
            while not over.wait(STEP_S) and step < self._share:
                step += (not step or begun()) and self._grow()

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            yield lambda: not thread.is_alive()
        finally:
            over.set()
            thread.join()

    def finish(self) -> None:
        """Write all that is left, before the last life."""
        while self._grow():
            pass
        if isinstance(self._stream, Files) and self._stream.input == "aggregated":
            # Rows so new that Spark's watermark passes all groups, but not theirs; two, as Spark closes groups with the batch after.
            beyond_us = self._newest + 2 * watermark_us(self._stream)
            row = {"a": 0, "b": 0.0, "c": 0, "d": 0, "g": "-"}
            for number in (0, 1):
                self._add(self._folder, [{**row, "id": -1 - number, "ts": beyond_us + number}], self._stream.format)

    def _write_files(self, stream: Files, parts: Parts, folder: Path) -> None:
        self._folder.mkdir()
        if stream.input == "deduplicated":
            parts = with_copies(stream, parts)
        if stream.input != "joined":
            for rows in parts:
                self._add(self._folder, rows, stream.format)
            return
        (folder / SECOND_FOLDER).mkdir()
        for left, right in zip([*parts, []], [[], *parts], strict=True):
            self._add(self._folder, left, stream.format)
            self._written -= 1
            self._add(folder / SECOND_FOLDER, right, stream.format)

    def _add(self, folder: Path, rows: list[Row], format_: str) -> None:
        """Write a file that Spark reads after those before."""
        file, draft = folder / f"{self._written:03}.{format_}", folder / f".{self._written:03}"
        table = pa.Table.from_pylist(rows, COLUMNS)
        if format_ == "parquet":
            pq.write_table(table, draft)
        else:
            stamped = [row | {"ts": row["ts"] and row["ts"].isoformat()} for row in table.to_pylist()]
            draft.write_text("".join(json.dumps(row) + "\n" for row in stamped))
        os.utime(draft, (TIMES_AT + self._written, TIMES_AT + self._written))
        draft.rename(file)
        self._written += 1

    def _grow(self) -> bool:
        """Append the next step to the files of its streams, each in two pieces, cut anywhere; return whether there was one."""
        rows = next(self._steps, None)
        if rows is None:
            return False
        assert isinstance(self._stream, Fleet)
        stamps = pa.Table.from_pylist(rows, COLUMNS)["ts"].to_pylist() if rows else []
        lines: dict[str, str] = {}
        for row, stamp in zip(rows, stamps, strict=True):
            values = {name: row[name] for name in COLUMNS.names} | {"ts": stamp.isoformat()}
            as_csv = ",".join("" if value is None else str(value) for value in values.values())
            line = json.dumps(values) if self._stream.format == "jsonl" else as_csv
            lines[row["stream"]] = lines.get(row["stream"], "") + line + "\n"
        for name, text in lines.items():
            data = text.encode()
            cut = self._dice.randrange(len(data))
            with (self._folder / f"{name}.{self._stream.format}").open("ab", buffering=0) as file:
                file.write(data[:cut])
                file.write(data[cut:])
        return True


def with_copies(stream: Files, parts: Parts) -> Parts:
    """Return the tuples with some of them once more, in their own file or a later one."""
    dice = Random(stream.seed + 1)
    found = [list(part) for part in parts]
    for number, part in enumerate(parts):
        for row in part:
            if dice.random() < 0.1:
                later = found[dice.randrange(number, len(parts))]
                later.insert(dice.randint(0, len(later)), row)
    return found
