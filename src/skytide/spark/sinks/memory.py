"""Results that stay on the driver, for tests and first steps."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from skytide.errors.checks import refused
from skytide.spark.arrow import spark_schema
from skytide.spark.sinks.base import CheckpointIdentity, OnSpark, Promise, Sink, Staged


class Memory(Sink):
    """Keeps all results on the driver; SQL knows them as a table of the query's name, if it has one."""

    names: ClassVar[tuple[str, ...]] = ("memory",)
    promise: Promise = "exactly once"

    def __init__(self) -> None:
        """Start without results."""
        self._batches: dict[int, pa.Table] = {}
        self._columns, self._on = pa.schema([]), None  # type: tuple[pa.Schema, OnSpark | None]
        self._of = ""

    def on(self, spark: OnSpark, argument: str) -> Memory:
        """Remember the session, in which SQL will know the results; what is put aside has no name."""
        self._on = spark if argument == "path" else spark._replace(name=None)
        return self

    def open(self, schema: pa.Schema, identity: CheckpointIdentity) -> None:
        """Start with an empty table of these columns, unless the same query goes on."""
        if identity.id != self._of:
            self._batches, self._of = {}, identity.id
        self._columns = schema
        try:
            self._show()
        except PySparkException:
            remedy = 'use letters, digits and underscores, as in "best_hotels"'
            name = self._on and self._on.name
            raise refused("name", name, "not a name for a table, which the sink memory makes", remedy) from None

    def publish(self, sequence: int, staged: Staged) -> None:
        """Keep a batch, in place of an earlier attempt at it."""
        if staged:
            self._batches[sequence] = staged.frame().toArrow() if self._on else staged.table()
            self._show()
        else:
            self._batches.pop(sequence, None)

    def forget(self, sequence: int) -> None:
        """Drop batches after this one."""
        self._batches = {number: rows for number, rows in self._batches.items() if number <= sequence}

    def describe(self) -> str:
        """Return nothing: it does not outlive the program."""
        return ""

    def table(self) -> pa.Table:
        """Return all results so far, in the order they came out."""
        batches = [self._batches[sequence] for sequence in sorted(self._batches)]
        return pa.concat_tables(batches) if batches else self._columns.empty_table()

    def frame(self) -> DataFrame:
        """Return all results so far as a DataFrame."""
        assert self._on is not None, "a query on Spark has begun"
        return self._on.spark.createDataFrame(self.table(), spark_schema(self._on.fields, self._columns))

    def _show(self) -> None:
        if self._on and self._on.name:
            self.frame().createOrReplaceTempView(self._on.name)
