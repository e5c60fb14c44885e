"""Where the real data is."""

import os
from pathlib import Path

from skytide.errors import InvalidInput


def data(name: str) -> Path:
    """Return the path of a file of the real data."""
    folder = Path(os.environ.get("SKYTIDE_DATA", "../shared/data"))
    if not (folder / name).exists():
        raise InvalidInput(
            value=str(folder / name), reason="there is no such file", remedy="point SKYTIDE_DATA to the folder with the real data"
        )
    return folder / name
