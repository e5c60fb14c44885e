"""One aggregate: a function of a column, and the name of its result."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from skytide.errors import InvalidInput

if TYPE_CHECKING:
    from skytide.queries.mergeable import Mergeable

PLAIN = ("count", "sum", "avg", "min", "max", "first", "last")
SPREADS = ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop")
TRIES = ("try_sum", "try_avg")
"""Functions that are NULL where the total does not fit its type; they keep the same of panes as those that fail there."""
FUNCTIONS = (*PLAIN, *TRIES, *SPREADS)
CALL = re.compile(r"\s*(\w+)\s*\(\s*(\*|`[^`]+`|\w+)\s*\)(?:\s+as\s+(\w+))?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Measure:
    """One aggregate: a function of a column or SQL expression, and the name of its result."""

    function: str
    column: str
    name: str
    mergeable: Mergeable[Any] | None = None
    """The mergeable aggregate, if the function is not one of Arrow's: a sketch, or a user's own."""

    def __repr__(self) -> str:
        """Return the aggregate as a text. Checkpoints identify a query by it, so without a mergeable function it never changes."""
        own = "" if self.mergeable is None else f", mergeable={self.mergeable!r}"
        return f"Measure(function={self.function!r}, column={self.column!r}, name={self.name!r}{own})"

    @property
    def plain(self) -> str:
        """Return the function if Arrow knows it, otherwise an empty text; a mergeable one is never Arrow's, whatever its name."""
        return "" if self.mergeable is not None else self.function.removeprefix("try_")

    @property
    def tries(self) -> bool:
        """Return whether there is NULL where the total does not fit its type."""
        return self.mergeable is None and self.function in TRIES

    @property
    def kept(self) -> Measure:
        """Return what of this measure decides what is kept: not its name, nor what happens where there is no result."""
        return replace(self, function=self.plain or self.function, name="")

    @property
    def text(self) -> str:
        """Return the aggregate in SQL."""
        return f"{self.function}({self.column})"

    @staticmethod
    def is_plain(text: str) -> bool:
        """Return whether a text is a function of one column, with or without a name."""
        found = CALL.fullmatch(text)
        if found is None or found[2].isdigit() or found[2].lower() in ("null", "true", "false"):  # a literal, as in count(1)
            return False
        return found[1].lower() in FUNCTIONS and (found[2] != "*" or found[1].lower() == "count")

    @staticmethod
    def parse(text: str) -> Measure:
        """Return the measure for a function of one column in SQL.

        >>> Measure.parse("avg(price) AS mean")
        Measure(function='avg', column='price', name='mean')
        >>> Measure.parse("COUNT(*)").name
        'count'
        """
        found = CALL.fullmatch(text) if isinstance(text, str) else None
        if not found or not Measure.is_plain(text):
            raise InvalidInput(
                value=repr(text),
                reason="not an aggregate",
                remedy=f'write one of {", ".join(FUNCTIONS)} of a column: "sum(size) AS total", or "count(*)"',
            )
        function, column = found[1].lower(), found[2].strip("`")
        return Measure(function, column, found[3] or default_name(function, column))


def default_name(function: str, column: str) -> str:
    """Return the name of a result without one."""
    return function if column == "*" else f"{function}_{column}"
