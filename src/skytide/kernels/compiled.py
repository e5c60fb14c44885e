"""Compiles loops, and caches the machine code wherever that is possible."""

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])
_njit: Any = numba.njit
_settings: Any = numba.config


def compiled(loop: Loop) -> Loop:
    """Return the loop compiled at its first call, with the machine code cached for later processes.

    Numba caches next to the source or in the user's home, and fails where neither can be written to, as in many containers. Then a
    temporary folder is used instead, and if that fails too, each process compiles for itself.
    """
    made: Loop
    try:
        made = _njit(cache=True)(loop)
    except RuntimeError:  # no locator available
        made = _cached_in_temporary(loop)
    return made


def _cached_in_temporary(loop: Loop) -> Loop:
    made: Loop
    before = _settings.CACHE_DIR
    try:
        _settings.CACHE_DIR = _private_folder()  # read when a function is created, so other functions keep their own folder
        made = _njit(cache=True)(loop)
    except (RuntimeError, OSError):
        made = _njit(loop)
    finally:
        _settings.CACHE_DIR = before
    return made


def _private_folder() -> str:
    """Return a temporary folder that only this user can write to: whoever can write to it decides what is executed."""
    folder = Path(tempfile.gettempdir(), f"skytide-numba-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} can be accessed by other users")
    return str(folder)
