"""Compiling a loop, with a cache of the machine code wherever there is a place for one."""

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
    """Compile a loop at its first call, and keep the machine code for later processes.

    Numba keeps it beside the source or in the user's home, and refuses to go on where neither can be written to, as in many
    containers. Then a temporary folder takes their place, and if that is no good either, each process compiles for itself.
    """
    made: Loop
    try:
        made = _njit(cache=True)(loop)
    except RuntimeError:  # no locator available
        made = _kept_for_now(loop)
    return made


def _kept_for_now(loop: Loop) -> Loop:
    made: Loop
    before = _settings.CACHE_DIR
    try:
        _settings.CACHE_DIR = _private_folder()  # read when a function is made, so that others keep their own place
        made = _njit(cache=True)(loop)
    except (RuntimeError, OSError):
        made = _njit(loop)
    finally:
        _settings.CACHE_DIR = before
    return made


def _private_folder() -> str:
    """Return a temporary folder that is this user's alone: whoever can write to it decides what is run."""
    folder = Path(tempfile.gettempdir(), f"skytide-numba-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    return str(folder)
