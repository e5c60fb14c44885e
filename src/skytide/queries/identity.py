"""What must not change between two starts of a query with one checkpoint: what is kept of panes, and what is asked of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from skytide.queries.described import described

_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_LENIENT = re.compile(r"\bnulls='(?:drop|worst)'")
_RESULT = re.compile(rf"(Result\(name={_QUOTED}), text={_QUOTED}\)")


@dataclass(frozen=True)
class Identity:
    """A query as people read it, and exactly. Expressions over what is kept belong to the wording only, so they may change."""

    wording: str
    exact: str = ""
    measures: tuple[str, ...] = ()
    """What aggregates keep, in the order they keep it; expressions over them may name them in another order."""
    code: str = ""
    """The compiled functions in the query."""
    stricter: tuple[str, ...] = ()
    """Queries that would have ended with an error where this one has another answer, exactly: it may continue what they began."""
    short: str = ""
    """The query in few words; no checkpoint has it."""

    @staticmethod
    def of(
        value: object,
        wording: str,
        measures: tuple[str, ...] = (),
        code: str = "",
        stricter: tuple[object, ...] = (),
        short: str = "",
    ) -> Identity:
        """Return the identity of an object that is a query or an operator; `short` are its few words, if the wording is not short."""
        exact = described(value)
        whole_code = " ".join(filter(None, (exact.code, code)))
        others = tuple(described(query).text for query in stricter)
        return Identity(wording, exact.text, measures, whole_code, others, short or without_address(wording))

    def over(self, upper: Identity) -> Identity:
        """Return the identity of the query `upper` over the answers of this one."""
        exact, *stricter = (
            f"{ours} over {lower}" for ours in (upper.exact, *upper.stricter) for lower in (self.exact, *self.stricter)
        )
        return replace(
            self,
            wording=f"{upper.wording} over {self.wording}",
            exact=exact,
            code=" ".join(filter(None, (upper.code, self.code))),
            stricter=tuple(stricter),
            short=f"{upper.short} over {self.short}",
        )

    def of_keys(self, keys: tuple[str, ...]) -> Identity:
        """Return the identity of the query or operator that is applied to the tuples of each key."""
        return replace(
            self,
            wording=f"{self.wording} of {', '.join(keys) or 'all'}",
            short=f"{self.short} of {', '.join(keys) or 'all'}",
            exact=f"{self.exact} of {keys!r}",
            stricter=tuple(f"{query} of {keys!r}" for query in self.stricter),
        )

    def arranged(self, order: tuple[int, ...]) -> Identity:
        """Return the identity of the same query with its measures in another order."""
        return replace(self, measures=tuple(self.measures[place] for place in order))

    @property
    def readable(self) -> str:
        """Return the wording without the addresses of objects."""
        return without_address(self.wording)


def without_address(text: str) -> str:
    """Return the text of an object without its address in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def without_expressions(text: str) -> str:
    """Return the text of a query without the expressions over its aggregates, of which only the names of results remain.

    >>> without_expressions("Aggregate(measures=(), results=(Result(name='v', text='(count(1) / sum(x))'),))")
    "Aggregate(measures=(), results=(Result(name='v'),))"
    """
    return _RESULT.sub(r"\1)", text)


def strictly(text: str) -> str:
    """Return the text of a query as if NULL and NaN were errors.

    >>> strictly("Skyline(preference=low('a'), nulls='drop')")
    "Skyline(preference=low('a'), nulls='error')"
    """
    return _LENIENT.sub("nulls='error'", text)
