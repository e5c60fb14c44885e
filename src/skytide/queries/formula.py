"""Expressions of columns that exist already, such as `sum(price * size) / sum(size)` of two sums.

They are evaluated along with the aggregates, in Arrow, and mean the same as in Spark: each node has the type that Spark's analyser gave it,
and a mode for where there is no result: an error as in ANSI mode, or NULL for Spark's `try_` functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skytide.kernels import Indices
from skytide.queries.arithmetic import EAGER, Mode

Scalar = int | float | str | bool | bytes | None


@dataclass(frozen=True)
class Field:
    """A column."""

    name: str


@dataclass(frozen=True)
class Constant:
    """The same value in every row; decimals are written as text."""

    value: Scalar
    data_type: pa.DataType


@dataclass(frozen=True)
class Call:
    """A function of other expressions, with the type of its result."""

    function: str
    operands: tuple[Formula, ...]
    data_type: pa.DataType
    mode: Mode = "ANSI"


Formula = Field | Constant | Call


def evaluate(expression: Formula, rows: pa.Table) -> pa.Array:
    """Return the value of an expression in each row.

    >>> half = Call("divide", (Field("a"), Constant(2.0, pa.float64())), pa.float64())
    >>> evaluate(half, pa.table({"a": [1.0, 3.0]})).to_pylist()
    [0.5, 1.5]
    """
    if isinstance(expression, Field):
        return rows[expression.name].combine_chunks()
    if isinstance(expression, Constant):
        value = pa.scalar(expression.value)
        value = value.cast(pa.int32()) if pa.types.is_date32(expression.data_type) else value
        return pa.repeat(value.cast(expression.data_type), rows.num_rows)
    if expression.function in _LAZY:
        return _LAZY[expression.function](expression, rows)
    operands = [evaluate(operand, rows) for operand in expression.operands]
    return EAGER[expression.function](operands, expression.data_type, expression.mode)


def _case(call: Call, rows: pa.Table) -> pa.Array:
    """Return the values of CASE, evaluating each branch for its own rows only: `CASE WHEN n > 0 THEN total / n END` never divides by zero."""
    branches = [(call.operands[i], call.operands[i + 1]) for i in range(0, len(call.operands) - 1, 2)]
    branches_done: list[tuple[Indices, pa.Array]] = []
    left = np.arange(rows.num_rows)
    for condition, value in branches:
        holds = _true(evaluate(condition, rows.take(pa.array(left))))
        branches_done.append((left[holds], evaluate(value, rows.take(pa.array(left[holds])))))
        left = left[~holds]
    if len(call.operands) % 2:
        branches_done.append((left, evaluate(call.operands[-1], rows.take(pa.array(left)))))
    else:
        branches_done.append((left, pa.nulls(len(left), call.data_type)))
    return _together(branches_done, call.data_type)


def _coalesce(call: Call, rows: pa.Table) -> pa.Array:
    branches_done: list[tuple[Indices, pa.Array]] = []
    left = np.arange(rows.num_rows)
    for operand in call.operands:
        values = evaluate(operand, rows.take(pa.array(left)))
        there = np.asarray(values.is_valid())
        branches_done.append((left[there], values.filter(pa.array(there))))
        left = left[~there]
    return _together([*branches_done, (left, pa.nulls(len(left), call.data_type))], call.data_type)


def _connected(
    decided: Literal[True, False], connect: Callable[[pa.Array, pa.Array], pa.Array]
) -> Callable[[Call, pa.Table], pa.Array]:
    """Return AND or OR: where the left side decides, the right side is not evaluated."""

    def connected(call: Call, rows: pa.Table) -> pa.Array:
        first = evaluate(call.operands[0], rows)
        open_ = ~_true(pc.equal(first, decided))
        places = np.arange(rows.num_rows)
        second = evaluate(call.operands[1], rows.filter(pa.array(open_)))
        unread = places[~open_]
        both = _together([(places[open_], second), (unread, pa.repeat(pa.scalar(decided), len(unread)))], pa.bool_())
        return connect(first, both)

    return connected


_LAZY: dict[str, Callable[[Call, pa.Table], pa.Array]] = {
    "case": _case,
    "coalesce": _coalesce,
    "and": _connected(False, pc.and_kleene),
    "or": _connected(True, pc.or_kleene),
}
FUNCTIONS = frozenset((*_LAZY, *EAGER))


def _true(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(values.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _together(pieces: Sequence[tuple[Indices, pa.Array]], data_type: pa.DataType) -> pa.Array:
    places = np.concatenate([places for places, _ in pieces])
    values = pa.concat_arrays([values.cast(data_type) for _, values in pieces])
    return values.take(pa.array(np.argsort(places, kind="stable")))
