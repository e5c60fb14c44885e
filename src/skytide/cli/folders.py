"""Folders that commands write to."""

import os
import tempfile
from pathlib import Path

from skytide.errors import InvalidInput


def writable(folder: Path) -> None:
    """Make a folder, unless it is there; refuse one that cannot be written to now, rather than when there is something to write."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise InvalidInput(value=str(folder), reason=f"cannot be written to ({why})", remedy="choose another folder") from None
