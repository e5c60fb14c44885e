"""To be told of every streaming query that a program starts, without a change to the program."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from skytide.spark.query.continuous import ContinuousQuery

_WAYS: tuple[tuple[type, str], ...] = ((ContinuousQuery, "start"), (DataStreamWriter, "start"), (DataStreamWriter, "toTable"))
"""How a query starts. A listener of Spark's would hear of it, too, but only in sessions that are known before, and of skytide's
own queries it sees only Spark's side."""


@contextmanager
def each_query(started: Callable[[Any], None]) -> Iterator[None]:
    """Call `started` with each query as soon as it runs: with what its start gives back, a StreamingQuery or a skytide Run."""
    inside = threading.local()

    def told(start: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(start)
        def run(*arguments: Any, **options: Any) -> Any:
            if getattr(inside, "starts", False):  # skytide starts its queries by Spark's
                return start(*arguments, **options)
            inside.starts = True
            try:
                query = start(*arguments, **options)
            finally:
                inside.starts = False
            started(query)
            return query

        return run

    before = [(owner, name, getattr(owner, name)) for owner, name in _WAYS]
    try:
        for owner, name, start in before:
            setattr(owner, name, told(start))
        yield
    finally:
        for owner, name, start in before:
            setattr(owner, name, start)
