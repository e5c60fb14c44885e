"""The streams that have a file in a folder, listed anew only when the folder has changed.

A folder shows when a file was last added to it or removed. That time is as coarse as the system's clock, so it is believed only after a
while. Some stores never change it: so a folder is listed now and then in any case.
"""

import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ESCAPED = re.compile(rb"\\x([89a-f][0-9a-f]|5c)")
_LIKE_AN_ESCAPE = re.compile(r"\\(?=x([89a-f][0-9a-f]|5c))")
SETTLED_NS = 2_000_000_000
"""Two changes of a folder that are this far apart have different times."""
LIST_EVERY_NS = 10_000_000_000
GRAIN_NS = 50_000_000
"""Two changes of a file that are this far apart have different times."""


class Listing:
    """The streams in a folder when it was last listed."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Start without a listing."""
        self._clock_ns = clock_ns
        self._streams: frozenset[str] = frozenset()
        self._changed_ns = self._listed_ns = -1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle nothing: elsewhere the folder may be another one, or is not listed at all."""
        return Listing, ()

    def streams(self, folder: int, extension: str) -> frozenset[str]:
        """Return the names of the files with an extension in an open folder, without the extension; hidden ones are ignored."""
        now_ns, changed_ns = self._clock_ns(), os.fstat(folder).st_mtime_ns
        if changed_ns != self._changed_ns or not 0 <= now_ns - self._listed_ns < LIST_EVERY_NS:
            ending = f".{extension}"
            self._streams = frozenset(
                stream_of(name.removesuffix(ending)) for name in os.listdir(folder) if name.endswith(ending) and name[0] not in "._"
            )
            self._changed_ns = changed_ns if now_ns - changed_ns > SETTLED_NS else -1
            self._listed_ns = now_ns
        return self._streams


class Unchanged:
    """When files had last changed when they were checked. As that time is as coarse as the system's clock, it is believed only after a while."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Begin without any."""
        self._clock_ns = clock_ns
        self._changed_ns: dict[str, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle nothing: tasks check their own ranges."""
        return Unchanged, ()

    def since(self, stream: str, changed_ns: int) -> None:
        """Note that the file of a stream was checked after it had changed at a time."""
        if self._clock_ns() - changed_ns > GRAIN_NS:
            self._changed_ns[stream] = changed_ns
        else:
            self._changed_ns.pop(stream, None)

    def changed_ns(self, streams: Sequence[str]) -> NDArray[np.int64]:
        """Return when files had changed that were checked since, 0 for others; forget those of streams that are gone, if they are many."""
        if len(self._changed_ns) > 2 * len(streams):
            self._changed_ns = {stream: self._changed_ns[stream] for stream in streams if stream in self._changed_ns}
        return np.fromiter((self._changed_ns.get(stream, 0) for stream in streams), np.int64, len(streams))


def stream_of(file: str) -> str:
    """Return the stream of a file's name as the system gives it; bytes that are not UTF-8 are written as `\\xff`.

    >>> stream_of("caf\\udce9")
    'caf\\\\xe9'
    """
    if file.isascii() and "\\" not in file:
        return file
    return os.fsencode(_LIKE_AN_ESCAPE.sub(r"\\x5c", file)).decode("utf-8", "backslashreplace")


def file_of(stream: str) -> str:
    """Return the name of the file of a stream.

    >>> file_of(stream_of("caf\\udce9")) == "caf\\udce9"
    True
    """
    if "\\x" not in stream:
        return stream
    return os.fsdecode(_ESCAPED.sub(lambda escape: bytes.fromhex(escape[1].decode()), os.fsencode(stream)))
