"""Processes the tuples of the keys of a slot: admitted tuples continue from what is remembered."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skytide.errors import SkytideError
from skytide.keyed.answers import Answer
from skytide.keyed.chunk import Chunk, Live, Numbers, all_keys, gathered, joined
from skytide.keyed.collected import Collected
from skytide.keyed.operator import Operator
from skytide.keyed.windows import CountWindows, TimeWindows, as_columns, bounds_schema

HASH = "__skytide_hash"
STATE = "__skytide_state"
STATES = pa.schema([(STATE, pa.large_binary())])
Chunks = Sequence[tuple[Chunk, Live]]


@dataclass(frozen=True)
class Worked:
    """The outcome of processing tuples."""

    results: pa.Table
    windows: int
    rows: Chunk | None = None
    """Rows to add to the memory."""
    states: Chunk | None = None
    """Changed states."""
    due_us: int | None = None
    """When the next window ends, if windows end by time and any is open."""


@dataclass(frozen=True)
class KeyedStep:
    """An operator on the tuples of each key: in windows, or on all of them as they come."""

    keys: tuple[str, ...]
    time: str
    columns: pa.Schema
    """The columns of the tuples."""
    windows: CountWindows | TimeWindows | None = None
    answer: Answer | None = None
    """Answers windows without a state."""
    operator: Operator | None = None
    """Answers with a state, if there is no `answer`."""
    helpers: tuple[str, ...] = ()
    """Columns that do not belong to the results."""

    @cached_property
    def remembered(self) -> pa.Schema:
        """Return the columns of tuples that are remembered."""
        wanted = {*self.keys, self.time, *(self.answer.columns(self.columns) if self.answer else self.columns.names)}
        return pa.schema([field for field in self.columns if field.name in wanted])

    @cached_property
    def own(self) -> pa.Schema:
        """Return the columns that the operator or query adds, without those of the key."""
        found = self.answer.schema(self.columns) if self.answer else self._operator.schema(self.columns, self.keys)
        return pa.schema([field for field in found if field.name not in (*self.keys, *self.helpers)])

    @cached_property
    def bounds(self) -> pa.Schema:
        """Return the columns that identify the window of a result."""
        return bounds_schema(self.windows, self.columns.field(self.time).type) if self.windows else pa.schema([])

    @cached_property
    def results(self) -> pa.Schema:
        """Return all columns of the results."""
        return pa.schema([*(self.columns.field(key) for key in self.keys), *self.bounds, *self.own])

    @property
    def _operator(self) -> Operator:
        assert self.operator is not None
        return self.operator

    def work(
        self, rows: pa.Table, hashes: NDArray[np.uint64], log: Chunks, states: Chunks, since_us: int | None, until_us: int
    ) -> Worked:
        """Process admitted tuples, in any order, with the hashes of their keys, and return the outcome."""
        came = self._sorted(rows, hashes)
        if self.windows is None:
            return self._stream(came, states)
        known = came.hashes if isinstance(self.windows, CountWindows) else np.union1d(all_keys(log), came.hashes)
        before = gathered(log, known, self.remembered, self.windows.limit)
        came = _with_keys(came, known)
        added = came.after(before.totals)
        whole = joined(before, Chunk(added.rows.select(self.remembered.names), added.hashes, added.starts, added.totals))
        times = _times(whole.rows, self.time)
        cut = self.windows.cut(whole, times, before.totals, since_us, until_us)
        if self.answer is not None:
            found, counts = self.answer.windows(whole.rows, cut.begins, cut.ends)
            changed = None
        else:
            found, counts, changed = self._windows_with_state(whole, cut.keys, cut.begins, cut.ends, states)
        results = self._named(whole.rows, cut.begins, found, counts, as_columns(cut, self.bounds, counts))
        if isinstance(self.windows, CountWindows):
            kept = came.after(before.totals).only(came.counts > 0).last(self.windows.length - 1)
            log_after = Chunk(kept.rows.select(self.remembered.names), kept.hashes, kept.starts, kept.totals)
            return Worked(results, len(cut), log_after if len(kept) else None, changed)
        after = self.windows.needed(whole, times, until_us)
        due = None
        if after.rows.num_rows:
            panes = self.windows.windows
            due = panes.end_us(
                max(
                    int(panes.first_of_pane(panes.pane_of(int(_times(after.rows, self.time).min())))),
                    panes.last_ended_by(until_us) + 1,
                )
            )
        log_after = came.after(before.totals).only(came.counts > 0)
        kept_rows = Chunk(log_after.rows.select(self.remembered.names), log_after.hashes, log_after.starts, log_after.totals)
        return Worked(results, len(cut), kept_rows if len(kept_rows) else None, changed, due)

    def name_of(self, rows: pa.Table, place: int) -> str:
        """Return the name of a tuple's key."""
        return ", ".join(str(rows[key][place].as_py()) for key in self.keys)

    def trimmed(self, log: Chunk, until_us: int) -> Chunk:
        """Return only those remembered rows that a later window may hold."""
        if self.windows is None or not len(log):
            return log
        return self.windows.needed(log, _times(log.rows, self.time), until_us)

    def _sorted(self, rows: pa.Table, hashes: NDArray[np.uint64]) -> Chunk:
        """Return tuples sorted by key, then by time, then by their values, so that the order never depends on how they arrived."""
        times = _times(rows, self.time)
        order = np.lexsort((times, hashes))
        hashes, times = hashes[order], times[order]
        same = (hashes[1:] == hashes[:-1]) & (times[1:] == times[:-1])
        if same.any():
            order = self._settled(rows, order, same)
        rows = rows.combine_chunks().take(pa.array(order))
        self._check_keys(rows, hashes)
        return Chunk.of_sorted(rows, hashes)

    def _settled(self, rows: pa.Table, order: Numbers, same: NDArray[np.bool_]) -> Numbers:
        """Return the order with ties decided by the values of all columns."""
        tied = np.zeros(len(order), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        places = np.flatnonzero(tied)
        runs = np.cumsum(np.concatenate([np.ones(1, np.bool_), ~same]))[places]
        some = rows.take(pa.array(order[places]))
        texts = {f"c{number}": _orderable(some.column(number)) for number in range(some.num_columns)}
        table = pa.table({"run": runs, **texts})
        within = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names]).to_numpy()
        after = order.copy()
        after[places] = order[places][within]
        return after

    def _check_keys(self, rows: pa.Table, hashes: NDArray[np.uint64]) -> None:
        """Refuse two keys with the same hash: with 200,000 keys the chance is 1 in 10**9, and mixing them up would be worse."""
        same = hashes[1:] == hashes[:-1]
        for key in self.keys:
            column = rows[key].combine_chunks()
            differs = np.asarray(pc.fill_null(pc.not_equal(column[1:], column[:-1]), False).to_numpy(zero_copy_only=False))
            if pa.types.is_floating(column.type):
                differs = differs & ~(np.asarray(pc.is_nan(column[1:])) & np.asarray(pc.is_nan(column[:-1])))
            if (differs & same).any():
                raise SkytideError(f"two values of {key} have the same hash; add another key column that distinguishes them")

    def _stream(self, came: Chunk, states: Chunks) -> Worked:
        """Pass each key's tuples to the operator, without windows, and return the outcome."""
        before = gathered(states, came.hashes, STATES, 1)
        keys, known = self._keys(came.rows, came.starts[:-1]), self._known(before)
        results, after = Collected(self._operator.name, self.own, self.keys), []
        for number, (start, end) in enumerate(zip(came.starts[:-1].tolist(), came.starts[1:].tolist(), strict=True)):
            state, found = self._operator.process(
                keys[number], self._state(known[number], keys[number]), came.rows.slice(start, end - start)
            )
            results.add(found)
            after.append(self._operator.packed(state))
        table, counts = results.table()
        named = self._named(came.rows, came.starts[:-1], table, counts, {})
        return Worked(named, 0, None, self._states(came.hashes, after, before.totals))

    def _windows_with_state(
        self, rows: Chunk, keys: Numbers, begins: Numbers, ends: Numbers, states: Chunks
    ) -> tuple[pa.Table, Numbers, Chunk | None]:
        """Pass each window to the operator, those of a key one after the other, and return results, their counts and changed states."""
        places, firsts = np.unique(keys, return_index=True)
        before = gathered(states, rows.hashes[places], STATES, 1)
        values, known = self._keys(rows.rows, begins[firsts]), self._known(before)
        results, after = Collected(self._operator.name, self.own, self.keys), []
        for number, (first, stop) in enumerate(zip(firsts.tolist(), [*firsts[1:].tolist(), len(keys)][: len(firsts)], strict=True)):
            state = self._state(known[number], values[number])
            for begin, end in zip(begins[first:stop].tolist(), ends[first:stop].tolist(), strict=True):
                state, found = self._operator.process(values[number], state, rows.rows.slice(begin, end - begin))
                results.add(found)
            after.append(self._operator.packed(state))
        table, counts = results.table()
        return table, counts, self._states(rows.hashes[places], after, before.totals)

    def _known(self, before: Chunk) -> list[bytes | None]:
        """Return the stored state of each key, or None."""
        kept: list[bytes | None] = [None] * len(before)
        for place, state in zip(before.keys_of_rows().tolist(), before.rows[STATE].to_pylist(), strict=True):
            kept[place] = state
        return kept

    def _state(self, kept: bytes | None, key: Any) -> Any:
        return self._operator.open(key) if kept is None else self._operator.unpacked(kept)

    def _states(self, hashes: NDArray[np.uint64], after: list[bytes], totals: Numbers) -> Chunk | None:
        if not after:
            return None
        rows = pa.table({STATE: pa.array(after, pa.large_binary())})
        return Chunk(rows, hashes, np.arange(len(after) + 1), totals + 1)

    def _keys(self, rows: pa.Table, places: Numbers) -> list[Any]:
        """Return the key of each of some rows: a value, or a tuple of values."""
        columns = [rows[key].take(pa.array(places)).to_pylist() for key in self.keys]
        if len(columns) == 1:
            return columns[0]  # type: ignore[no-any-return]
        return list(zip(*columns, strict=True)) if columns else [()] * len(places)

    def _named(self, rows: pa.Table, first: Numbers, found: pa.Table, counts: Numbers, bounds: dict[str, pa.Array]) -> pa.Table:
        """Return results preceded by the values of the key and the bounds of the window; `first` is a row of each key or window."""
        places = pa.array(np.repeat(first, counts))
        columns = {key: rows[key].take(places) for key in self.keys} | bounds
        columns |= {name: found[name] for name in self.own.names}
        return pa.table(columns).cast(self.results) if columns else found


def _with_keys(came: Chunk, known: NDArray[np.uint64]) -> Chunk:
    """Return the same rows with more keys, some of which have no rows."""
    if len(known) == len(came):
        return came
    places = np.searchsorted(known, came.hashes)
    counts = np.zeros(len(known), np.int64)
    counts[places] = came.counts
    return Chunk(came.rows, known, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), counts)


def _times(rows: pa.Table, time: str) -> Numbers:
    return np.asarray(rows[time].cast(pa.int64()).to_numpy())


def _orderable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that can be put in some order, whatever their type."""
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type) or pa.types.is_dictionary(column.type):
        return pa.chunked_array([pa.array([repr(value) for value in column.to_pylist()], pa.string())])
    if pa.types.is_floating(column.type):
        kind = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width]
        return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)
    return column
