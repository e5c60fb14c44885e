"""An entry in the listing of a folder."""

from typing import NamedTuple


class Entry(NamedTuple):
    """A file or a folder."""

    name: str
    is_folder: bool
    size: int
    modified_ns: int
