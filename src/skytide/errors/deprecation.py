"""Old names that still work, with a warning that says the new one."""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn the caller's caller that a name is deprecated."""
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=stacklevel)


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module in which names have changed: an old one is the new one, with a warning.

    >>> import skytide.control
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     skytide.control.Spl is skytide.control.Congestion
    True
    >>> str(caught[0].message)
    'skytide.control.Spl is deprecated; use skytide.control.Congestion'
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", f"{module}.{names[name]}")
        return getattr(import_module(module), names[name])

    return find
