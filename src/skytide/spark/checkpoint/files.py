"""Files below one folder, wherever it is: tables, single record batches of them, and small notes."""

import os
import posixpath
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skytide.errors import InvalidInput
from skytide.records.secret import revealed
from skytide.spark.checkpoint.disk import Disk
from skytide.spark.checkpoint.entry import Entry
from skytide.spark.checkpoint.remote import Remote

DICTIONARY_BYTES = 2**16  # of a Parquet column: for more different values a dictionary takes longer to make than it is worth

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//[^/]*)?(/.*)?$")
_FRESH = re.compile(r"\.?(\d+)(?:--?\d+)*-[0-9a-f]{32}\.[a-z]+(?:\.[0-9a-f]{32})?")


class Files:
    """Files below a folder that is named by a path or a URI. Small enough to travel to the tasks.

    A URI is written as in Hadoop: a space is a space, and `%20` are three characters of a name. Files never change: readers
    see a whole file or none. Options are those of Arrow's file system for the scheme, such as `endpoint_override` for `s3a`.
    """

    def __init__(self, uri: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        """Use a folder, which is created with its first file."""
        self.options = dict(options or {})
        scheme, rest = _divided(os.fspath(uri))
        if scheme == "file":
            self.root = os.path.abspath(rest)
            self.uri = f"file://{self.root}"
            self._system: Disk | Remote = Disk()
        else:
            self.uri = os.fspath(uri).rstrip("/")
            fs, self.root = _file_system(self.uri, scheme, rest, self.options)
            self._system = Remote(fs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the folder's name and the options."""
        return Files, (self.uri, self.options)

    def __repr__(self) -> str:
        """Return the folder only: options may hold secrets."""
        return f"Files({self.uri!r})"

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a disk, local or mounted."""
        return isinstance(self._system, Disk)

    def write_table(self, name: str, table: pa.Table, *, durable: bool = True) -> None:
        """Write a table as an Arrow file."""
        self.write_batches(name, table.schema, table.to_batches(), durable=durable)

    def write_batches(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, durable: bool = True) -> None:
        """Write record batches as an Arrow file, from which `read_batches` reads any by their numbers."""
        data = pa.BufferOutputStream()
        with pa.ipc.new_file(data, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        self.put(name, data.getvalue(), durable=durable)

    def write_parquet(self, name: str, table: pa.Table, *, compression: str = "snappy", durable: bool = True) -> None:
        """Write a table as a Parquet file."""
        data = pa.BufferOutputStream()
        pq.write_table(table, data, dictionary_pagesize_limit=DICTIONARY_BYTES, compression=compression)
        self.put(name, data.getvalue(), durable=durable)

    def read_table(self, name: str) -> pa.Table:
        """Return all of an Arrow file."""
        with self._system.open(self._path(name)) as file:
            return pa.ipc.open_file(file).read_all()

    def read_batches(self, name: str, first: int = 0, count: int | None = None) -> list[pa.RecordBatch]:
        """Return some record batches of an Arrow file, reading no others."""
        with self._system.open(self._path(name)) as file:
            reader = pa.ipc.open_file(file)
            last = reader.num_record_batches if count is None else first + count
            return [reader.get_batch(number) for number in range(first, last)]

    def map_table(self, name: str) -> pa.Table:
        """Return all of an Arrow file that stays open: from a local disk nothing is copied."""
        return pa.ipc.open_file(self._system.map(self._path(name))).read_all()

    def open_batches(self, name: str) -> tuple[pa.ipc.RecordBatchFileReader, int]:
        """Return an Arrow file that stays open, and how many bytes of memory it takes: none if it is on a disk, as it is read in place."""
        file = self._system.map(self._path(name))
        return pa.ipc.open_file(file), 0 if self.is_local else int(file.size())

    def seek_batches(self, name: str) -> pa.ipc.RecordBatchFileReader:
        """Return an Arrow file that is open, of which some record batches are needed: of a large one, no others are read."""
        return pa.ipc.open_file(self._system.seek(self._path(name)))

    def map_batches(self, name: str, numbers: Iterable[int]) -> list[pa.RecordBatch]:
        """Return some record batches of an Arrow file, by their numbers, in the same way."""
        reader = pa.ipc.open_file(self._system.map(self._path(name)))
        return [reader.get_batch(number) for number in numbers]

    def put(self, name: str, data: Any, *, durable: bool = True) -> None:
        """Write bytes under a name, replacing what has it; if durable, a power failure does not lose them after `settle`."""
        self._system.write(self._path(name), data, durable=durable)

    def settle(self, folders: Iterable[str]) -> None:
        """Make sure that a power failure does not lose the files written to some folders."""
        self._system.settle(map(self._path, folders))

    def create(self, name: str, data: Any) -> bool:
        """Write bytes under a name unless it is taken, and return whether they were written."""
        return self._system.create(self._path(name), data)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        with self._system.open(self._path(name)) as file:
            return bytes(file.read())

    def read_if_there(self, name: str) -> bytes | None:
        """Return the bytes of a file, or None if there is no such file."""
        try:
            return self.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def exists(self, name: str) -> bool:
        """Return whether there is such a file or folder."""
        return self._system.exists(self._path(name))

    def entries(self, folder: str = "") -> list[Entry]:
        """Return what is in a folder, in order of names."""
        return sorted(self._system.entries(self._path(folder)))

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, without drafts, to be used with the other methods."""
        return [f"{folder}/{e.name}" for e in self.entries(folder) if not e.is_folder and not e.name.startswith(".")]

    def move(self, name: str, target: str) -> None:
        """Rename a file, replacing what has the new name."""
        self._system.move(self._path(name), self._path(target))

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._system.delete_file(self._path(name))

    def delete_folder(self, folder: str) -> None:
        """Remove a folder, if it is there."""
        self._system.delete_folder(self._path(folder))

    def lock(self, name: str, *, alone: bool) -> Any:
        """Lock a file, and return what holds it until it is closed; None if there are no locks. If others hold it, that is a BlockingIOError."""
        return self._system.lock(self._path(name), alone=alone)

    def _path(self, name: str) -> str:
        return posixpath.join(self.root, name) if name else self.root


def fresh_name(folder: str, sequence: int, *numbers: int, kind: str = "arrow") -> str:
    """Return a name that no other attempt uses, beginning with the sequence it belongs to.

    >>> sequence_of(fresh_name("panes", 12, -3))
    12
    """
    head = "-".join(map(str, (sequence, *numbers)))
    return f"{folder}/{head}-{uuid.uuid4().hex}.{kind}"


def sequence_of(name: str) -> int | None:
    """Return the sequence that a fresh name, or its draft, begins with; None if the name is of another kind.

    >>> sequence_of("panes/2024-report.arrow")
    """
    match = _FRESH.fullmatch(posixpath.basename(name))
    return int(match[1]) if match else None


def real_uri(uri: str) -> str:
    """Return a full URI such that the same folder has the same one."""
    scheme, _, path = uri.partition(":")
    if scheme == "file":
        return f"file://{os.path.realpath('/' + path.lstrip('/'))}"
    authority, _, below = path.removeprefix("//").partition("/")
    return f"{scheme}://{authority}{posixpath.normpath('/' + below)}".rstrip("/")


def _divided(uri: str) -> tuple[str, str]:
    """Return the scheme of a URI, and what comes after it; for a file, its path."""
    match = _URI.match(uri)
    if not match or (match[2] is None and match[3] is None):
        return "file", uri
    scheme = match[1].lower()
    return (scheme, match[3] or "/") if scheme == "file" else (scheme, uri.partition(":")[2].lstrip("/").rstrip("/"))


def _file_system(uri: str, scheme: str, rest: str, options: dict[str, Any]) -> tuple[pafs.FileSystem, str]:
    kinds = {"s3": "S3FileSystem", "s3a": "S3FileSystem", "gs": "GcsFileSystem"}
    try:
        if scheme in kinds and "?" not in rest:
            return getattr(pafs, kinds[scheme])(**revealed(options)), rest
        if scheme in ("abfs", "abfss") and options:
            container, _, path = rest.partition("/")
            return pafs.AzureFileSystem(**revealed(options)), posixpath.join(container.partition("@")[0], path)
        fs, root = pafs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, AttributeError, NotImplementedError) as error:
        raise InvalidInput(value=uri, reason=str(error).splitlines()[0], remedy=_remedy(scheme)) from None
    return fs, root


def _remedy(scheme: str) -> str:
    shared = "choose a folder that all hosts share, or one on s3a://, hdfs://, gs:// or abfss:// that Arrow can reach"
    return f"set HADOOP_HOME and CLASSPATH so that Arrow finds libhdfs, on all hosts, or {shared}" if scheme == "hdfs" else shared
