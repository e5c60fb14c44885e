"""Preferences in the style of SQL: 'price MIN, stars MAX, city DIFF'."""

import re

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, words
from skytide.queries.preferences import Attribute, Preference, combine

ITEM = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s+(MIN|MAX|DIFF)\s*(?=,|$)", re.IGNORECASE)
KINDS = {"MIN": "low", "MAX": "high", "DIFF": "diff"}


def parse_preferences(text: str) -> Preference:
    """Return the preference for a list of columns, each followed by MIN, MAX or DIFF.

    >>> parse_preferences("price MIN, stars MAX, city DIFF")
    low('price') * high('stars') * diff('city')
    >>> parse_preferences("`a,b` MIN, `c``d` MAX")
    low('a,b') * high('c`d')
    """
    words("preferences", text, "price MIN, stars MAX, city DIFF")
    attributes, at = [], 0
    while at <= len(text):
        found = ITEM.match(text, at)
        if not found:
            raise InvalidInput(
                value=repr(text[at:].partition(",")[0].strip()),
                reason=f"not a preference, in {brief(text)}",
                remedy="write columns with MIN, MAX or DIFF: 'price MIN, stars MAX, city DIFF'",
            )
        name = found[2] or found[1].replace("``", "`")
        attributes.append(Attribute(name, KINDS[found[3].upper()]))
        at = found.end() + 1  # past the comma
    return combine(tuple(attributes))
