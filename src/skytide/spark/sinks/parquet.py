"""Results as a folder of Parquet files that anything can read at any time."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from skytide.errors import InvalidInput, SkytideError
from skytide.spark.arrow import spark_schema
from skytide.spark.checkpoint import fresh_name, place_of, sequence_of
from skytide.spark.checkpoint.folder import OWN, OwnedFolder, folder_of
from skytide.spark.checkpoint.place import folder_text
from skytide.spark.sinks.base import CheckpointIdentity, OnSpark, Promise, Sink, Staged, needed_path

SPARK_TYPES = "org.apache.spark.sql.parquet.row.metadata"
"""Where Spark's own Parquet files say what Parquet has no type for, such as intervals, variants and collations."""
CODECS = {"none": "none", "uncompressed": "none", "lz4_raw": "lz4"} | {
    name: name for name in ("snappy", "gzip", "lz4", "brotli", "zstd")
}
"""Spark's names of codecs, and Arrow's."""


class Parquet(Sink):
    """One folder per batch: `path/batch=12`. A number that comes again replaces the earlier one, so each window is there once.

    A task writes to a folder beside, under a name of its own attempt, and only the driver makes it visible to readers. So an abandoned
    task that still writes changes nothing. Readers ignore the folder beside, as its name begins with an underscore.
    """

    names: ClassVar[tuple[str, ...]] = ("parquet",)
    promise: Promise = "exactly once"
    owned: OwnedFolder

    def __init__(
        self, path: str | os.PathLike[str], *, compression: str = "snappy", options: Mapping[str, object] | None = None
    ) -> None:
        """Write below a path.

        Parameters
        ----------
        path
            The folder, which belongs to the query alone.
        compression
            One of Spark's names of codecs.
        options
            Options of Arrow's file system (default: those that the session has for this one).
        """
        self._compression = codec_of({"compression": compression})
        self.owned = OwnedFolder(folder_text(path, "path"), options)
        self._on: OnSpark | None = None
        self._spark_types = ""

    @classmethod
    def named(cls, name: str, path: str | os.PathLike[str] | None, options: Mapping[str, str] | None) -> Parquet:
        """Return the sink for a path; the codec is its only option."""
        return cls(needed_path(name, path), compression=codec_of(options or {}))

    def on(self, spark: OnSpark, argument: str) -> Parquet:
        """Return the sink with the settings of the session for its file system, and with Spark's types."""
        place = place_of(spark.spark, self.owned.path, argument)
        sink = copy.copy(self)
        sink.owned, sink._on = OwnedFolder(place.uri, place.options), spark
        return sink

    def __getstate__(self) -> dict[str, Any]:
        """Leave the session behind when tasks get a copy."""
        return {**self.__dict__, "_on": None}

    def windows_beside(self) -> Parquet:
        """Return a folder inside its own, which readers of it ignore."""
        return Parquet(f"{self.owned.path}/_windows", compression=self._compression)

    def open(self, schema: pa.Schema, identity: CheckpointIdentity) -> None:
        """Show readers an empty table until something comes, and let Spark know its own types of the columns."""
        self._spark_types = spark_schema(self._on.fields, schema).json() if self._on else ""
        if not self.owned.files.exists(f"{folder_of(-1)}/{_part(0)}"):
            self._show(-1, (self.stage(schema.empty_table(), 0, 0),))

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        """Write rows where no reader sees them, and return the name to publish them by."""
        name = fresh_name(OWN, sequence, kind="parquet")
        if self._spark_types:
            rows = rows.replace_schema_metadata({**(rows.schema.metadata or {}), SPARK_TYPES: self._spark_types})
        self.owned.files.write_parquet(name, rows, compression=self._compression)
        self.owned.files.settle([OWN])  # a manifest will name it
        return name

    def publish(self, sequence: int, staged: Staged) -> None:
        """Move staged files to where readers see them; rows that were staged in the checkpoint are written first."""
        if not staged:
            self.owned.clear(sequence)
        elif staged.names and all(is_staged(name) for name in staged.names):
            self._show(sequence, staged.names)
        else:
            self._show(sequence, (self.stage(staged.table(), sequence, 0),))
        self._clean(sequence)

    def has(self, sequence: int, names: tuple[str, ...]) -> bool:
        """Return whether these files are here, published or not."""
        files = self.owned.files
        parts = [f"{folder_of(sequence)}/{_part(part)}" for part in range(len(names))]
        return all(files.exists(name) or files.exists(part) for name, part in zip(names, parts, strict=True))

    def read(self, sequence: int, names: tuple[str, ...]) -> pa.Table:
        """Return the published rows of a batch."""
        parts = [f"{folder_of(sequence)}/{_part(part)}" for part in range(len(names))]
        return pa.concat_tables([pq.read_table(pa.BufferReader(self.owned.files.read(part))) for part in parts])

    def _show(self, sequence: int, names: tuple[str, ...]) -> None:
        """Make staged files visible to readers, in place of earlier ones of that number; doing it twice does no harm."""
        files, folder = self.owned.files, folder_of(sequence)
        parts = [_part(part) for part in range(len(names))]
        for name, part in zip(names, parts, strict=True):
            try:
                files.move(name, f"{folder}/{part}")
            except FileNotFoundError:
                if not files.exists(f"{folder}/{part}"):
                    raise SkytideError(
                        f"{self.owned.path}/{name}: the unpublished results of batch number {sequence} are gone; "
                        "restore them, or go back with `skytide checkpoint back` to have the batch done again"
                    ) from None
        for entry in files.entries(folder) if len(names) > 1 or files.exists(f"{folder}/{_part(1)}") else ():
            if entry.name not in parts:  # an earlier attempt had more
                files.delete(f"{folder}/{entry.name}")
        files.settle([folder])

    def _clean(self, before: int) -> None:
        """Remove what attempts at earlier batches staged and never published."""
        for entry in self.owned.files.entries(OWN):
            sequence = sequence_of(entry.name)
            if sequence is not None and sequence < before:
                self.owned.files.delete(f"{OWN}/{entry.name}")


def is_staged(name: str) -> bool:
    """Return whether a file of results is staged in the folder of a sink, and not in the store."""
    return name.startswith(f"{OWN}/")


def codec_of(options: Mapping[str, str]) -> str:
    """Return the codec that the options of the sink "parquet" ask for; refuse all other options."""
    codec = "snappy"
    for name, value in options.items():
        if name.lower() != "compression":
            raise InvalidInput(
                value=f"options={{{name!r}: ...}}",
                reason='the sink "parquet" has the option "compression" only, as tasks write its files without Spark',
                remedy="leave it out, or pass a function that writes with Spark: lambda results, sequence: results.write...",
            )
        if str(value).lower() not in CODECS:
            raise InvalidInput(
                value=f"options={{{name!r}: ...}}", reason="not a codec", remedy=f"choose one of {', '.join(sorted(CODECS))}"
            )
        codec = CODECS[str(value).lower()]
    return codec


def _part(number: int) -> str:
    return f"part-{number:05}.parquet"
