"""What a task has of the chunks that its slot remembers: those in memory at once, the others while it works."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from skytide.keyed import Chunk, StoredChunk
from skytide.keyed.state import STATES
from skytide.spark.checkpoint import Files
from skytide.spark.engine.cache import cache

READERS = 8
"""Chunks that are read at once. From a disk they are read in place, which needs none."""
Value = TypeVar("Value")


class Chunks:
    """The chunks of a slot; used as a context, as it may have readers."""

    def __init__(self, files: Files, stored: Sequence[StoredChunk], key: pa.Schema) -> None:
        """Begin to read those that are not in memory; `key` are the columns of keys."""
        self._files, self._key = files, key
        self._there: dict[str, Chunk] = {}
        missing = []
        for chunk in stored:
            known = cache.find(files.uri, chunk.file)
            if known is None:
                missing.append(chunk)
            else:
                self._there[chunk.file] = known
        self.found, self.read = len(self._there), len(missing)
        self._readers = ThreadPoolExecutor(min(READERS, len(missing))) if missing and not files.is_local else None
        submit: Callable[..., Future[Chunk]] = self._readers.submit if self._readers else _at_once
        self._coming = {chunk.file: submit(self._read, chunk) for chunk in missing}

    def __enter__(self) -> "Chunks":
        """Return these chunks."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Read no more."""
        if self._readers is not None:
            self._readers.shutdown(cancel_futures=True)

    def is_there(self, stored: StoredChunk) -> bool:
        """Return whether a chunk can be had without waiting."""
        return stored.file in self._there or self._coming[stored.file].done()

    def get(self, stored: StoredChunk) -> Chunk:
        """Return a chunk, as soon as it is there."""
        if stored.file not in self._there:
            self._there[stored.file] = self._coming[stored.file].result()
        return self._there[stored.file]

    def _read(self, stored: StoredChunk) -> Chunk:
        files = self._files
        chunk = Chunk.from_table(files.map_table(stored.file))
        for field in self._key if stored.kind == STATES else ():
            if field.name not in chunk.rows.column_names:  # earlier versions stored no keys beside states
                chunk = replace(chunk, rows=chunk.rows.append_column(field, pa.nulls(chunk.rows.num_rows, field.type)))
        cache.add(files.uri, stored.file, chunk, chunk.hashes.nbytes * 3 if files.is_local else chunk.nbytes)
        return chunk


def _at_once(read: Callable[..., Value], *values: Any) -> "Future[Value]":
    """Return the outcome of a call that is made right here."""
    done: Future[Value] = Future()
    done.set_result(read(*values))
    return done
