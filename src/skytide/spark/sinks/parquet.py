"""Results as a folder of Parquet files that anything can read at any time, and that belongs to one query."""

import json
import os
import posixpath
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from skytide.errors import InvalidInput, SkytideError
from skytide.spark.checkpoint import Files, fresh_name, sequence_of
from skytide.spark.types import arrow_schema

OWN = "_skytide"
OWNER = f"{OWN}/owner.json"


class ParquetSink:
    """One folder per batch number: `path/batch=12`. A number that comes again replaces the earlier one, so each window is there once.

    A task writes to a folder beside, under a name of its own attempt, and only the driver makes it visible to readers. So an abandoned
    task that still writes changes nothing. Readers ignore the folder beside, as its name begins with an underscore.
    """

    def __init__(self, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        """Write below a path; options are those of Arrow's file system."""
        self.path, self.files = os.fspath(path), Files(path, options)

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
        self.files.write_parquet(name, results)
        return name

    def publish(self, staged: tuple[str, ...], number: int) -> None:
        """Make staged results visible to readers, in place of earlier ones of that number; publishing twice does no harm."""
        folder = f"batch={number}"
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

    def write(self, results: pa.Table, number: int) -> None:
        """Stage and publish results in one step."""
        self.publish((self.stage(results, number),), number)

    def begin(self, columns: pa.Schema) -> None:
        """Show readers an empty table with these columns until something comes."""
        first = "batch=-1/part-00000.parquet"
        if not self.files.exists(first):
            self.files.move(self.stage(columns.empty_table(), 0), first)

    def clear(self, number: int) -> None:
        """Remove what an earlier attempt wrote, as now there is nothing to write."""
        self.files.delete_folder(f"batch={number}")

    def clean(self, before_number: int) -> None:
        """Remove what attempts at earlier numbers staged and never published."""
        for entry in self.files.entries(OWN):
            number = sequence_of(entry.name)
            if number is not None and number < before_number:
                self.files.delete(f"{OWN}/{entry.name}")

    def claim(self, identity: str, checkpoint: str) -> None:
        """Make the folder belong to one query, identified by its checkpoint; refuse if it is not empty, or belongs to another."""
        self.check(identity)
        note = {"identity": identity, "checkpoint": checkpoint, "host": socket.gethostname()}
        try:
            if not self.files.create(OWNER, json.dumps(note).encode()):
                self.check(identity)  # another query was faster, or it is ours already
        except OSError as error:
            raise InvalidInput(value=f"path {self.path}", reason=str(error), remedy="choose a folder to write to") from None

    def check(self, identity: str) -> None:
        """Refuse a folder that belongs to another query, or that holds anything no query of ours wrote."""
        owner = self.files.read_if_there(OWNER)
        remedy = "choose another folder, or move this one away"
        if owner is not None:
            known = _note(owner)
            if known.get("identity") != identity:
                whose = known.get("checkpoint", "(unknown)")
                raise InvalidInput(
                    value=f"path {self.path}",
                    reason=f"it belongs to another query, with the checkpoint {whose}",
                    remedy=f"{remedy}; to continue that query, start it with its checkpoint",
                )
        elif strange := [entry.name for entry in self.files.entries() if entry.name != OWN]:
            raise InvalidInput(
                value=f"path {self.path}",
                reason=f"it is not empty and not a folder of a query ({posixpath.join(self.path, strange[0])} is there)",
                remedy=remedy,
            )


def claim_all(sinks: Iterable[object], identity: str, checkpoint: str) -> None:
    """Claim the folders of all Parquet sinks among these, or none: outer ones first, as others may be inside them."""
    folders = sorted((sink for sink in sinks if isinstance(sink, ParquetSink)), key=lambda sink: len(sink.files.root))
    for sink in folders:
        sink.check(identity)
    for sink in folders:
        sink.claim(identity, checkpoint)


def _note(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
