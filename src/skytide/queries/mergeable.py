"""A user's own aggregates: the state of some values can be merged with the state of others."""

import pickle
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from skytide.queries.groups import Groups

State = TypeVar("State")


class Mergeable(ABC, Generic[State]):
    """Derive from this class to write an aggregate of your own, and use it with `collect`.

    The law: divide values in any way, `add` each part to a `start()`, `merge` the states in any order; the result of `finish` is the same.
    States are pickled into checkpoints and for other processes: make them of plain values (numbers, texts, tuples, lists, dicts), or
    override `dump` and `load`.

    Examples
    --------
    >>> class Span(Mergeable[tuple[float, float]]):
    ...     def start(self):
    ...         return (float("inf"), float("-inf"))
    ...     def add(self, state, values):
    ...         low, high = min(values.to_pylist()), max(values.to_pylist())
    ...         return (min(state[0], low), max(state[1], high))
    ...     def merge(self, state, other):
    ...         return (min(state[0], other[0]), max(state[1], other[1]))
    ...     def finish(self, state):
    ...         return state[1] - state[0] if state[0] <= state[1] else None
    ...     def kind(self, values):
    ...         return pa.float64()
    >>> span = Span()
    >>> span.finish(span.merge(span.add(span.start(), pa.array([1.0, 4.0])), span.add(span.start(), pa.array([9.0]))))
    8.0
    """

    @abstractmethod
    def start(self) -> State:
        """Return the state of no values."""

    @abstractmethod
    def add(self, state: State, values: pa.Array) -> State:
        """Return the state with more values.

        Parameters
        ----------
        state
            What `start`, `add` or `merge` returned; it may be changed.
        values
            At least one value, and none of them NULL.
        """

    @abstractmethod
    def merge(self, state: State, other: State) -> State:
        """Return the state of the values of both.

        Parameters
        ----------
        state, other
            What `start`, `add` or `merge` returned.
        """

    @abstractmethod
    def finish(self, state: State) -> object:
        """Return the result, None for NULL.

        Parameters
        ----------
        state
            That of all values.
        """

    @abstractmethod
    def kind(self, values: pa.DataType) -> pa.DataType:
        """Return the Arrow type of results.

        Parameters
        ----------
        values
            The Arrow type of the values.

        Raises
        ------
        InvalidInput
            If the type is not supported.
        """

    def dump(self, state: State) -> bytes:
        """Return a state as bytes."""
        return pickle.dumps(state)

    def load(self, data: bytes) -> State:
        """Return the state for a result of `dump`."""
        return pickle.loads(data)  # type: ignore[no-any-return]

    def states_of(self, values: pa.ChunkedArray, groups: Groups) -> pa.Array:
        """Return the state of the values of each group, as bytes."""
        states = []
        for part in groups.divided(values):
            there = part.drop_null()
            states.append(self.dump(self.add(self.start(), there) if len(there) else self.start()))
        return pa.array(states, pa.binary())

    def merged(self, states: pa.ChunkedArray, groups: Groups) -> pa.Array:
        """Return one state for each group."""
        if groups.count == groups.rows:
            return states.combine_chunks().take(pa.array(np.argsort(groups.numbers)))
        merged_states = []
        for part in groups.divided(states):
            first, *others = part.to_pylist()
            if others:
                state = self.load(first)
                for other in others:
                    state = self.merge(state, self.load(other))
                first = self.dump(state)
            merged_states.append(first)
        return pa.array(merged_states, pa.binary())

    def results(self, states: pa.ChunkedArray, values: pa.DataType) -> pa.Array:
        """Return the result of each state; `values` is the type of the values."""
        return pa.array([self.finish(self.load(state)) for state in states.to_pylist()], self.kind(values))
