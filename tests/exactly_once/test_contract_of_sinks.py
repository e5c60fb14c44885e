"""One contract for all sinks of the registry: what they are told under a number is there as often as they promise, and nothing else is."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import orc

from skytide.batch import Output, State
from skytide.spark.checkpoint import Files, Store
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.sinks.base import Promise, Sink, Staged
from skytide.spark.sinks.console import Console
from skytide.spark.sinks.files import Files as FilesSink
from skytide.spark.sinks.format import Format
from skytide.spark.sinks.function import Function
from skytide.spark.sinks.memory import Memory
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.registry import CLASSES, NAMED
from skytide.spark.sinks.roles import Sinks
from skytide.spark.sinks.table import Table
from skytide.testing import BrokenLaw, check_sink

SCHEMA = pa.schema([("x", pa.int64())])
SECRET = "hunter2"


@dataclass
class World:
    """A folder, and what functions, tables and the console have got."""

    folder: Path = Path()
    got: list[int] = field(default_factory=list)

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> "Frame":
        return Frame(self, pa.concat_tables([store.read_table(name) for name in files]))

    def rows(self, table: pa.Table) -> "Frame":
        return Frame(self, table)

    def read(self, format: str) -> list[int]:
        place = self.folder / "out"
        return list(ds.dataset(place, format=format).to_table()["x"].to_pylist()) if any(place.glob("batch=*")) else []


class Frame:
    """What sinks ask of a DataFrame: it writes as Spark does."""

    columns = SCHEMA.names

    def __init__(self, world: World, table: pa.Table) -> None:
        self._world, self._table = world, table
        self.write = self.sparkSession = self.conf = self

    def get(self, name: str) -> str:
        return ""

    def set(self, name: str, value: str) -> None: ...

    def toArrow(self) -> pa.Table:
        return self._table

    def format(self, name: str) -> "Frame":
        return self

    def option(self, name: str, value: str) -> "Frame":
        return self

    def options(self, **given: str) -> "Frame":
        return self

    def mode(self, name: str) -> "Frame":
        self._mode = name
        return self

    def save(self, path: str | None = None) -> None:
        if self._mode == "append":
            self.append()
            return
        folder = Path(str(path).removeprefix("file://"))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        orc.write_table(self._table, folder / "part-0.orc")

    def append(self, *_: Any, **__: Any) -> None:
        self._world.got += self._table["x"].to_pylist()

    saveAsTable = show = append


@dataclass(frozen=True)
class Specimen:
    """A sink, and how its rows are read."""

    make: Callable[[World], Sink]
    read: Callable[[World, Sink], list[int]] = lambda world, sink: world.got


def in_memory(world: World, sink: Sink) -> list[int]:
    assert isinstance(sink, Memory)
    return list(sink.table()["x"].to_pylist())


SPECIMENS: dict[type[Sink], Specimen] = {
    Parquet: Specimen(lambda world: Parquet(world.folder / "out"), lambda world, sink: world.read("parquet")),
    FilesSink: Specimen(
        lambda world: FilesSink("orc", world.folder / "out", {"key": SECRET}), lambda world, sink: world.read("orc")
    ),
    Memory: Specimen(lambda world: Memory(), in_memory),
    Console: Specimen(lambda world: Console()),
    Format: Specimen(lambda world: Format("jdbc", None, {"password": SECRET})),
    Table: Specimen(lambda world: Table("best", None, {"password": SECRET})),
    Function: Specimen(lambda world: Function(lambda rows, sequence: rows.append())),  # type: ignore[operator]
}


def check(specimen: Specimen) -> None:
    """Apply the laws; each law has a world of its own."""
    world = World()

    def make(folder: Path) -> Sink:
        world.folder, world.got = folder, []
        return specimen.make(world)

    check_sink(make, lambda sink: specimen.read(world, sink), secrets=[SECRET], frames=world)


def test_all_sinks_of_the_registry_have_a_specimen() -> None:
    assert set(SPECIMENS) == set(CLASSES)
    assert all(cls.names or cls in (Format, Table, Function) for cls in CLASSES) and set(NAMED.values()) < set(CLASSES)


@pytest.mark.parametrize("sink", CLASSES)
def test_the_contract(sink: type[Sink]) -> None:
    check(SPECIMENS[sink])


class Collected(Sink):
    """A sink of a user's own, which keeps a list for each number."""

    promise: Promise = "exactly once"

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}

    def publish(self, sequence: int, staged: Staged) -> None:
        self.batches[sequence] = staged.table()["x"].to_pylist()

    def forget(self, sequence: int) -> None:
        self.batches = {number: rows for number, rows in self.batches.items() if number <= sequence}


