"""What a text says, whatever words are between."""

import re


def says(text: str, *parts: str) -> bool:
    """Return whether a text has these parts in this order."""
    return re.search(".*".join(map(re.escape, parts)), text, re.DOTALL) is not None
