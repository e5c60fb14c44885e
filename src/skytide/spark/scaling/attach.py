"""Notices every streaming query that a program starts, without a change to the program."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from skytide.spark.api.query import ContinuousQuery

_WAYS: tuple[tuple[type, str], ...] = ((ContinuousQuery, "start"), (DataStreamWriter, "start"), (DataStreamWriter, "toTable"))
"""The methods that start a query. A listener of Spark's would notice it, too, but only in sessions known in advance, and it would see only
Spark's side of skytide's own queries."""


@contextmanager
def each_query(started: Callable[[Any], None]) -> Iterator[None]:
    """Call `started` with each query as soon as it runs: a StreamingQuery, or a Run of skytide's."""
    inside = threading.local()

    def noticed(start: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(start)
        def run(*arguments: Any, **options: Any) -> Any:
            if getattr(inside, "starts", False):  # skytide's start calls Spark's
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
            setattr(owner, name, noticed(start))
        yield
    finally:
        for owner, name, start in before:
            setattr(owner, name, start)
