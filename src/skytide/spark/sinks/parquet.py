"""Results as a folder of Parquet files that any reader can read at any time, and that belongs to one query."""

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
    """One folder for each number: `path/batch=12`. A number that comes again takes the place of the first, so each window is there once.

    A task writes beside, under a name of its own attempt, and only the driver lets readers see it. So a task that was given up and
    still writes changes nothing. Readers ignore what is beside, as its name begins with an underscore.
    """

    def __init__(self, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        """Write below a path; options are those of Arrow's file system."""
        self.path, self.files = os.fspath(path), Files(path, options)

    def __call__(self, results: DataFrame, number: int) -> None:
        """Write a DataFrame."""
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
        """Let readers see staged results, in place of earlier ones of that number; what is published may be published again."""
        folder = f"batch={number}"
        parts = [f"part-{part:05}.parquet" for part in range(len(staged))]
        for name, part in zip(staged, parts, strict=True):
            try:
                self.files.move(name, f"{folder}/{part}")
            except FileNotFoundError:
                if not self.files.exists(f"{folder}/{part}"):
                    raise SkytideError(
                        f"{self.path}/{name}: results of number {number} that are not published yet are gone; "
                        "restore them, or go back with `skytide checkpoint back` to let the batch be done again"
                    ) from None
        for entry in self.files.entries(folder) if len(staged) > 1 or self.files.exists(f"{folder}/part-00001.parquet") else ():
            if entry.name not in parts:  # an earlier try had more
                self.files.delete(f"{folder}/{entry.name}")

    def write(self, results: pa.Table, number: int) -> None:
        """Write results at once."""
        self.publish((self.stage(results, number),), number)

    def begin(self, columns: pa.Schema) -> None:
        """Let readers see an empty table with these columns until something comes."""
        first = "batch=-1/part-00000.parquet"
        if not self.files.exists(first):
            self.files.move(self.stage(columns.empty_table(), 0), first)

    def clear(self, number: int) -> None:
        """Remove what an earlier try wrote that now has nothing to write."""
        self.files.delete_folder(f"batch={number}")

    def clean(self, before_number: int) -> None:
        """Remove what tries of earlier numbers staged and never published."""
        for entry in self.files.entries(OWN):
            number = sequence_of(entry.name)
            if number is not None and number < before_number:
                self.files.delete(f"{OWN}/{entry.name}")

    def claim(self, identity: str, checkpoint: str) -> None:
        """Make the folder that of one query, which its checkpoint tells from others; refuse if it is not empty or another's."""
        self.check(identity)
        note = {"identity": identity, "checkpoint": checkpoint, "host": socket.gethostname()}
        try:
            if not self.files.create(OWNER, json.dumps(note).encode()):
                self.check(identity)  # another query was faster, or it is ours already
        except OSError as error:
            raise InvalidInput(value=f"path {self.path}", reason=str(error), remedy="choose a folder to write to") from None

    def check(self, identity: str) -> None:
        """Refuse a folder of another query, and one that holds what no query of ours wrote."""
        owner = self.files.read_if_there(OWNER)
        remedy = "choose another folder, or move this one away"
        if owner is not None:
            known = _note(owner)
            if known.get("identity") != identity:
                whose = known.get("checkpoint", "one that is not known")
                raise InvalidInput(
                    value=f"path {self.path}",
                    reason=f"it belongs to another query, with the checkpoint {whose}",
                    remedy=f"{remedy}; to go on with that query, start it with its checkpoint",
                )
        elif strange := [entry.name for entry in self.files.entries() if entry.name != OWN]:
            raise InvalidInput(
                value=f"path {self.path}",
                reason=f"it is not empty and not a folder of a query ({posixpath.join(self.path, strange[0])} is there)",
                remedy=remedy,
            )


def claim_all(sinks: Iterable[object], identity: str, checkpoint: str) -> None:
    """Claim the folders of all Parquet sinks among these, or none: outer ones first, as others may be inside."""
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
