"""What surrounds an engine that dies at any instruction: inputs as Spark has them, an engine that dies, and sinks whose content can be read back."""

import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import orc

from skytide.batch import BatchEvent, Delivery, Instruction, PaneReport
from skytide.spark.checkpoint import Files
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.panes import PaneTask
from skytide.spark.sinks.files import Files as FilesSink
from skytide.spark.sinks.function import Function
from skytide.spark.sinks.memory import Memory
from skytide.spark.sinks.parquet import Parquet
from support import oracle
from support.engine import Crash, InProcess
from support.once import Database

Point = tuple[int | str, str, str]
"""A batch by its number, or a flush; an instruction; before or after it."""


class Input:
    """A stream; a batch of it is computed when it is executed, and in every try anew."""

    def __init__(self, batches: list[pa.Table]) -> None:
        self._batches, self._number, self.executed = batches, 0, 0

    def start(self, number: int) -> "Input":
        """Begin a try at a batch."""
        self._number, self.executed = number, 0
        return self

    def execute(self) -> list[pa.Table]:
        self.executed += 1
        rows = self._batches[self._number]
        return [rows.slice(0, 9), rows.slice(9)]

    def commit(self) -> None:
        """End a try that succeeded."""


class Shuffled(Input):
    """The same rows in another order and in other partitions, each time."""

    def __init__(self, batches: list[pa.Table]) -> None:
        super().__init__(batches)
        self._rng = np.random.default_rng(24)

    def execute(self) -> list[pa.Table]:
        whole, parts = pa.concat_tables(super().execute()), int(self._rng.integers(1, 5))
        slots = self._rng.integers(0, parts, whole.num_rows)
        mixed = self._rng.permutation(whole.num_rows)
        return [whole.take(pa.array(mixed[slots == part])) for part in range(parts)]


class Deduplicated(Input):
    """Rows without those that came before: as in Spark, a batch needs the state after the one before it, which is kept only if that was executed by the try that succeeded."""

    def __init__(self, batches: list[pa.Table]) -> None:
        super().__init__([pa.concat_tables(batches[max(0, number - 1) : number + 1]) for number in range(len(batches))])
        self._after: dict[int, set[int]] = {-1: set()}

    def execute(self) -> list[pa.Table]:
        before = self._after[self._number - 1]
        return [part.filter(pa.array([each not in before for each in part["id"].to_pylist()])) for part in super().execute()]

    def commit(self) -> None:
        if not self.executed:
            raise RuntimeError(f"batch {self._number} has left no state: it was not executed")
        ids = {each for part in self.execute() for each in part["id"].to_pylist()}
        self._after[self._number] = self._after[self._number - 1] | ids


@dataclass
class Fuse:
    """Dies once at each point, or only at one of them, and knows all that it came by."""

    only: Point | None = None
    is_lit: bool = True
    step: int | str = 0
    passed: dict[Point, None] = field(default_factory=dict)

    def at(self, what: str, when: str) -> None:
        point = self.step, what, when
        is_new = point not in self.passed
        self.passed[point] = None
        if self.is_lit and is_new and self.only in (None, point):
            raise Crash


class Mortal(Engine):
    """Dies before or after an instruction."""

    fuse: Fuse

    def _carry_out(self, instruction: Instruction, jobs: Any, batch: Any) -> list[BatchEvent]:
        self.fuse.at(type(instruction).__name__, "before")
        events = super()._carry_out(instruction, jobs, batch)
        self.fuse.at(type(instruction).__name__, "after")
        return events


class Lazy(InProcess):
    """Jobs that execute their input, and hand sinks frames."""

    def panes(self, batch: Any, task: PaneTask, delivery: Delivery) -> PaneReport:
        return super().panes(batch.execute(), task, delivery)

    def read(self, batch: Any) -> None:
        batch.execute()

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> Any:
        return Frame(super().stored(store, files, columns))

    def rows(self, table: pa.Table) -> Any:
        return Frame(table)


class _Settings(dict[str, str]):
    set = dict.__setitem__


class Frame:
    """What sinks ask of a DataFrame, done by Arrow; it writes as Spark does: what was there goes first."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self._format = table, ""
        self.write, self.conf = self, _Settings()
        self.sparkSession = self

    def toArrow(self) -> pa.Table:
        return self._table

    def format(self, name: str) -> "Frame":
        self._format = name
        return self

    def options(self) -> "Frame":
        return self

    def mode(self, name: str) -> "Frame":
        assert name == "overwrite"
        return self

    def save(self, path: str) -> None:
        folder = path.removeprefix("file://")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        assert self._format == "orc"
        orc.write_table(self._table, f"{folder}/part-0.orc")


@dataclass(frozen=True)
class Outlet:
    """A sink, and how its rows are read back."""

    sink: Any
    rows: Callable[[], Counter[str]]


def _in_database(kind: str) -> Callable[[Path], Outlet]:
    def outlet(folder: Path) -> Outlet:
        database = Database(folder / f"{kind}.db", Frame.toArrow)
        return Outlet(Function(getattr(database, kind)), lambda: Counter(row for _, row in database.rows()))

    return outlet


def _parquet(folder: Path) -> Outlet:
    return Outlet(Parquet(folder / "parquet"), lambda: _read(folder / "parquet", "parquet"))


def _files(folder: Path) -> Outlet:
    sink = FilesSink("orc", f"file://{folder}/files")
    return Outlet(sink, lambda: _read(folder / "files", "orc"))


def _memory(folder: Path) -> Outlet:
    sink = Memory()
    return Outlet(sink, lambda: oracle.multiset(sink.table().to_pylist()))


def _read(folder: Path, format: str) -> Counter[str]:
    rows = ds.dataset(folder, format=format).to_table()
    micros = [f.with_type(pa.timestamp("us", f.type.tz)) if pa.types.is_timestamp(f.type) else f for f in rows.schema]
    return oracle.multiset(rows.cast(pa.schema(micros)).to_pylist())


SINKS: dict[str, Callable[[Path], Outlet]] = {
    "parquet": _parquet,
    "files": _files,
    "memory": _memory,
    **{kind: _in_database(kind) for kind in ("append_as_delta", "upsert", "append")},
}
EXACT = [kind for kind in SINKS if kind != "append"]
"""Those that have every window once."""
INPUTS: dict[str, type[Input]] = {"plain": Input, "shuffled": Shuffled, "NOT NULL": Input, "deduplicated": Deduplicated}
