"""What runs in Spark's Python workers: Arrow batches in, Arrow batches out."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skytide.queries import Query

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]
Copied = TypeVar("Copied")

BUFFER_ROWS = 65_536  # reduced together: large enough to spread the cost of a call, small enough to stay in the cache
BUFFER_BYTES = 64 * 2**20  # fewer, if they are large
GATHERED_ROWS = 10_000  # looked at together


def copied(task: Copied) -> Copied:
    """Return an object as a worker gets it: a copy."""
    copy: Copied = cloudpickle.loads(cloudpickle.dumps(task))  # type: ignore[no-untyped-call]
    return copy


def gathered(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the rows of batches, which Spark sends in small ones, in the same order in larger ones."""
    some, rows, size = [], 0, 0
    for batch in batches:
        some.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GATHERED_ROWS or size >= BUFFER_BYTES:
            yield from pa.Table.from_batches(some).combine_chunks().to_batches()
            some, rows, size = [], 0, 0
    if some:
        yield from pa.Table.from_batches(some).combine_chunks().to_batches()


class Reducer:
    """Reduces rows that come in piece by piece to what can still matter."""

    def __init__(self, query: Query) -> None:
        """Start with no rows."""
        self.query = query
        self.tuples = 0
        self._raw: list[pa.Table] = []
        self._raw_rows = self._raw_bytes = 0
        self._parts: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Take in some rows; they are reduced when enough have come."""
        self.tuples += rows.num_rows
        self._raw.append(rows)
        self._raw_rows += rows.num_rows
        self._raw_bytes += rows.nbytes
        if self._raw_rows >= BUFFER_ROWS or self._raw_bytes >= BUFFER_BYTES:
            self._reduce()

    def kept(self) -> pa.Table:
        """Return what was kept of all rows so far."""
        if self._raw:
            self._reduce()
        if len(self._parts) > 1:
            self._parts = [self.query.merge(pa.concat_tables(self._parts))]
        return self._parts[0]

    def _reduce(self) -> None:
        self._parts.append(self.query.pane(pa.concat_tables(self._raw)))
        self._raw, self._raw_rows, self._raw_bytes = [], 0, 0
        if sum(part.num_rows for part in self._parts[1:]) >= max(BUFFER_ROWS, self._parts[0].num_rows):
            self._parts = [self.query.merge(pa.concat_tables(self._parts))]


def keep(query: Query) -> Task:
    """Return the task that reduces a partition to what can still matter, as its rows come in."""
    return _reduced(query, lambda kept: kept)


def answer(query: Query) -> Task:
    """Return the task that answers a query from all rows of a partition, as they come in."""
    return _reduced(query, query.window)


def _reduced(query: Query, result: Callable[[pa.Table], pa.Table]) -> Task:
    def run(batches: Batches) -> Batches:
        reducer = Reducer(query)
        for batch in batches:
            reducer.add(pa.Table.from_batches([batch]))
        if reducer.tuples:
            yield from result(reducer.kept()).to_batches()

    return run


def one_task(spark: SparkSession, work: Callable[[], Batches], schema: StructType) -> DataFrame:
    """Return the rows of work that needs no input, done in one task."""
    return tasks(spark.range(0, 1, 1, 1), lambda _: work(), schema)


def tasks(numbers: DataFrame, work: Callable[[int], Batches], schema: StructType) -> DataFrame:
    """Return the rows of work that needs no input but the number of its task; each number is alone in a partition."""

    def run(batches: Batches) -> Batches:
        # All of the input has to be read: a worker that leaves some unread is not used again, and a new one would start from nothing.
        mine = [number for batch in batches for number in batch.column(0).to_pylist()]
        for number in mine:
            yield from work(number)

    return numbers.mapInArrow(run, schema)


def whole(answer: Callable[[pa.Table], pa.Table]) -> Task:
    """Return the task that computes an answer from all rows of a partition at once."""

    def run(batches: Batches) -> Batches:
        rows = list(batches)
        if rows:
            yield from answer(pa.Table.from_batches(rows)).to_batches()

    return run


def share(query: Query, slot: str, owner: str) -> Task:
    """Return the task that decides about the rows that its slot owns, against copies of all rows."""

    def run(batches: Batches) -> Batches:
        rows = list(batches)
        if rows:
            kept = pa.Table.from_batches(rows)
            mine = kept[slot].to_numpy() == kept[owner].to_numpy()
            yield from query.share(kept.drop_columns([slot, owner]), mine).to_batches()

    return run
