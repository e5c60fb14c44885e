"""JSON as browsers read it: Python writes infinity and NaN in a way that no browser accepts."""

import json
from math import isfinite
from typing import Any


def to_json(value: Any) -> str:
    """Return a value as strict JSON; numbers that are not finite become null, and what JSON does not know becomes a text.

    >>> to_json({"x": [1.5, float("inf"), float("nan")]})
    '{"x": [1.5, null, null]}'
    """
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, default=_plain)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value


def _plain(value: Any) -> Any:
    """Return a number of another library as one of Python's, and anything else as a text."""
    return _finite(value.item()) if hasattr(value, "item") else str(value)
