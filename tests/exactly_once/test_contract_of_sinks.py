"""One contract for all sinks of the registry: what they are told under a number is there as often as they promise, and nothing else is."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import orc
from pyspark import cloudpickle

from skytide.batch import Output, State
from skytide.spark.checkpoint import Files, Store
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.sinks.base import CheckpointIdentity, InCheckpoint, Promise, Sink, Staged
from skytide.spark.sinks.console import Console
from skytide.spark.sinks.files import Files as FilesSink
from skytide.spark.sinks.format import Format
from skytide.spark.sinks.function import Function
from skytide.spark.sinks.memory import Memory
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.registry import CLASSES, NAMED
from skytide.spark.sinks.roles import Sinks
from skytide.spark.sinks.table import Table

SCHEMA = pa.schema([("x", pa.int64())])
SECRET = "hunter2"


@dataclass
class World:
    """A folder, and what functions, tables and the console have got."""

    folder: Path
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


class Played:
    """A sink that a query has opened."""

    def __init__(self, specimen: Specimen, folder: Path) -> None:
        self.world, self.store = World(folder), Store(Files(folder / "ck" / "skytide"))
        self.specimen, self.sink = specimen, specimen.make(World(folder))
        self.sink = specimen.make(self.world)
        self.open()

    def open(self) -> None:
        Sinks(self.sink).open({"results": SCHEMA}, CheckpointIdentity.of(self.store))

    def stage(self, sequence: int, *parts: list[int]) -> Staged:
        travelled = cloudpickle.loads(cloudpickle.dumps(self.sink.in_tasks))  # type: ignore[no-untyped-call]
        names = [travelled.stage(pa.table({"x": rows}, SCHEMA), sequence, part) for part, rows in enumerate(parts)]
        return Staged(SCHEMA, self.world, self.store.files, tuple(names))

    def publish(self, sequence: int, *parts: list[int]) -> Staged:
        staged = self.stage(sequence, *parts)
        self.sink.publish(sequence, staged)
        return staged

    def there(self) -> Counter[int]:
        return Counter(self.specimen.read(self.world, self.sink))


def what_is_staged_is_seen_when_it_is_published(played: Played) -> None:
    played.publish(0, [1, 2], [3])
    staged = played.stage(1, [4])
    assert played.there() == Counter([1, 2, 3]), "seen before it is published"
    played.sink.publish(1, staged)
    played.publish(2)
    assert played.there() == Counter([1, 2, 3, 4]), "not all is there"


def a_number_that_comes_again_is_there_as_often_as_promised(played: Played) -> None:
    played.publish(0, [1])
    staged = played.publish(1, [2], [3])
    played.open()  # the program was cut off, and starts again
    played.sink.publish(1, staged)
    there = played.there()
    assert set(there) == {1, 2, 3}
    if played.sink.promise == "exactly once":
        assert max(there.values()) == 1, "twice"


def what_another_sink_left_in_the_checkpoint_is_published(played: Played) -> None:
    name = InCheckpoint(played.store.files).stage(pa.table({"x": [7]}, SCHEMA), 0, 0)
    played.sink.publish(0, Staged(SCHEMA, played.world, played.store.files, (name,)))
    played.sink.publish(1, Staged(SCHEMA, played.world, played.store.files, small=pa.table({"x": [8]}, SCHEMA)))
    assert played.there() == Counter([7, 8])


def what_the_checkpoint_does_not_know_is_forgotten(played: Played) -> None:
    for sequence in range(4):
        played.publish(sequence, [sequence])
    played.sink.forget(1)
    if played.sink.promise == "exactly once":
        assert played.there() == Counter([0, 1]), "not forgotten"


def nothing_secret_is_told(played: Played) -> None:
    said = played.sink.describe(), repr(played.sink), *map(str, Sinks(played.sink).notes())
    assert SECRET not in "".join(said), "a secret is told"


LAWS = [
    what_is_staged_is_seen_when_it_is_published,
    a_number_that_comes_again_is_there_as_often_as_promised,
    what_another_sink_left_in_the_checkpoint_is_published,
    what_the_checkpoint_does_not_know_is_forgotten,
    nothing_secret_is_told,
]


def test_all_sinks_of_the_registry_have_a_specimen() -> None:
    assert set(SPECIMENS) == set(CLASSES)
    assert all(cls.names or cls in (Format, Table, Function) for cls in CLASSES) and set(NAMED.values()) < set(CLASSES)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sink", CLASSES)
def test_the_contract(sink: type[Sink], law: Callable[[Played], None], tmp_path: Path) -> None:
    law(Played(SPECIMENS[sink], tmp_path))


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


class Loyal(Collected):
    def forget(self, sequence: int) -> None: ...


class Talkative(Collected):
    def describe(self) -> str:
        return f"database, password={SECRET}"


def of_batches(world: World, sink: Sink) -> list[int]:
    assert isinstance(sink, Collected)
    return [row for rows in sink.batches.values() for row in rows]


@pytest.mark.parametrize("law", LAWS)
def test_a_sink_of_a_users_own_keeps_the_contract(law: Callable[[Played], None], tmp_path: Path) -> None:
    law(Played(Specimen(lambda world: Collected(), of_batches), tmp_path))


@pytest.mark.parametrize(
    ("guilty", "law", "says"),
    [
        (Hasty, what_is_staged_is_seen_when_it_is_published, "seen before it is published"),
        (Appending, a_number_that_comes_again_is_there_as_often_as_promised, "twice"),
        (Loyal, what_the_checkpoint_does_not_know_is_forgotten, "not forgotten"),
        (Talkative, nothing_secret_is_told, "a secret is told"),
    ],
)
def test_a_guilty_sink_is_caught(guilty: type[Sink], law: Callable[[Played], None], says: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=says):
        law(Played(Specimen(lambda world: guilty(), of_batches), tmp_path))


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
