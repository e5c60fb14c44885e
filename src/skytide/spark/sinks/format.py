"""Any format that Spark can write to, other than files: batches are appended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrameWriter, SparkSession

from skytide.errors.checks import check_text, check_type, refused
from skytide.records.secret import hidden, revealed
from skytide.spark.checkpoint import place_of
from skytide.spark.compat import short_name
from skytide.spark.sinks.base import OnSpark, Sink, Staged
from skytide.spark.sinks.unprinted import unprinted


def check_known(spark: SparkSession, format: str) -> None:
    """Refuse a format that Spark would not find in the first batch."""
    if short_name(spark, format) is None:
        remedy = "choose another one, or start Spark with the package that has it"
        raise refused("format", format, "not a format that this Spark knows", remedy)


class Format(Sink):
    """Appends batches, with the sequence number as the transaction, which Delta does not apply twice; others may have the last batch twice after a crash."""

    def __init__(self, format: str, path: str | os.PathLike[str] | None = None, options: Mapping[str, str] | None = None) -> None:
        """Append to whatever a format stands for.

        Parameters
        ----------
        format
            A format that Spark can write to, such as "delta" or "jdbc".
        path
            Where it writes to, if it writes to a path.
        options
            Its options; they appear in no plan and no message.
        """
        check_text("format", format, "delta")
        if path is not None:
            check_type(
                "path", path, (str, os.PathLike), reason="not a path", remedy="name what the format writes to, or leave it out"
            )
        self._format: str | None = format
        self._path, self._uri = None if path is None else os.fspath(path), ""
        self._options: Mapping[str, Any] = hidden(options or {})

    @classmethod
    def named(cls, name: str, path: str | os.PathLike[str] | None, options: Mapping[str, str] | None) -> Format:
        """Return the sink of the format."""
        return cls(name, path, options)

    def on(self, spark: OnSpark, argument: str) -> Format:
        """Find out where the path is, if there is one; refuse a format that Spark does not know."""
        if self._format is not None:
            check_known(spark.spark, self._format)
        self._uri = place_of(spark.spark, self._path, argument).uri if self._path else ""
        return self

    @property
    def uri(self) -> str:
        """The full name of the path, if there is one."""
        return self._uri

    def publish(self, sequence: int, staged: Staged) -> None:
        """Append a batch; its transactions differ from those of others, even of an earlier checkpoint in the same folder."""
        if not staged:
            return
        rows = staged.frame()
        writer = rows.write.option("txnAppId", self.identity.transactions).options(**revealed(self._options))
        writer = writer.option("txnVersion", str(sequence)).mode("append")
        with unprinted(rows.sparkSession):
            self._save(writer.format(self._format) if self._format else writer)

    def describe(self) -> str:
        """Return the format, without its path and options, which may be secret."""
        return f"format {self._format}"

    def _save(self, writer: DataFrameWriter) -> None:
        writer.save(self._path)
