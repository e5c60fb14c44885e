"""Preferences over columns, combined as equals (`*`) or by priority (`&`).

>>> low("price") * high("stars") & low("distance")
low('price') * high('stars') & low('distance')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, check_text, refused


class ColumnLike(Protocol):
    """A Spark Column; this layer does not import Spark."""

    def isNotNull(self) -> Any:
        """Return whether there is a value."""

    def alias(self, *alias: str, **options: Any) -> Any:
        """Return the same column under another name."""


Expression = str | ColumnLike
"""A column: its name, an SQL expression, or a Spark Column."""
Chain = tuple["Attribute", ...]  # a lexicographic order: ties of the first attribute are decided by the next


class Preference:
    """The base of all preferences: `a * b` prefers both equally (Pareto), `a & b` prefers `a` first and `b` among equals.

    Examples
    --------
    >>> low("price") * high("stars") & low("distance")
    low('price') * high('stars') & low('distance')

    More in [skyline.md](skyline.md).
    """

    def __mul__(self, other: Preference) -> Preference:
        """Return both combined as equals: a row is better if it is better in one and not worse in the other."""
        return Pareto((*_flat(self, Pareto), *_flat(_preference(other), Pareto)))

    def __and__(self, other: Preference) -> Preference:
        """Return both combined by priority: `other` decides only between rows that are equal in all columns of this preference."""
        return Prioritised((*_flat(self, Prioritised), *_flat(_preference(other), Prioritised)))

    def attributes(self) -> Iterator[Attribute]:
        """Return every compared column, in the order in which they were written."""
        raise NotImplementedError

    def over(self, name: Callable[[Expression], str]) -> Preference:
        """Return the same preference with each expression replaced by the name of the column that holds it."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Attribute(Preference):
    """One column (or expression) and what is preferred: low values, high values, or a comparison of equal values only (diff)."""

    what: Expression
    kind: str

    def attributes(self) -> Iterator[Attribute]:
        """Return itself."""
        yield self

    def over(self, name: Callable[[Expression], str]) -> Preference:
        """Return the same preference over the column `name(what)`."""
        return Attribute(name(self.what), self.kind)

    def __repr__(self) -> str:
        """Return the preference as it is written."""
        return f"{self.kind}({self.what!r})"


@dataclass(frozen=True, repr=False)
class _Combined(Preference):
    parts: tuple[Preference, ...]

    def attributes(self) -> Iterator[Attribute]:
        """Return the attributes of all parts."""
        for part in self.parts:
            yield from part.attributes()

    def over(self, name: Callable[[Expression], str]) -> Preference:
        """Return the same combination over named columns."""
        return type(self)(tuple(part.over(name) for part in self.parts))


class Pareto(_Combined):
    """Several preferences, all of the same importance."""

    def __repr__(self) -> str:
        """Return the preference as it is written."""
        return " * ".join(f"({part!r})" if isinstance(part, Prioritised) else repr(part) for part in self.parts)


class Prioritised(_Combined):
    """Several preferences, the more important ones first."""

    def __repr__(self) -> str:
        """Return the preference as it is written."""
        return " & ".join(repr(part) for part in self.parts)


def low(what: Expression) -> Preference:
    """Return a preference for low values of a column or expression.

    Parameters
    ----------
    what
        The name of a column, an SQL expression, or a Column of Spark.

    Raises
    ------
    InvalidInput
        If `what` is not one of them, or an empty text.

    Examples
    --------
    >>> low("price") * high("stars")
    low('price') * high('stars')

    More in [skyline.md](skyline.md).
    """
    return Attribute(_column(what), "low")


def high(what: Expression) -> Preference:
    """Return a preference for high values of a column or expression.

    Parameters
    ----------
    what
        The name of a column, an SQL expression, or a Column of Spark.

    Raises
    ------
    InvalidInput
        If `what` is not one of them, or an empty text.

    Examples
    --------
    >>> high("stars") & low("price / nights")
    high('stars') & low('price / nights')

    More in [skyline.md](skyline.md).
    """
    return Attribute(_column(what), "high")


def diff(what: Expression) -> Preference:
    """Return a preference that compares only rows with equal values of a column or expression: each value is a competition of its own.

    Parameters
    ----------
    what
        The name of a column, an SQL expression, or a Column of Spark.

    Raises
    ------
    InvalidInput
        If `what` is not one of them, or an empty text.

    Examples
    --------
    >>> low("price") * diff("city")
    low('price') * diff('city')

    More in [skyline.md](skyline.md).
    """
    return Attribute(_column(what), "diff")


