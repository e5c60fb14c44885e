"""One aggregate: a function of a column, and the name of its result."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from skytide.errors import InvalidInput
from skytide.errors.checks import check_choice, check_text, check_type
from skytide.queries.functions import FUNCTIONS, AggregateFunction, Collected
from skytide.queries.mergeable import Mergeable, State

CALL = re.compile(r"\s*(\w+)\s*\(\s*(\*|`[^`]+`|\w+)\s*\)(?:\s+as\s+(\w+))?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Measure:
    """One aggregate: a function of a column or SQL expression, and the name of its result. `collect` makes one of your own function.

    Parameters
    ----------
    function
        Its name in SQL.
    column
        What it is a function of, or `*`.
    name
        The name of its result.
    mergeable
        The mergeable aggregate, if the function is a sketch or a user's own.

    Examples
    --------
    >>> Measure.parse("avg(price) AS mean").text
    'avg(price)'
    """

    function: str
    column: str
    name: str
    mergeable: Mergeable[Any] | None = None

    def __repr__(self) -> str:
        """Return the aggregate as a text. Checkpoints identify a query by it, so without a mergeable function it never changes."""
        own = "" if self.mergeable is None else f", mergeable={self.mergeable!r}"
        return f"Measure(function={self.function!r}, column={self.column!r}, name={self.name!r}{own})"

    @property
    def aggregate(self) -> AggregateFunction:
        """Return the function; a mergeable one is never one of the table, whatever its name."""
        if self.mergeable is not None:
            return Collected(self.mergeable, self.function)
        check_choice("function", self.function, FUNCTIONS)
        return FUNCTIONS[self.function]

    @property
    def kept(self) -> Measure:
        """Return what of this measure decides what is kept: not its name, nor what happens where there is no result."""
        return replace(self, function=self.aggregate.kept_as, name="")

    @property
    def text(self) -> str:
        """Return the aggregate in SQL."""
        return f"{self.function}({self.column})"

    @staticmethod
    def is_plain(text: str) -> bool:
        """Return whether a text is a function of one column, with or without a name."""
        call = CALL.fullmatch(text)
        if call is None or call[2].isdigit() or call[2].lower() in ("null", "true", "false"):  # a literal, as in count(1)
            return False
        function = FUNCTIONS.get(call[1].lower())
        return function is not None and (call[2] != "*" or function.takes_rows)

    @staticmethod
    def parse(text: str) -> Measure:
        """Return the measure for a function of one column in SQL.

        >>> Measure.parse("avg(price) AS mean")
        Measure(function='avg', column='price', name='mean')
        >>> Measure.parse("COUNT(*)").name
        'count'
        """
        call = CALL.fullmatch(text) if isinstance(text, str) else None
        if not call or not Measure.is_plain(text):
            raise InvalidInput(
                value=repr(text),
                reason="not an aggregate",
                remedy=f'write one of {", ".join(FUNCTIONS)} of a column: "sum(size) AS total", or "count(*)"',
            )
        function, column = call[1].lower(), call[2].strip("`")
        return Measure(function, column, call[3] or default_name(function, column))


def default_name(function: str, column: str) -> str:
    """Return the name of a result without one."""
    return function if column == "*" else f"{function}_{column}"


def collect(function: Mergeable[State], column: str, *, name: str) -> Measure:
    """Return an aggregate of your own for `.aggregate(...)`.

    Parameters
    ----------
    function
        An object of your class below `skytide.Mergeable`.
    column
        The column it is a function of, or an SQL expression.
    name
        The name of its result.

    Raises
    ------
    InvalidInput
        If the function is not mergeable, or a text is empty.

    Examples
    --------
    >>> from skytide.queries import Distinct
    >>> collect(Distinct(), "symbol", name="symbols").text
    'Distinct(symbol)'

    More in [streaming.md](streaming.md).
    """
    check_type(
        "function",
        function,
        Mergeable,
        reason="not mergeable",
        remedy="derive from skytide.Mergeable, and pass an object of your class",
    )
    check_text("column", column, "price")
    check_text("name", name, "span")
    return Measure(type(function).__name__, column, name, function)
