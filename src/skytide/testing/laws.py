"""What the laws of all families share: how one is broken, and how rows are compared and divided."""

from typing import Any

import numpy as np
import pyarrow as pa

from skytide.spark.engine.tasks import Copied, copied
from skytide.workloads.identity import derive


class BrokenLaw(AssertionError):
    """Something does not keep a law that skytide relies on."""

    def __init__(self, who: object, law: str, seen: str) -> None:
        """Name who broke which law, and what was seen."""
        super().__init__(f"{type(who).__name__} breaks a law: {law}; {seen}")


def check_copied(who: Copied) -> Copied:
    """Return something as a worker gets it; refuse what cannot be copied."""
    try:
        return copied(who)
    except Exception as error:
        raise BrokenLaw(who, "it can be copied to workers", f"{type(error).__name__}: {error}") from error


def division(rows: int, parts: int, seed: int) -> "tuple[np.ndarray[Any, np.dtype[np.int64]], np.random.Generator]":
    """Return the part of each of some rows, as a seed decides, and the generator for more of the kind."""
    rng = derive(seed, "law", rows)
    return rng.integers(0, parts, rows), rng


def shown(rows: list[Any], limit: int = 3) -> str:
    """Return some rows as text, for an error."""
    more = f" and {len(rows) - limit:,} more" if len(rows) > limit else ""
    return f"{', '.join(map(str, rows[:limit])) or 'no rows'}{more}"


def as_set(table: pa.Table) -> list[str]:
    """Return the rows of a table in an order that does not depend on theirs."""
    return sorted(map(str, table.to_pylist()))


def difference(found: pa.Table, expected: pa.Table) -> str:
    """Return how two answers differ, as text; empty if they have the same rows, in any order."""
    got, wanted = as_set(found), as_set(expected)
    return "" if got == wanted else f"{shown(got)} instead of {shown(wanted)}"