PREFERENCES: dict[str, Callable[[Expression], Preference]] = {"low": low, "high": high, "diff": diff}
"""All preferences of one column, by their names."""
SQL_WORDS = {"MIN": "low", "MAX": "high", "DIFF": "diff"}
"""What preferences are called in SQL."""


def _column(what: Expression) -> Expression:
    """Return a column, or refuse what cannot be one; only Spark knows which Columns exist."""
    if isinstance(what, str):
        check_text("what", what, "price")
    elif what is None or isinstance(what, Preference | int | float | complex | bytes | type | Collection | Generator):
        raise refused("what", what, "not a column", 'give a column\'s name, an SQL expression or a Column, as low("price")')
    return what


def combine(preferences: tuple[Preference | str, ...]) -> Preference:
    """Return preferences combined as equals, after checking them; a bare name means that high is best, as in `by=` of a top-k.

    >>> combine((low("price"), high("stars")))
    low('price') * high('stars')
    >>> combine((low("price"), high("price")))
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: low('price') and high('price'): one column cannot be preferred twice; keep one of them
    """
    checked = [high(preference) if isinstance(preference, str) else _preference(preference) for preference in preferences]
    whole = checked[0] if len(checked) == 1 else Pareto(tuple(part for preference in checked for part in _flat(preference, Pareto)))
    attributes = list(whole.attributes())
    if all(attribute.kind == "diff" for attribute in attributes):
        raise InvalidInput(
            value=f"preferences {', '.join(map(repr, attributes)) or 'none'}",
            reason="nothing says which rows are better",
            remedy="give at least one low(...) or high(...)",
        )
    seen: dict[str, Attribute] = {}
    for attribute in attributes:
        earlier = seen.setdefault(str(attribute.what), attribute)
        if earlier is not attribute:
            raise InvalidInput(
                value=f"{earlier} and {attribute}",
                reason="one column cannot be preferred twice",
                remedy="keep one of them",
            )
    top_level = set(map(id, _flat(whole, Pareto)))
    for attribute in attributes:
        if attribute.kind == "diff" and id(attribute) not in top_level:
            raise InvalidInput(
                value=repr(whole),
                reason=f"{attribute} has no priority: it only says which rows are compared",
                remedy=f"combine it with *, outside of any &: (...) * {attribute}",
            )
    return whole


def groups_of(preference: Preference) -> tuple[Any, ...]:
    """Return the `diff` columns, each value of which is a competition of its own."""
    return tuple(attribute.what for attribute in preference.attributes() if attribute.kind == "diff")


def chains_of(preference: Preference) -> tuple[Chain, ...]:
    """Return lexicographic orders that together mean the same as the preference: a better row is not worse in any of them.

    A column is a chain of its own, and a Pareto combination has the chains of its parts. For `p & q`, take a chain of `p`,
    append all other columns of `p`, then a chain of `q`; do so until every chain of both has been used. Rows that differ in `p`
    are then decided by `p` alone (if one dominates, its first difference in any order is a better value), and rows that are
    equal in `p` by `q`. So any preference becomes a plain Pareto order over ranks, and one kernel serves them all.

    >>> chains_of(low("a") * low("b") & high("c"))
    ((low('a'), low('b'), high('c')), (low('b'), low('a'), high('c')))
    """
    if isinstance(preference, Attribute):
        return ((preference,),) if preference.kind != "diff" else ()
    if isinstance(preference, Pareto):
        return tuple(chain for part in preference.parts for chain in chains_of(part))
    assert isinstance(preference, Prioritised)
    chains = chains_of(preference.parts[0])
    columns = tuple(preference.parts[0].attributes())
    for part in preference.parts[1:]:
        following = chains_of(part)
        chains = tuple(
            (*_completed(chains[i % len(chains)], columns), *following[i % len(following)])
            for i in range(max(len(chains), len(following)))
        )
        columns += tuple(part.attributes())
    return chains


def _completed(chain: Chain, columns: Chain) -> Chain:
    return (*chain, *(column for column in columns if column not in chain))


def _flat(preference: Preference, kind: type[_Combined]) -> tuple[Preference, ...]:
    return preference.parts if isinstance(preference, kind) else (preference,)


def _preference(value: Any) -> Preference:
    if isinstance(value, Preference):
        return value
    if isinstance(value, int):
        raise InvalidInput(value=brief(value), reason="not a preference", remedy=f"give a count by its name: k={brief(value)}")
    example = value if isinstance(value, str) and value else "price"
    raise InvalidInput(
        value=brief(value),
        reason="not a preference",
        remedy=f"say what is better, for instance low({example!r}) or high({example!r})",
    )
