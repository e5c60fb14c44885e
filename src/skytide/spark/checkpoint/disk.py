"""Files on a disk, local or mounted: plain system calls, forced to the disk where that matters."""

import contextlib
import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from skytide.spark.checkpoint.entry import Entry

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES}


class Disk:
    """What `Files` needs of a file system, done by a local one."""

    def write(self, path: str, data: Any, *, durable: bool) -> None:
        """Write a file that gets its name when it is complete; if durable, its content is on the disk then, and its name after `settle`."""
        draft = _draft(path)
        try:
            _write(draft, data, durable)
            os.replace(draft, path)
        except BaseException:
            _remove(draft)
            raise

    def settle(self, folders: Iterable[str]) -> None:
        """Force the names of files in some folders to the disk: all at once, as each folder costs as much as a file."""
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                sync_folder(folder)

    def create(self, path: str, data: Any) -> bool:
        """Write a file unless its name is taken, and return whether it was written: of several writers, one wins."""
        draft = _draft(path)
        try:
            _write(draft, data, True)
            try:
                os.link(draft, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return _create_in_place(path, data)  # its checksum shows whether it was cut off
        finally:
            _remove(draft)
            sync_folder(os.path.dirname(path))
        return True

    def open(self, path: str) -> Any:
        """Return an open file, to read any part of it."""
        return pa.OSFile(path)

    def map(self, path: str) -> Any:
        """Return an open file whose bytes are read in place, as long as somebody uses them."""
        return pa.memory_map(path)

    seek = map

    def entries(self, folder: str) -> list[Entry]:
        """Return what is in a folder, including drafts; nothing if there is no such folder."""
        entries = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as listing:
            for entry in listing:
                with contextlib.suppress(FileNotFoundError):  # removed by another process since
                    status = entry.stat()
                    entries.append(Entry(entry.name, entry.is_dir(), status.st_size, status.st_mtime_ns))
        return entries

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        return os.path.lexists(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file, in place of what has that name."""
        _make_folder(os.path.dirname(target))
        os.replace(source, target)

    def delete_file(self, path: str) -> None:
        """Remove a file, if it is there."""
        _remove(path)

    def delete_folder(self, path: str) -> None:
        """Remove a folder, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def lock(self, path: str, *, alone: bool) -> "Held | None":
        """Lock a file until it is closed or the process ends, shared or alone, and return it; None on a file system without locks.

        If others hold it, that is a BlockingIOError.
        """
        _make_folder(os.path.dirname(path))
        held = Held(os.open(path, os.O_RDWR | os.O_CREAT, 0o666))
        try:
            fcntl.flock(held, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            held.close()
            raise
        except OSError:
            held.close()
            return None
        return held


class Held:
    """An open, locked file."""

    def __init__(self, number: int) -> None:
        """Hold an open file by its number."""
        self.number: int | None = number

    def fileno(self) -> int:
        """Return the number of the open file, or -1 if it is closed."""
        return -1 if self.number is None else self.number

    def close(self) -> None:
        """Unlock and close the file."""
        if self.number is not None:
            os.close(self.number)
            self.number = None

    __del__ = close


def sync_folder(folder: str) -> None:
    """Force the names in a folder to the disk."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:  # some file systems have nothing to force here
            raise
    finally:
        os.close(place)


def _draft(path: str) -> str:
    folder, name = os.path.split(path)
    _make_folder(folder)
    return os.path.join(folder, f".{name}.{uuid.uuid4().hex}")


def _make_folder(folder: str) -> None:
    if not os.path.isdir(folder):
        parent = os.path.dirname(folder)
        _make_folder(parent)
        os.makedirs(folder, exist_ok=True)
        sync_folder(parent)


def _write(path: str, data: Any, durable: bool) -> None:
    with open(path, "xb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        if durable:
            os.fsync(file.fileno())


def _create_in_place(path: str, data: Any) -> bool:
    try:
        _write(path, data, True)
    except FileExistsError:
        return False
    return True


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
