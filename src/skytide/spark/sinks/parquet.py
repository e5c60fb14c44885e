"""Results as a folder of Parquet files that anything can read at any time."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from skytide.errors import InvalidInput, SkytideError
from skytide.spark.arrow import arrow_schema
from skytide.spark.checkpoint import fresh_name, sequence_of
from skytide.spark.checkpoint.folder import OWN, OwnedFolder, folder_of

SPARK_TYPES = "org.apache.spark.sql.parquet.row.metadata"
"""Where Spark's own Parquet files say what Parquet has no type for, such as intervals, variants and collations."""
CODECS = {"none": "none", "uncompressed": "none", "lz4_raw": "lz4"} | {
    name: name for name in ("snappy", "gzip", "lz4", "brotli", "zstd")
}
"""Spark's names of codecs, and Arrow's."""


class ParquetSink(OwnedFolder):
    """One folder per batch number: `path/batch=12`. A number that comes again replaces the earlier one, so each window is there once.

    A task writes to a folder beside, under a name of its own attempt, and only the driver makes it visible to readers. So an abandoned
    task that still writes changes nothing. Readers ignore the folder beside, as its name begins with an underscore.
    """

    def __init__(
        self, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None, *, compression: str = "snappy"
    ) -> None:
        """Write below a path; options are those of Arrow's file system."""
        super().__init__(path, options)
        self._compression, self._spark_types = compression, ""

    def __call__(self, results: DataFrame, number: int) -> None:
        """Write the results of a batch."""
        columns = arrow_schema(results.schema)

        def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = pa.Table.from_batches([batch.cast(columns) for batch in batches], columns)
            yield pa.RecordBatch.from_pydict({"name": [self.stage(rows, number)]})

        staged = results.coalesce(1).mapInArrow(stage, "name string").collect()
        if staged:
            self.publish((staged[0]["name"],), number)
        else:
            self.clear(number)

    def stage(self, results: pa.Table, number: int) -> str:
        """Write results where no reader sees them, and return the name to publish them by."""
        name = fresh_name(OWN, number, kind="parquet")
        if self._spark_types:
            results = results.replace_schema_metadata({**(results.schema.metadata or {}), SPARK_TYPES: self._spark_types})
        self.files.write_parquet(name, results, compression=self._compression)
        self.files.settle([OWN])  # a manifest will name it
        return name

    def has(self, staged: tuple[str, ...], number: int) -> bool:
        """Return whether these results of a batch are here, published or not."""
        parts = [f"{folder_of(number)}/part-{part:05}.parquet" for part in range(len(staged))]
        return all(self.files.exists(name) or self.files.exists(part) for name, part in zip(staged, parts, strict=True))

    def publish(self, staged: tuple[str, ...], number: int) -> None:
        """Make staged results visible to readers, in place of earlier ones of that number; publishing twice does no harm."""
        folder = folder_of(number)
        parts = [f"part-{part:05}.parquet" for part in range(len(staged))]
        for name, part in zip(staged, parts, strict=True):
            try:
                self.files.move(name, f"{folder}/{part}")
            except FileNotFoundError:
                if not self.files.exists(f"{folder}/{part}"):
                    raise SkytideError(
                        f"{self.path}/{name}: the unpublished results of batch number {number} are gone; "
                        "restore them, or go back with `skytide checkpoint back` to have the batch done again"
                    ) from None
        for entry in self.files.entries(folder) if len(staged) > 1 or self.files.exists(f"{folder}/part-00001.parquet") else ():
            if entry.name not in parts:  # an earlier attempt had more
                self.files.delete(f"{folder}/{entry.name}")
        self.files.settle([folder])

    def write(self, results: pa.Table, number: int) -> None:
        """Stage and publish results in one step."""
        self.publish((self.stage(results, number),), number)

    def begin(self, columns: pa.Schema, spark_types: StructType) -> None:
        """Show readers an empty table with these columns until something comes, and let Spark know its own types of them."""
        self._spark_types = spark_types.json()
        if not self.files.exists(f"{folder_of(-1)}/part-00000.parquet"):
            self.publish((self.stage(columns.empty_table(), 0),), -1)

    def clean(self, before_number: int) -> None:
        """Remove what attempts at earlier numbers staged and never published."""
        for entry in self.files.entries(OWN):
            number = sequence_of(entry.name)
            if number is not None and number < before_number:
                self.files.delete(f"{OWN}/{entry.name}")


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
                remedy="leave it out, or pass a function that writes with Spark: lambda results, batch_id: results.write...",
            )
        if str(value).lower() not in CODECS:
            raise InvalidInput(
                value=f"options={{{name!r}: ...}}", reason="not a codec", remedy=f"choose one of {', '.join(sorted(CODECS))}"
            )
        codec = CODECS[str(value).lower()]
    return codec
