"""The state of a continuous query: immutable Arrow files, and a manifest a batch that names those in force.

A manifest appears by an atomic rename, so a batch has happened wholly or not at all. Kept are the manifests of the latest batch (one
more if the last windows were let out after it) and the one before, with their files: Spark may repeat its latest batch.
"""

import json
import posixpath
import re
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skytide.batch import State
from skytide.errors import InvalidInput, SkytideError

FORMAT = 2


class Store:
    """Files under one folder, local or of any file system that Arrow knows by URI. Small enough to travel to the tasks."""

    def __init__(self, folder: str) -> None:
        """Use a folder, which is made if it is not there."""
        self.folder = folder if re.match(r"[A-Za-z][\w+.-]+:/", folder) else Path(folder).absolute().as_uri()
        self._open()

    def _open(self) -> None:
        try:
            self._fs, self._root = pafs.FileSystem.from_uri(self.folder)
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                value=self.folder, reason=str(error), remedy="choose a local folder, or one on hdfs://, s3://, gs:// or abfs://"
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as the folder's name."""
        return Store, (self.folder,)

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table under a name; readers see all of it or nothing."""
        with self._replacing(name) as place, pa.ipc.new_file(place, table.schema) as writer:
            writer.write_table(table)

    def write_parquet(self, name: str, table: pa.Table) -> None:
        """Write a table as Parquet; readers see all of it or nothing."""
        with self._replacing(name) as place:
            pq.write_table(table, place)

    def delete(self, folder: str) -> None:
        """Remove a folder, if it is there."""
        if self._fs.get_file_info(self._path(folder)).type != pafs.FileType.NotFound:
            self._fs.delete_dir(self._path(folder))

    def read_table(self, name: str) -> pa.Table:
        """Read a table."""
        with self._fs.open_input_file(self._path(name)) as file:
            return pa.ipc.open_file(file).read_all()

    def write_batches(self, name: str, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        """Write record batches under a name."""
        with self._replacing(name) as place, pa.ipc.new_file(place, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    def read_batches(self, name: str, first: int, count: int) -> pa.Table:
        """Read some record batches of a file."""
        with self._fs.open_input_file(self._path(name)) as file:
            reader = pa.ipc.open_file(file)
            return pa.Table.from_batches([reader.get_batch(at) for at in range(first, first + count)], reader.schema)

    def record(self, state: State) -> None:
        """Write a decision down."""
        with self._replacing(_manifest(state.sequence)) as place:
            place.write(json.dumps({"format": FORMAT, **state.to_json()}).encode())
        states = [self._load(sequence) for sequence in self._sequences()]
        latest = states[-1]
        start = max((old.sequence for old in states if old.batch < latest.batch), default=latest.sequence)
        kept = [old for old in states if old.sequence >= start]
        needed = {name for old in kept for name in (*old.files(), *old.output_files(), _manifest(old.sequence))}
        for folder in ("panes", "memory", "results", "verdicts", "late", "invalid", "suspects", "manifests"):
            for name in self._names(folder, drafts=True):
                if name not in needed and _sequence_of(name) < latest.sequence:
                    self._fs.delete_file(self._path(name))

    def emitted(self) -> int:
        """Return up to which number the sinks have everything."""
        if self._fs.get_file_info(self._path("emitted.json")).type == pafs.FileType.NotFound:
            return -1
        with self._fs.open_input_file(self._path("emitted.json")) as file:
            return int(file.read())

    def mark_emitted(self, sequence: int) -> None:
        """Note that the sinks have everything up to a number."""
        with self._replacing("emitted.json") as place:
            place.write(str(sequence).encode())

    def recorded(self, batch: int) -> State | None:
        """Return what a batch decided in an earlier try."""
        found = [s for s in map(self._load, self._sequences()) if s.batch == batch and not s.flushed]
        return found[-1] if found else None

    def take_over(self) -> None:
        """Become the only driver."""

    def before(self, batch: int) -> State:
        """Give the state that a batch starts from: the latest one that does not contain it."""
        states = [State(), *map(self._load, self._sequences())]
        fitting = [state for state in states if state.batch == batch - 1]
        if not fitting or states[-1].batch > batch:
            raise SkytideError(
                f"{self.folder}: holds the state after batch {states[-1].batch}, but Spark goes on with batch {batch}; "
                "what Spark and skytide note belongs together: restore the whole checkpoint folder, or start with another one"
            )
        return fitting[-1]

    def latest(self) -> State:
        """Give the latest state."""
        sequences = self._sequences()
        return self._load(sequences[-1]) if sequences else State()

    def latest_before_source(self, position: int) -> State:
        """Give the state that a batch starts from which begins at a position of skytide's own source."""
        for sequence in reversed(self._sequences()):
            state = self._load(sequence)
            if state.source_end <= position:
                return state
        return State()

    def _load(self, sequence: int) -> State:
        name = _manifest(sequence)
        with self._fs.open_input_file(self._path(name)) as file:
            values = json.loads(file.read())
        if values.pop("format") > FORMAT:
            raise SkytideError(
                f"{self.folder}/{name}: written by a newer skytide, in a format this one cannot read (it knows up to {FORMAT}); "
                "go on with that version, or start with another checkpoint folder"
            )
        return State.from_json(values)

    def _sequences(self) -> list[int]:
        return sorted(map(_sequence_of, self._names("manifests")))

    def _names(self, folder: str, drafts: bool = False) -> list[str]:
        found = self._fs.get_file_info(pafs.FileSelector(self._path(folder), allow_not_found=True))
        return [f"{folder}/{info.base_name}" for info in found if info.is_file and (drafts or not info.base_name.startswith("."))]

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, name)

    def _replacing(self, name: str) -> "_Replacing":
        return _Replacing(self._fs, self._path(name))


def _manifest(sequence: int) -> str:
    return f"manifests/{sequence:012}.json"


def _sequence_of(name: str) -> int:
    """Give the sequence a file or the draft of one belongs to."""
    return int(re.split(r"[-.]", posixpath.basename(name).lstrip("."))[0])


class _Replacing:
    """A file that takes its name when it is complete."""

    def __init__(self, fs: pafs.FileSystem, path: str) -> None:
        folder, name = posixpath.split(path)
        self._fs, self._path = fs, path
        self._draft = posixpath.join(folder, f".{name}.{uuid.uuid4().hex}")

    def __enter__(self) -> Any:
        self._fs.create_dir(posixpath.dirname(self._path), recursive=True)
        self._file = self._fs.open_output_stream(self._draft)
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        self._file.close()
        if kind is None:
            self._fs.move(self._draft, self._path)
        else:
            self._fs.delete_file(self._draft)
