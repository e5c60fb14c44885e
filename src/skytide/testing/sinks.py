"""The laws of sinks, and a sink that remembers what another one gets."""

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, MutableMapping
from pathlib import Path

import pyarrow as pa

from skytide.spark.checkpoint import Files, Store
from skytide.spark.sinks.base import CheckpointIdentity, Frames, InCheckpoint, Promise, Sink, Staged, stage_rows
from skytide.spark.sinks.roles import Sinks
from skytide.testing.jobs import InProcess
from skytide.testing.laws import BrokenLaw, check_copied

SCHEMA = pa.schema([("x", pa.int64())])


class Remembering(Sink):
    """Passes everything on to a sink, and remembers the rows that it published, by sequence number."""

    def __init__(self, inner: Sink, tables: MutableMapping[int, pa.Table], staged: MutableMapping[str, pa.Table]) -> None:
        """Remember published rows in `tables`, and staged ones by their names in `staged`."""
        self._inner, self._tables, self._staged = inner, tables, staged
        self.promise, self.owned, self.schema = inner.promise, inner.owned, pa.schema([])

    def open(self, schema: pa.Schema, identity: CheckpointIdentity) -> None:
        """Open the sink."""
        self.schema = schema
        self._inner.opened(schema, identity)

    @property
    def stages_itself(self) -> bool:
        """Whether the sink does."""
        return self._inner.stages_itself

    @property
    def in_tasks(self) -> "Remembering":
        """What stages rows: this one, as tasks are in this process."""
        return self

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        """Let a copy of the sink stage rows, as in a task, and remember them."""
        name = stage_rows(check_copied(self._inner.in_tasks), rows, sequence, part)
        self._staged[name] = rows
        return name

    def publish(self, sequence: int, staged: Staged) -> None:
        """Let the sink publish a batch, and remember its rows."""
        self._inner.publish(sequence, staged)
        if staged:
            tables = [self._staged.get(name) for name in staged.names]
            mine = [table for table in tables if table is not None]
            self._tables[sequence] = pa.concat_tables(mine) if mine else staged.table()

    def has(self, sequence: int, names: tuple[str, ...]) -> bool:
        """Return whether the sink has rows."""
        return self._inner.has(sequence, names)

    def forget(self, sequence: int) -> None:
        """Let the sink forget batches after this one."""
        self._inner.forget(sequence)

    def describe(self) -> str:
        """Return what the sink does."""
        return self._inner.describe()


class Collected(Sink):
    """Takes rows, and keeps nothing: `Remembering` does."""

    promise: Promise = "exactly once"

    def publish(self, sequence: int, staged: Staged) -> None:
        """Do nothing."""

    def describe(self) -> str:
        """Return nothing: it does not outlive the program."""
        return ""


def check_sink(
    make: Callable[[Path], Sink],
    read: Callable[[Sink], Iterable[int]],
    *,
    secrets: Collection[str] = (),
    frames: Frames | None = None,
) -> None:
    """Raise `BrokenLaw` if a sink does not keep the laws that skytide relies on.

    - Rows are seen when they are published, and not before.
    - Published again under the same number, after a restart, they are there as often as the sink promises.
    - What another sink left in the checkpoint is published as well.
    - If it promises "exactly once", `forget` removes what the checkpoint does not know.
    - If it stages rows itself, it can be copied to workers.
    - What it says of itself has no secrets.

    Parameters
    ----------
    make
        Returns a new sink that is empty; it may use a folder, another one each time.
    read
        Returns the values of column `x` that readers of the sink see.
    secrets
        Texts that must not appear.
    frames
        Makes what `staged.frame()` returns (default: Arrow tables, as there is no Spark).

    Raises
    ------
    BrokenLaw
        If it does not keep one: which, and what was seen.

    Examples
    --------
    >>> class Listed(Sink):
    ...     promise = "exactly once"
    ...     def __init__(self):
    ...         self.batches = {}
    ...     def publish(self, sequence, staged):
    ...         self.batches[sequence] = staged.table()["x"].to_pylist()
    ...     def forget(self, sequence):
    ...         self.batches = {number: rows for number, rows in self.batches.items() if number <= sequence}
    >>> check_sink(lambda folder: Listed(), lambda sink: sum(sink.batches.values(), []))
    """
    for law in (_visibility, _repetition, _left_by_another, _forgetting):
        with tempfile.TemporaryDirectory(prefix="skytide-") as folder:
            law(_Play(make, read, frames or InProcess(), Path(folder)))
    with tempfile.TemporaryDirectory(prefix="skytide-") as folder:
        sink = _Play(make, read, frames or InProcess(), Path(folder)).sink
        told = "".join((sink.describe(), repr(sink), *map(str, Sinks(sink).notes())))
    for secret in secrets:
        if secret in told:
            raise BrokenLaw(sink, "what it says of itself has no secrets", f"one is in `describe` or `repr`: {type(sink).__name__}")


