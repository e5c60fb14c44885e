"""Files of object stores and of HDFS, through Arrow.

A file in an object store appears as a whole when it is closed, so it is written under its name at once: a draft would have to be copied.
All its data is ready before it is opened: closing a half-written file, because something failed, would publish that half.
"""

import contextlib
import posixpath
import uuid
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from skytide.spark.checkpoint.entry import Entry

SMALL_BYTES = 2**20  # to read so much takes no longer than to ask three times for less


class Remote:
    """What `Files` needs of a file system, done by one of Arrow's."""

    def __init__(self, fs: pafs.FileSystem) -> None:
        """Use a file system."""
        self._fs = fs
        self._renames = fs.type_name == "hdfs"

    def write(self, path: str, data: Any, *, durable: bool) -> None:
        """Write a file that readers see as a whole or not at all; what the store has confirmed is durable."""
        if not self._renames:
            return self._put(path, data)
        folder, name = posixpath.split(path)
        draft = posixpath.join(folder, f".{name}.{uuid.uuid4().hex}")
        self._fs.create_dir(folder, recursive=True)
        self._put(draft, data)
        self.move(draft, path)

    def settle(self, folders: Iterable[str]) -> None:
        """Do nothing: what the store has confirmed is there to stay."""

    def create(self, path: str, data: Any) -> bool:
        """Write a file unless its name is taken, and return whether it was written.

        Another writer may come in between: the owner of the checkpoint keeps two drivers apart.
        """
        if self.exists(path):
            return False
        self.write(path, data, durable=True)
        return True

    def open(self, path: str) -> Any:
        """Return an open file, to read any part of it."""
        return self._fs.open_input_file(path)

    def map(self, path: str) -> Any:
        """Return an open file that has been read as a whole."""
        with self._fs.open_input_file(path) as file:
            return pa.BufferReader(file.read_buffer())

    def seek(self, path: str) -> Any:
        """Return an open file to read some of: a small one has been read as a whole, which takes one request."""
        file = self._fs.open_input_file(path)
        return file if file.size() > SMALL_BYTES else pa.BufferReader(file.read_buffer())

    def entries(self, folder: str) -> list[Entry]:
        """Return what is in a folder; nothing if there is no such folder."""
        infos = self._fs.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
        return [
            Entry(info.base_name, info.type == pafs.FileType.Directory, info.size or 0, info.mtime_ns or 0)
            for info in infos
            if info.base_name
        ]

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        return bool(self._fs.get_file_info(path).type != pafs.FileType.NotFound)

    def move(self, source: str, target: str) -> None:
        """Rename a file, in place of what has that name; on an object store by a copy, which appears whole."""
        if self._renames:
            self._fs.create_dir(posixpath.dirname(target), recursive=True)
            self.delete_file(target)  # HDFS does not replace when it renames
            self._fs.move(source, target)
        else:
            if not self.exists(source):
                raise FileNotFoundError(source)  # Arrow does not distinguish this from other failures of a copy
            self._fs.copy_file(source, target)
            self.delete_file(source)

    def delete_file(self, path: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(path)

    def delete_folder(self, path: str) -> None:
        """Remove a folder, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(path)

    def lock(self, path: str, *, alone: bool) -> None:
        """Return None: these stores have no locks."""

    def _put(self, path: str, data: Any) -> None:
        with self._fs.open_output_stream(path) as file:
            file.write(data)
