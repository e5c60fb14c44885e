"""The state of a continuous query: immutable Arrow files, and a manifest a batch that names those in force.

A manifest appears by an atomic rename, so a batch has happened wholly or not at all. The files of the two latest manifests are kept:
Spark may repeat its latest batch, which then starts again from the manifest before.
"""

import json
import posixpath
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skytide.errors import SkytideError
from skytide.lateness import Progress

FORMAT = 1


@dataclass(frozen=True)
class State:
    """Everything that a batch needs to know of those before it."""

    batch: int = -1
    """The latest batch of Spark's that went in."""
    sequence: int = -1
    """The number of the latest output: that of the batch, and one more for each flush so far."""
    flushed: bool = False
    progress: Progress = field(default_factory=Progress)
    slack: dict[str, Any] = field(default_factory=dict)
    tuples: dict[int, int] = field(default_factory=dict)
    """Of each pane that a window to come still needs, the number of its tuples."""
    open: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Of each pane that has not been added to the memory, the files with its partial results."""
    memory: str | None = None
    """The file with what is remembered of closed panes."""
    late_reported: int = 0
    windows_out: int = 0
    source_end: int = 0
    """For a source of skytide's own: where the batch ended."""

    def files(self) -> set[str]:
        """Give the names of all files the state rests on."""
        return {name for names in self.open.values() for name in names} | ({self.memory} if self.memory else set())

    def to_json(self) -> dict[str, Any]:
        """Give plain values."""
        return {**vars(self), "progress": vars(self.progress)}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "State":
        """Read what `to_json` gave."""
        known = dict(values)
        known["progress"] = Progress(**known["progress"])
        known["tuples"] = {int(pane): count for pane, count in known["tuples"].items()}
        known["open"] = {int(pane): tuple(names) for pane, names in known["open"].items()}
        return State(**known)


class Store:
    """Files under one folder, local or of any file system that Arrow knows by URI. Small enough to travel to the tasks."""

    def __init__(self, folder: str) -> None:
        """Use a folder, which is made if it is not there."""
        self.folder = folder if "://" in folder else Path(folder).absolute().as_uri()
        self._open()

    def _open(self) -> None:
        self._fs, self._root = pafs.FileSystem.from_uri(self.folder)

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

    def commit(self, state: State) -> None:
        """Make a state the one that the next batch starts from, and remove what no batch can ask for any more."""
        text = json.dumps({"format": FORMAT, **state.to_json()})
        with self._replacing(f"manifests/{state.sequence:012}.json") as place:
            place.write(text.encode())
        latest = self._sequences()[-2:]
        needed = {name for sequence in latest for name in self._load(sequence).files()}
        for folder in ("panes", "memory", "results", "late"):
            for name in self._names(folder):
                if name not in needed and int(posixpath.basename(name).split("-")[0]) < latest[-1]:
                    self._fs.delete_file(self._path(name))
        for sequence in self._sequences()[:-2]:
            self._fs.delete_file(self._path(f"manifests/{sequence:012}.json"))

    def before(self, batch: int) -> State:
        """Give the state that a batch starts from: the latest one that does not contain it."""
        for sequence in reversed(self._sequences()):
            state = self._load(sequence)
            if state.batch < batch:
                return state
        return State()

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
        name = f"manifests/{sequence:012}.json"
        with self._fs.open_input_file(self._path(name)) as file:
            values = json.loads(file.read())
        if values.pop("format") > FORMAT:
            raise SkytideError(
                f"{self.folder}/{name}: written by a newer skytide, in a format this one cannot read (it knows up to {FORMAT}); "
                "go on with that version, or start with another checkpoint folder"
            )
        return State.from_json(values)

    def _sequences(self) -> list[int]:
        return sorted(int(posixpath.basename(name).split(".")[0]) for name in self._names("manifests"))

    def _names(self, folder: str) -> list[str]:
        found = self._fs.get_file_info(pafs.FileSelector(self._path(folder), allow_not_found=True))
        return [f"{folder}/{info.base_name}" for info in found if info.is_file and not info.base_name.startswith(".")]

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, name)

    def _replacing(self, name: str) -> "_Replacing":
        return _Replacing(self._fs, self._path(name))


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