class _Play:
    """A sink that a query has opened."""

    def __init__(self, make: Callable[[Path], Sink], read: Callable[[Sink], Iterable[int]], frames: Frames, folder: Path) -> None:
        self.store, self.frames, self._read = Store(Files(folder / "checkpoint" / "skytide")), frames, read
        self.sink = make(folder)
        self.open()

    def open(self) -> None:
        Sinks(self.sink).open({"results": SCHEMA}, CheckpointIdentity.of(self.store))

    def stage(self, sequence: int, *parts: list[int]) -> Staged:
        in_task = check_copied(self.sink.in_tasks)
        names = [stage_rows(in_task, pa.table({"x": rows}, SCHEMA), sequence, part) for part, rows in enumerate(parts)]
        return self.staged(*names)

    def staged(self, *names: str, small: pa.Table | None = None) -> Staged:
        return Staged(SCHEMA, self.frames, self.store.files, names, small)

    def publish(self, sequence: int, *parts: list[int]) -> Staged:
        staged = self.stage(sequence, *parts)
        self.sink.publish(sequence, staged)
        return staged

    def require(self, law: str, *expected: int) -> None:
        """Raise unless readers see these values."""
        seen = sorted(self._read(self.sink))
        if seen != sorted(expected):
            raise BrokenLaw(self.sink, law, f"readers see {seen} instead of {sorted(expected)}")


def _visibility(play: _Play) -> None:
    play.publish(0, [1, 2], [3])
    play.require("published rows are seen", 1, 2, 3)
    staged = play.stage(1, [4])
    play.require("rows are not seen before they are published", 1, 2, 3)
    play.sink.publish(1, staged)
    play.publish(2)
    play.require("published rows are seen", 1, 2, 3, 4)


def _repetition(play: _Play) -> None:
    play.publish(0, [1])
    staged = play.publish(1, [2], [3])
    play.open()  # the program was cut off, and starts again
    play.sink.publish(1, staged)
    if play.sink.promise == "exactly once":
        play.require("what is published again is there once, as promised", 1, 2, 3)
    elif missing := {1, 2, 3} - Counter(play._read(play.sink)).keys():
        raise BrokenLaw(play.sink, "what is published again is there at least once", f"{sorted(missing)} are missing")


def _left_by_another(play: _Play) -> None:
    name = InCheckpoint(play.store.files).stage(pa.table({"x": [7]}, SCHEMA), 0, 0)
    play.sink.publish(0, play.staged(name))
    play.sink.publish(1, play.staged(small=pa.table({"x": [8]}, SCHEMA)))
    play.require("what another sink left in the checkpoint, and a small table, are published", 7, 8)


def _forgetting(play: _Play) -> None:
    for sequence in range(4):
        play.publish(sequence, [sequence])
    play.sink.forget(1)
    if play.sink.promise == "exactly once":
        play.require("`forget` removes batches after a number, which the checkpoint does not know", 0, 1)
