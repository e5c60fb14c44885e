"""Processes the tuples of the keys of a slot: admitted tuples continue from what is remembered."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.keyed.answers import AggregateAnswer, Answer, OperatorAnswer, QueryAnswer
from skytide.keyed.chunk import Chunk, Live, Numbers, all_keys, ends, gathered, joined
from skytide.keyed.collected import Collected
from skytide.keyed.costs import Spent, timed_answers
from skytide.keyed.key_set import KeySet, key_starts, union
from skytide.keyed.operator import Operator
from skytide.keyed.ordering import order_of_ties
from skytide.keyed.windows import TICK_US, CountWindows, TimeWindows, as_columns, bounds_schema
from skytide.queries import Aggregate, Query
from skytide.queries.columns import named_twice
from skytide.windows import Windows

HASH = "__skytide_hash"
STATE = "__skytide_state"
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
    expired: tuple[int, ...] = ()
    """The places of remembered chunks that no later window needs."""
    spent: Spent | None = None
    """How long each key took, if that was measured."""


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
    order: tuple[str, ...] = ()
    """Columns that order tuples of equal times, before their values do."""
    tick_us: int = TICK_US
    """The resolution of time without windows."""

    @staticmethod
    def of(
        asked: Query | Operator,
        keys: tuple[str, ...],
        time: str,
        columns: pa.Schema,
        windows: CountWindows | TimeWindows | None,
        helpers: tuple[str, ...] = (),
        order: tuple[str, ...] = (),
        tick_us: int = TICK_US,
    ) -> "KeyedStep":
        """Return the step that asks a query or an operator in the quickest way there is; refuse what has no sense on keys."""
        answer: Answer | None = None
        if isinstance(asked, Query):
            if isinstance(asked, Aggregate) and asked.keys:
                raise InvalidInput(value="aggregate(keys=...)", reason="the windows are per key already", remedy="leave keys out")
            answer = (
                AggregateAnswer(asked)
                if isinstance(asked, Aggregate) and AggregateAnswer.can(asked, columns)
                else QueryAnswer(asked)
            )
        elif asked.is_vectorised and windows is not None:
            answer = OperatorAnswer(asked, keys)
        operator = asked if isinstance(asked, Operator) else None
        step = KeyedStep(keys, time, columns, windows, answer, operator, helpers, order, tick_us)
        if name := named_twice(step.results.names, columns):
            raise InvalidInput(value=f"result {name}", reason="named twice", remedy="let the operator give it another name")
        return step

    @property
    def tick(self) -> Windows:
        """Return the resolution of time in which tuples are let in."""
        return self.windows.tick if self.windows else Windows(self.tick_us, self.tick_us)

    @cached_property
    def remembered(self) -> pa.Schema:
        """Return the columns of tuples that are remembered."""
        wanted = {*self.keys, self.time, *(self.answer.columns(self.columns) if self.answer else self.columns.names)}
        return pa.schema([field for field in self.columns if field.name in wanted])

    @cached_property
    def key(self) -> pa.Schema:
        """Return the columns of the key."""
        return pa.schema([self.columns.field(name) for name in self.keys])

    @cached_property
    def states(self) -> pa.Schema:
        """Return the columns in which states are remembered."""
        return pa.schema([(STATE, pa.large_binary()), *self.key])

    @cached_property
    def own(self) -> pa.Schema:
        """Return the columns that the operator or query adds, without those of the key."""
        columns = self.answer.schema(self.columns) if self.answer else self._operator.schema(self.columns, self.keys)
        return pa.schema([field for field in columns if field.name not in (*self.keys, *self.helpers)])

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
        keys = came.keys(self.key)
        if isinstance(self.windows, TimeWindows):  # windows of keys without new tuples end, too
            log = [(self.trimmed(chunk, since_us), live) for chunk, live in log]
            keys = union([all_keys(log, self.key), keys], self.key)
        before = gathered(log, keys, self.key, self.remembered, self.windows.limit)
        came = self._with_keys(came, keys)
        added = came.after(before.totals)
        whole = joined(before, Chunk(added.rows.select(self.remembered.names), added.hashes, added.starts, added.totals))
        times = _times(whole.rows, self.time)
        cut = self.windows.cut(whole, times, before.totals, since_us, until_us)
        if self.answer is not None:
            answers, counts, spent = timed_answers(self.answer, whole, cut)
            changed = None
        else:
            answers, counts, changed, spent = self._windows_with_state(whole, cut.keys, cut.begins, cut.ends, states)
        results = self._named(whole.rows, cut.begins, answers, counts, as_columns(cut, self.bounds, counts))
        if isinstance(self.windows, CountWindows):
            kept = came.after(before.totals).only(came.counts > 0).last(self.windows.limit)
            log_after = Chunk(kept.rows.select(self.remembered.names), kept.hashes, kept.starts, kept.totals)
            return Worked(results, len(cut), log_after if len(kept) else None, changed, spent=spent)
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
        kept = self.condensed(Chunk(added.rows.select(self.remembered.names), added.hashes, added.starts, added.totals), until_us)
        expired = tuple(place for place, (chunk, _) in enumerate(log) if not len(self.trimmed(chunk, until_us)))
        return Worked(results, len(cut), kept if len(kept) else None, changed, due, expired, spent)

    def _with_keys(self, came: Chunk, keys: KeySet) -> Chunk:
        """Return the same rows with more keys, some of which have no rows."""
        if len(keys) == len(came):
            return came
        counts = np.zeros(len(keys), np.int64)
        counts[keys.find(came.keys(self.key))] = came.counts
        return Chunk(came.rows, keys.hashes, ends(counts), counts)

    def name_of(self, rows: pa.Table, place: int) -> str:
        """Return the name of a tuple's key."""
        return ", ".join(str(rows[key][place].as_py()) for key in self.keys)

    def trimmed(self, log: Chunk, until_us: int | None) -> Chunk:
        """Return only those remembered rows that a window may hold that has not ended by a time."""
        if self.windows is None or until_us is None or not len(log):
            return log
        return self.windows.needed(log, _times(log.rows, self.time), until_us)

    def condensed(self, log: Chunk, until_us: int) -> Chunk:
        """Return only those of them that can still matter, if windows end by time: all that are open at a time hold all later rows."""
        log = self.trimmed(log, until_us)
        if self.answer is None or not isinstance(self.windows, TimeWindows):
            return log
        return log.where(self.answer.needed(log.rows, log.starts))

    def _sorted(self, rows: pa.Table, hashes: NDArray[np.uint64]) -> Chunk:
        """Return tuples sorted by key, then by time, then by the columns of the order and by all values, so that the order never depends on how they arrived."""
        times = _times(rows, self.time)
        order, given = np.lexsort((times, hashes)), hashes
        hashes, times = hashes[order], times[order]
        same = (hashes[1:] == hashes[:-1]) & (times[1:] == times[:-1])
        if same.any():
            order = self._settled(rows, order, same)
        starts, order = key_starts(rows.select(self.keys), given, order)
        bounds = np.append(starts, len(order)).astype(np.int64)
        rows = rows.combine_chunks().take(pa.array(order))
        return Chunk(rows, given[order[starts]], bounds, np.diff(bounds))

    def _settled(self, rows: pa.Table, order: Numbers, same: NDArray[np.bool_]) -> Numbers:
        """Return the order with ties decided by the columns that the user named, then by the values of all columns."""
        tied = np.zeros(len(order), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        places = np.flatnonzero(tied)
        runs = np.cumsum(np.concatenate([np.ones(1, np.bool_), ~same]))[places]
        some = rows.take(pa.array(order[places]))
        after = order.copy()
        after[places] = order[places][order_of_ties(some, runs, self.order)]
        return after

    def _stream(self, came: Chunk, states: Chunks) -> Worked:
        """Pass each key's tuples to the operator, without windows, and return the outcome."""
        known_keys = came.keys(self.key)
        before = gathered(states, known_keys, self.key, self.states, 1)
        keys, known = self._keys(came.rows, came.starts[:-1]), self._known(before)
        results = Collected(self._operator.name, self.own, self.keys)
        after: list[bytes | None] = []
        marks_s = [perf_counter()]
        for number, (start, end) in enumerate(zip(came.starts[:-1].tolist(), came.starts[1:].tolist(), strict=True)):
            state, stored = self._state(known[number], keys[number])
            state, rows = self._operator.process(keys[number], state, came.rows.slice(start, end - start))
            results.add(rows)
            after.append(self._changed(state, stored))
            marks_s.append(perf_counter())
        table, counts = results.table()
        named = self._named(came.rows, came.starts[:-1], table, counts, {})
        spent = Spent(known_keys.hashes, np.diff(marks_s))
        return Worked(named, 0, None, self._states(known_keys, after, before.totals), spent=spent)

    def _windows_with_state(
        self, rows: Chunk, keys: Numbers, begins: Numbers, ends: Numbers, states: Chunks
    ) -> tuple[pa.Table, Numbers, Chunk | None, Spent]:
        """Pass each window to the operator, those of a key one after the other, and return results, their counts, changed states and times."""
        places, firsts = np.unique(keys, return_index=True)
        of_windows = KeySet(rows.hashes[places], rows.rows.select(self.keys), begins[firsts])
        before = gathered(states, of_windows, self.key, self.states, 1)
        values, known = self._keys(rows.rows, begins[firsts]), self._known(before)
        results = Collected(self._operator.name, self.own, self.keys)
        after: list[bytes | None] = []
        marks_s = [perf_counter()]
        for number, (first, stop) in enumerate(zip(firsts.tolist(), [*firsts[1:].tolist(), len(keys)][: len(firsts)], strict=True)):
            state, stored = self._state(known[number], values[number])
            for begin, end in zip(begins[first:stop].tolist(), ends[first:stop].tolist(), strict=True):
                state, answer = self._operator.process(values[number], state, rows.rows.slice(begin, end - begin))
                results.add(answer)
                state = self._operator.unshared(state)
            after.append(self._changed(state, stored))
            marks_s.append(perf_counter())
        table, counts = results.table()
        return table, counts, self._states(of_windows, after, before.totals), Spent(of_windows.hashes, np.diff(marks_s))

    def _known(self, before: Chunk) -> list[bytes | None]:
        """Return the stored state of each key, or None."""
        kept: list[bytes | None] = [None] * len(before)
        for place, state in zip(before.keys_of_rows().tolist(), before.rows[STATE].to_pylist(), strict=True):
            kept[place] = state
        return kept

    def _state(self, kept: bytes | None, key: Any) -> tuple[Any, bytes]:
        """Return the state of a key, and how it is stored, or would be."""
        if kept is not None:
            return self._operator.unpacked(kept), kept
        state = self._operator.open(key)
        return state, self._operator.packed(state)

    def _changed(self, state: Any, stored: bytes) -> bytes | None:
        """Return a state as it is stored, or None if it is the same as before: an operator without state leaves nothing behind."""
        packed = self._operator.packed(state)
        return None if packed == stored else packed

    def _states(self, keys: KeySet, after: list[bytes | None], totals: Numbers) -> Chunk | None:
        changed = np.flatnonzero([state is not None for state in after])
        if not len(changed):
            return None
        rows = pa.table({STATE: pa.array([state for state in after if state is not None], pa.large_binary())})
        for field, column in zip(self.key, keys.values(changed).columns, strict=True):
            rows = rows.append_column(field, column)
        return Chunk(rows, keys.hashes[changed], np.arange(rows.num_rows + 1), totals[changed] + 1)

    def _keys(self, rows: pa.Table, places: Numbers) -> list[Any]:
        """Return the key of each of some rows: a value, or a tuple of values."""
        columns = [rows[key].take(pa.array(places)).to_pylist() for key in self.keys]
        if len(columns) == 1:
            return columns[0]  # type: ignore[no-any-return]
        return list(zip(*columns, strict=True)) if columns else [()] * len(places)

    def _named(self, rows: pa.Table, first: Numbers, answers: pa.Table, counts: Numbers, bounds: dict[str, pa.Array]) -> pa.Table:
        """Return results preceded by the values of the key and the bounds of the window; `first` is a row of each key or window."""
        places = pa.array(np.repeat(first, counts))
        columns = {key: rows[key].take(places) for key in self.keys} | bounds
        columns |= {name: answers[name] for name in self.own.names}
        return pa.table(columns).cast(self.results) if columns else answers


def _times(rows: pa.Table, time: str) -> Numbers:
    return np.asarray(rows[time].cast(pa.int64()).to_numpy())