class Hasty(Collected):
    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        self.batches.setdefault(sequence, []).extend(rows["x"].to_pylist())
        return f"hasty/{sequence}"

    @property
    def in_tasks(self) -> Any:
        return _Here(self)

    def publish(self, sequence: int, staged: Staged) -> None: ...


class _Here:
    """Stays in this process when it is copied."""

    known: dict[int, Any] = {}  # noqa: RUF012

    def __init__(self, sink: Sink) -> None:
        self.number = id(sink)
        self.known[self.number] = sink

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        name: str = self.known[self.number].stage(rows, sequence, part)
        return name


class Appending(Collected):
    def publish(self, sequence: int, staged: Staged) -> None:
        self.batches.setdefault(sequence, []).extend(staged.table()["x"].to_pylist())


class Lazy(Collected):
    def publish(self, sequence: int, staged: Staged) -> None:
        if sequence < 1:
            super().publish(sequence, staged)


class Careless(Collected):
    promise: Promise = "at least once"

    def publish(self, sequence: int, staged: Staged) -> None:
        if sequence in self.batches:
            self.batches.clear()
        super().publish(sequence, staged)


class Choosy(Collected):
    def publish(self, sequence: int, staged: Staged) -> None:
        if staged.small is None:
            super().publish(sequence, staged)


class Loyal(Collected):
    def forget(self, sequence: int) -> None: ...


class Talkative(Collected):
    def describe(self) -> str:
        return f"database, password={SECRET}"


class Rooted(Collected):
    """Holds what belongs to this process."""

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        return f"rooted/{sequence}"

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def of_batches(world: World, sink: Sink) -> list[int]:
    assert isinstance(sink, Collected)
    return [row for rows in sink.batches.values() for row in rows]


def test_a_sink_of_a_users_own_keeps_the_contract() -> None:
    check(Specimen(lambda world: Collected(), of_batches))


@pytest.mark.parametrize(
    ("guilty", "law"),
    [
        (Hasty, "not seen before they are published"),
        (Lazy, "published rows are seen"),
        (Appending, "there once, as promised"),
        (Careless, "there at least once"),
        (Choosy, "what another sink left"),
        (Loyal, "`forget` removes"),
        (Talkative, "has no secrets"),
        (Rooted, "can be copied to workers"),
    ],
)
def test_a_guilty_sink_is_caught(guilty: type[Sink], law: str) -> None:
    with pytest.raises(BrokenLaw, match=law):
        check(Specimen(lambda world: guilty(), of_batches))


def test_a_folder_of_another_query_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for make in (SPECIMENS[Parquet].make, SPECIMENS[FilesSink].make):
        folder = tmp_path / make(World(tmp_path)).describe().rpartition("/")[2]
        OwnedFolder(folder).claim("another", "file:///ck")
        with pytest.raises(Exception, match="belongs to another query"):
            Sinks(make(World(tmp_path))).check(Store(Files(tmp_path / "ck" / "skytide")))
        shutil.rmtree(folder)


def test_what_a_sink_staged_elsewhere_is_not_removed_with_the_checkpoint(tmp_path: Path) -> None:
    """A sink may name what it staged as it likes: the name of a file of the user's, for instance."""
    mine, store = tmp_path / "mine.csv", Store(Files(tmp_path / "ck" / "skytide"))
    mine.write_text("years of work")
    store.take_over()
    for sequence in range(40):
        store.record(State(sequence, sequence, output=Output(results=(str(mine),))))
        store.mark_emitted(sequence)
    store.release()
    assert mine.read_text() == "years of work"
