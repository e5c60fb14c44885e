"""Preferences in the style of SQL: 'price MIN, stars MAX, city DIFF'."""

import re

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, check_text
from skytide.queries.preferences import PREFERENCES, SQL_WORDS, Preference, combine

ITEM = re.compile(rf"\s*(?:`((?:[^`]|``)+)`|(\w+))\s+({'|'.join(SQL_WORDS)})\s*(?=,|$)", re.IGNORECASE)


def parse_preferences(text: str) -> Preference:
    """Return the preference for a list of columns, each followed by MIN, MAX or DIFF.

    >>> parse_preferences("price MIN, stars MAX, city DIFF")
    low('price') * high('stars') * diff('city')
    >>> parse_preferences("`a,b` MIN, `c``d` MAX")
    low('a,b') * high('c`d')
    """
    check_text("preferences", text, "price MIN, stars MAX, city DIFF")
    attributes, at = [], 0
    while at <= len(text):
        item = ITEM.match(text, at)
        if not item:
            raise InvalidInput(
                value=repr(text[at:].partition(",")[0].strip()),
                reason=f"not a preference, in {brief(text)}",
                remedy="write columns with MIN, MAX or DIFF: 'price MIN, stars MAX, city DIFF'",
            )
        name = item[2] or item[1].replace("``", "`")
        attributes.append(PREFERENCES[SQL_WORDS[item[3].upper()]](name))
        at = item.end() + 1  # past the comma
    return combine(tuple(attributes))
