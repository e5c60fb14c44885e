"""The port to whatever takes results: a sink has a lifecycle, and gets each batch under its sequence number."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import pyarrow as pa

from skytide.errors import InvalidInput, SkytideError
from skytide.spark.checkpoint.files import Files, fresh_name
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.checkpoint.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Promise = Literal["exactly once", "at least once"]
RESULTS = "results"
"""The folder of the checkpoint where rows wait for a sink that cannot stage them itself."""


@dataclass(frozen=True)
class CheckpointIdentity:
    """The checkpoint of a query, as its sinks know it.

    Attributes
    ----------
    id
        What distinguishes it from all others, even from later ones in the same folder.
    transactions
        The same, for sinks that ignore a sequence number they have had: it is another one after the query went back.
    checkpoint
        The folder that the user named.
    latest
        The sequence number of the last batch that the query has recorded.
    files
        The files of the checkpoint.
    """

    id: str
    transactions: str
    checkpoint: str
    latest: int
    files: Files

    @staticmethod
    def of(store: Store) -> CheckpointIdentity:
        """Return the identity of a checkpoint by its store."""
        return CheckpointIdentity(store.identity(), store.transactions(), store.checkpoint, store.latest().sequence, store.files)


class OnSpark(NamedTuple):
    """What a sink may need of Spark."""

    spark: SparkSession
    fields: StructType
    """Fields whose types in Spark are known; Arrow's types tell those of others."""
    name: str | None = None
    """The name of the query, if it has one."""


class Frames(Protocol):
    """How rows become what a function takes: DataFrames on Spark."""

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> Any:
        """Return the rows of stored files."""

    def rows(self, table: pa.Table) -> Any:
        """Return the rows of a small table."""


@dataclass(frozen=True)
class Staged:
    """The rows of a batch for a sink: none, those that tasks have staged, or a small table that the driver has.

    Attributes
    ----------
    columns
        The columns of the rows.
    frames
        What makes DataFrames of rows.
    checkpoint
        The files of the checkpoint.
    names
        What `stage` returned, part by part: files of the checkpoint, unless the sink stages itself.
    small
        The rows, if the driver has them.
    """

    columns: pa.Schema
    frames: Frames
    checkpoint: Files
    names: tuple[str, ...] = ()
    small: pa.Table | None = None

    def __bool__(self) -> bool:
        """Return whether there are rows at all."""
        return bool(self.names) or (self.small is not None and self.small.num_rows > 0)

    def frame(self) -> DataFrame:
        """Return the rows as a DataFrame, which need not be read on the driver."""
        rows: DataFrame = (
            self.frames.stored(self.checkpoint, self.names, self.columns) if self.small is None else self.frames.rows(self.small)
        )
        return rows

    def table(self) -> pa.Table:
        """Return the rows as an Arrow table on the driver."""
        if self.small is not None:
            return self.small
        parts = [self.checkpoint.read_table(name).select(self.columns.names) for name in self.names]
        return pa.concat_tables(parts) if parts else self.columns.empty_table()


class Stages(Protocol):
    """What tasks leave rows with."""

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        """Leave the rows of a part of a batch where `publish` finds them, and return their name."""


@dataclass(frozen=True)
class InCheckpoint:
    """Stages rows in the checkpoint, from which any sink can read them."""

    files: Files

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        """Write rows under a name of this attempt, and return it."""
        name = fresh_name(RESULTS, sequence)
        self.files.write_table(name, rows)
        return name


def stage_rows(sink: Stages, rows: pa.Table, sequence: int, part: int) -> str:
    """Let a sink stage rows, and return their name; refuse what a manifest could not note."""
    name: object = sink.stage(rows, sequence, part)
    if not isinstance(name, str) or not name:
        raise SkytideError(
            f"stage of {type(sink).__name__} returned {name!r}; it has to return a name, by which publish finds the rows"
        )
    return name


def is_in_checkpoint(name: str) -> bool:
    """Return whether staged rows are in the checkpoint, and not with the sink that staged them."""
    return name.startswith(f"{RESULTS}/")


