"""Results as a folder of files of any format that Spark can write."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from skytide.errors.checks import check_text
from skytide.records.secret import hidden, revealed
from skytide.spark.checkpoint import place_of
from skytide.spark.checkpoint.folder import OwnedFolder, folder_of
from skytide.spark.checkpoint.place import folder_text
from skytide.spark.sinks.base import OnSpark, Promise, Sink, Staged, needed_path
from skytide.spark.sinks.format import check_known
from skytide.spark.sinks.unprinted import unprinted


class Files(Sink):
    """Files in one folder per batch, as Spark writes them: `path/batch=12`; each window is there once."""

    names: ClassVar[tuple[str, ...]] = ("avro", "csv", "json", "orc", "text", "xml")
    promise: Promise = "exactly once"
    owned: OwnedFolder

    def __init__(self, format: str, path: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> None:
        """Write below a path.

        Parameters
        ----------
        format
            A format that Spark writes as files, such as "csv" or "orc".
        path
            The folder, which belongs to the query alone.
        options
            Spark's options for the format.
        """
        check_text("format", format, "csv")
        self._format = format
        self._options: Mapping[str, Any] = hidden(options or {})
        self.owned = OwnedFolder(folder_text(path, "path"))

    @classmethod
    def named(cls, name: str, path: str | os.PathLike[str] | None, options: Mapping[str, str] | None) -> Files:
        """Return the sink of the format for a path."""
        return cls(name, needed_path(name, path), options)

    def on(self, spark: OnSpark, argument: str) -> Files:
        """Return the sink with the settings of the session for its file system; refuse a format that Spark does not know."""
        check_known(spark.spark, self._format)
        place = place_of(spark.spark, self.owned.path, argument)
        sink = copy.copy(self)
        sink.owned = OwnedFolder(place.uri, place.options)
        return sink

    def publish(self, sequence: int, staged: Staged) -> None:
        """Write a batch, in place of an earlier attempt at it."""
        if not staged:
            self.owned.clear(sequence)
            return
        rows = staged.frame()
        writer = rows.write.format(self._format).options(**revealed(self._options))
        with unprinted(rows.sparkSession):
            writer.mode("overwrite").save(f"{self.owned.path}/{folder_of(sequence)}")
