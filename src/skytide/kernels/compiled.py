"""Compiles loops, and caches the machine code wherever that is possible."""

import os
import stat
import tempfile
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., Any])

_CREATING = RLock()  # of all loops: the folder of numba's cache is one setting for the whole process


def compiled(loop: Loop) -> Loop:
    """Return the loop compiled at its first call, with the machine code cached for later processes; other threads run beside it.

    Numba caches next to the source or in the user's home, and fails where neither can be written to, as in many containers. Then a
    temporary folder is used instead, and if that fails too, each process compiles for itself.
    """
    return cast("Loop", _Compiled(loop))


class _Compiled:
    """A loop that imports numba when it is first needed: most processes that import a kernel, such as those that plan a query, never call it."""

    def __init__(self, loop: Callable[..., Any]) -> None:
        update_wrapper(self, loop)
        self._loop = loop
        self._known: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return self._made(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """What numba asks for when another compiled loop calls this one."""
        return self._made._numba_type_

    @property
    def _made(self) -> Any:
        if self._known is None:
            with _CREATING:
                if self._known is None:  # no other thread was faster
                    self._known = _created(self._loop)
        return self._known


def _created(loop: Callable[..., Any]) -> Any:
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # no locator available
        return _cached_in_temporary(loop)


def _cached_in_temporary(loop: Callable[..., Any]) -> Any:
    from numba import config, njit

    settings: Any = config
    before = settings.CACHE_DIR
    try:
        settings.CACHE_DIR = _private_folder()  # read when a function is created, so other functions keep their own folder
        return njit(cache=True, nogil=True)(loop)
    except (RuntimeError, OSError):
        return njit(nogil=True)(loop)
    finally:
        settings.CACHE_DIR = before


def _private_folder() -> str:
    """Return a temporary folder that only this user can write to: whoever can write to it decides what is executed."""
    folder = Path(tempfile.gettempdir(), f"skytide-numba-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} can be accessed by other users")
    return str(folder)