class Sink(ABC):
    """Takes the results of a query, batch by batch. A sink of your own is a subclass that has at least `publish`.

    A start calls `open`, then `forget`. In each batch, tasks call `stage` and the driver calls `publish`. If the program is cut off, the
    next start publishes what was staged once more, under the same sequence number.

    >>> class Printed(Sink):
    ...     def publish(self, sequence: int, staged: Staged) -> None:
    ...         print(sequence, staged.table().num_rows)
    """

    names: ClassVar[tuple[str, ...]] = ()
    """What a start may call it instead of making one."""
    promise: Promise = "at least once"
    """How often a row is in it, if the program is cut off and started again."""
    owned: OwnedFolder | None = None
    """The folder that belongs to it alone, if it has one: a start claims it, and refuses that of another query."""
    identity: CheckpointIdentity
    """The checkpoint of the query, from `open` on."""

    @classmethod
    def named(cls, name: str, path: str | os.PathLike[str] | None, options: Mapping[str, str] | None) -> Self:
        """Return the sink that `start(name, path=..., options=...)` describes."""
        refuse_ignored(path, options)
        return cls()

    def on(self, spark: OnSpark, argument: str) -> Self:
        """Return the sink for a query in a session, before anything is written; `argument` is what the start calls it."""
        return self

    @property
    def uri(self) -> str:
        """The full name of the folder that it writes to, if it has one."""
        return self.owned.files.uri if self.owned is not None else ""

    def windows_beside(self) -> Sink | None:
        """Return a sink for a row per window that suits this one for results, if there is one."""
        return None

    def open(self, schema: pa.Schema, identity: CheckpointIdentity) -> None:
        """Get ready for rows of these columns, from the query with this checkpoint; a folder has been claimed for it."""

    def opened(self, schema: pa.Schema, identity: CheckpointIdentity) -> None:
        """Open the sink, which knows its checkpoint even if its own `open` calls none before it."""
        object.__setattr__(self, "identity", identity)  # it may be a frozen dataclass
        self.open(schema, identity)

    @property
    def in_tasks(self) -> Stages:
        """What is copied to tasks to stage rows there: the sink, if it has a `stage` of its own, otherwise only the checkpoint."""
        return self if self.stages_itself else InCheckpoint(self.identity.files)

    @property
    def stages_itself(self) -> bool:
        """Whether it has a `stage` of its own."""
        return type(self).stage is not Sink.stage

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        """Leave the rows of a part of a batch where `publish` finds them and no reader does, and return their name. Runs in a task, perhaps twice."""
        return InCheckpoint(self.identity.files).stage(rows, sequence, part)

    @abstractmethod
    def publish(self, sequence: int, staged: Staged) -> None:
        """Make the rows of a batch visible in place of earlier ones of that number. It is called for each batch, also for one without rows, and again if it was cut off."""

    def has(self, sequence: int, names: tuple[str, ...]) -> bool:
        """Return whether rows that were staged under these names are with this sink, published or not."""
        return False

    def read(self, sequence: int, names: tuple[str, ...]) -> pa.Table:
        """Return published rows by the names under which they were staged, for a page that draws them."""
        return pa.concat_tables([self.identity.files.read_table(name) for name in names])

    def forget(self, sequence: int) -> None:
        """Remove batches after this one, if it can: the checkpoint does not know them, as the query went back."""
        if self.owned is not None:
            self.owned.forget_after(sequence, self.identity.id, self.identity.checkpoint)

    def describe(self) -> str:
        """Return what a checkpoint notes of the sink, without secrets: where later results are when a query goes back; empty if they do not stay."""
        return self.uri or type(self).__name__


SinkFunction = Callable[["DataFrame", int], object]
"""A function of a batch's results and its sequence number; called again with the same number, it must do the same again."""
SideSink = Sink | SinkFunction | str | os.PathLike[str]
"""A sink, a function, or the path of a Parquet folder."""


def refuse_ignored(path: object, options: object) -> None:
    """Refuse arguments that a sink does not take."""
    for argument in (name for name, value in (("path", path), ("options", options)) if value):
        remedy = f'leave {argument} out, or choose a sink that takes it, such as "parquet"'
        raise InvalidInput(value=f"{argument}=...", reason="this sink would ignore it", remedy=remedy)


def needed_path(name: str, path: str | os.PathLike[str] | None) -> str | os.PathLike[str]:
    """Return the path of a folder, or refuse to do without."""
    if not path:
        raise InvalidInput(value=f"sink={name!r}", reason="it needs a folder to write to", remedy='pass path="/data/results"')
    return path
