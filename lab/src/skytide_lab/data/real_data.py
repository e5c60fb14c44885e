"""Finds the real data, and has what several experiments need to know of it."""

import os
from pathlib import Path

from skytide.errors import InvalidInput

DAY_S = 86_400
OPEN_S, CLOSE_S = 9.5 * 3_600, 16 * 3_600  # hours of the exchange, in seconds of the day


def data(name: str) -> Path:
    """Return the path of a file of the real data."""
    folder = Path(os.environ.get("SKYTIDE_DATA", "../shared/data"))
    if not (folder / name).exists():
        raise InvalidInput(
            value=str(folder / name), reason="there is no such file", remedy="point SKYTIDE_DATA to the folder with the real data"
        )
    return folder / name
