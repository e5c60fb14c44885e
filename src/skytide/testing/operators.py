"""The laws of operators on keys."""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skytide.errors.checks import check_integer
from skytide.keyed import KeyedOperator, Operator
from skytide.testing.laws import BrokenLaw, check_copied, shown
from skytide.testing.rows import Rows, examples_of, key_names
from skytide.workloads.identity import derive

PRECISION = 1e-5  # of numbers that are added in another order


def check_operator(
    operator: KeyedOperator,
    rows: Rows,
    *,
    keys: str | Sequence[str] = (),
    windowed: bool = False,
    ignoring: Collection[str] = (),
    tries: int = 20,
    seed: int = 0,
) -> None:
    """Raise `BrokenLaw` if an operator on keys does not keep the laws that skytide relies on.

    - The same state and rows have the same results and the same state after them, also when the state has been stored.
    - Results have the columns that are known before it runs.
    - Without windows, it does not matter how rows are divided into batches; not asked if it is `windowed`.
    - `process_windows`, if it has one, returns what `process` returns for each window; numbers may differ by what rounding does, and
      columns of `ignoring`, such as the sign of a difference, are not compared.
    - It can be copied to workers.

    Parameters
    ----------
    operator
        The operator.
    rows
        Examples, in order of time.
    keys
        The columns of the key.
    windowed
        Whether it gets the rows of windows: then it may matter how rows are divided.
    ignoring
        Columns of results that are not compared, such as the sign of a difference.
    tries
        How many places to divide rows at are drawn.
    seed
        What they are drawn from, the same ones each time.

    Raises
    ------
    BrokenLaw
        If it does not keep one: which, and what was seen.

    Examples
    --------
    >>> class Last:
    ...     def open(self, key):
    ...         return None
    ...     def process(self, state, rows):
    ...         return state, {"last": rows["price"].to_pylist()[-1:]}
    >>> check_operator(Last(), {"price": [3, 1, 2]}, windowed=True)
    >>> check_operator(Last(), {"price": [3, 1, 2]})
    Traceback (most recent call last):
    ...
    skytide.testing.laws.BrokenLaw: Last breaks a law: without windows, rows may be divided anywhere; ...
    """
    names = key_names(keys)
    own, table = Operator(operator), examples_of(rows, *names)
    check_integer("tries", tries, 1)
    check_copied(operator)
    for key, some in _by_key(table, names):
        _columns(own, key, some, names)
        rng = derive(seed, "law", some.num_rows)
        for cut in rng.integers(0, some.num_rows + 1, tries).tolist():
            _same_again(own, key, some, cut)
            if not windowed:
                _divided(own, key, some, cut)
            if own.is_vectorised:
                _at_once(own, key, some, cut, ignoring)


def _by_key(rows: pa.Table, keys: tuple[str, ...]) -> Iterator[tuple[Any, pa.Table]]:
    """Yield the rows of each key."""
    if not keys:
        yield (), rows
        return
    values = list(zip(*(rows[name].to_pylist() for name in keys), strict=True))
    for key in dict.fromkeys(values):
        mine = pa.array([value == key for value in values], pa.bool_())
        yield (key[0] if len(key) == 1 else key), rows.filter(mine)


def _same_again(own: Operator, key: Any, rows: pa.Table, cut: int) -> None:
    state, _ = own.process(key, own.open(key), rows.slice(0, cut))
    stored = own.packed(state)
    first, second = (own.process(key, own.unpacked(stored), rows.slice(cut)) for _ in range(2))
    law = "the same state and rows have the same results"
    _require_equal(own, law, plain(second[1]), plain(first[1]))
    if own.packed(first[0]) != own.packed(second[0]):
        raise BrokenLaw(own.own, law, "the states after them differ")


def _columns(own: Operator, key: Any, rows: pa.Table, keys: tuple[str, ...]) -> None:
    announced = {name for name in own.schema(rows.schema, keys).names if name not in keys}
    _, results = own.process(key, own.open(key), rows)
    names = {name for name in _table(results).column_names if name not in keys}
    if names != announced:
        seen = f"{', '.join(sorted(names))} came instead of {', '.join(sorted(announced))}"
        raise BrokenLaw(own.own, "results have the columns that `schema`, or `process` without rows, announces", seen)


def _divided(own: Operator, key: Any, rows: pa.Table, cut: int) -> None:
    whole = own.process(key, own.open(key), rows)
    half = own.process(key, own.open(key), rows.slice(0, cut))
    state = own.unpacked(own.packed(half[0]))
    rest = own.process(key, state, rows.slice(cut))
    law = "without windows, rows may be divided anywhere"
    _require_equal(own, law, plain(half[1]) + plain(rest[1]), plain(whole[1]))
    if own.packed(rest[0]) != own.packed(whole[0]):
        raise BrokenLaw(own.own, law, "the states after them differ")


def _at_once(own: Operator, key: Any, rows: pa.Table, cut: int, ignoring: Collection[str]) -> None:
    begins, ends = np.array([0, cut // 2, cut]), np.array([cut, rows.num_rows, rows.num_rows])
    results, counts = own.process_windows(rows, begins, ends)
    answers = [
        plain(own.process(key, own.open(key), rows.slice(begin, end - begin))[1])
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    law = "`process_windows` returns what `process` returns for each window"
    if counts.tolist() != [len(answer) for answer in answers]:
        raise BrokenLaw(own.own, law, f"windows have {counts.tolist()} rows instead of {[len(answer) for answer in answers]}")
    for row, expected in zip(plain(results), [row for answer in answers for row in answer], strict=True):
        for name in row.keys() - set(ignoring):
            if not _close(row[name], expected[name]):
                raise BrokenLaw(own.own, law, f"{name} is {row[name]} instead of {expected[name]}")


def plain(results: Any) -> list[dict[str, Any]]:
    """Return results as dicts; a NaN, which does not equal itself, is None."""
    rows: list[dict[str, Any]] = _table(results).to_pylist()
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


def _table(results: Any) -> pa.Table:
    return results if isinstance(results, pa.Table) else pa.table(results)


def _require_equal(own: Operator, law: str, found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    if found != expected:
        raise BrokenLaw(own.own, law, f"{shown(found)} instead of {shown(expected)}")


def _close(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=PRECISION, abs_tol=PRECISION / 10)
    return bool(found == expected)
