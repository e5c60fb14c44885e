"""Preferences as SQL users write them: 'price MIN, stars MAX, city DIFF'."""

import re

from skytide.errors import InvalidInput
from skytide.queries.preferences import Attribute, Preference, combine

KINDS = {"MIN": "low", "MAX": "high", "DIFF": "diff"}


def parse_preferences(text: str) -> Preference:
    """Read a list of columns, each followed by MIN, MAX or DIFF.

    >>> parse_preferences("price MIN, stars MAX, city DIFF")
    low('price') * high('stars') * diff('city')
    """
    attributes = []
    for item in text.split(","):
        found = re.fullmatch(r"\s*(?:`([^`]+)`|(\w+))\s+(MIN|MAX|DIFF)\s*", item, re.IGNORECASE)
        if not found:
            raise InvalidInput(
                value=repr(item.strip()),
                reason=f"not a preference, in {text!r}",
                remedy="write columns with MIN, MAX or DIFF: 'price MIN, stars MAX, city DIFF'",
            )
        attributes.append(Attribute(found[1] or found[2], KINDS[found[3].upper()]))
    return combine(tuple(attributes))
