"""The laws of queries."""

import numpy as np
import pyarrow as pa

from skytide.errors.checks import check_integer, check_type
from skytide.queries import Query, Skyline
from skytide.queries.columns import group_numbers
from skytide.queries.query import independent_groups
from skytide.testing.laws import BrokenLaw, check_copied, difference, division
from skytide.testing.rows import Rows, examples_of

PARTS = 5
SLOTS = 3


def check_query(query: Query, rows: Rows, *, tries: int = 20, seed: int = 0) -> None:
    """Raise `BrokenLaw` if a query does not keep the laws that skytide relies on.

    - The answer, and what is kept of a pane, have the columns that the query announces (`schema`, `kept_schema`).
    - Rows may be divided in any way, kept part by part, merged in any order and grouping: the answer is the same.
    - It is the same again if it is asked again.
    - Rows that differ in the columns of `groups` can be answered apart from each other.
    - Rows that the query does not refuse can be kept.
    - It can be copied to workers.

    Parameters
    ----------
    query
        The query.
    rows
        Examples, as of one window.
    tries
        How many divisions are drawn.
    seed
        What they are drawn from, the same ones each time. With `hypothesis`, draw rows and a seed, and use one try.

    Raises
    ------
    BrokenLaw
        If it does not keep one: which, and what was seen.

    Examples
    --------
    >>> from skytide.queries import Skyline, high, low
    >>> check_query(Skyline(low("price") * high("stars")), [{"price": 50, "stars": 3}, {"price": 60, "stars": 5}])
    """
    check_type("query", query, Query, reason="not a query", remedy="pass an object of a class that derives from skytide.Query")
    check_integer("tries", tries, 1)
    check_copied(query)
    table = examples_of(rows)
    query.check(table.schema)
    refused = query.refused(table)
    if refused is not None:
        table = table.filter(pa.array(~refused))
    _columns(query, table)
    for number in range(tries):
        _merging(query, table, seed + number)
        _grouping(query, table, seed + number)
        if query.can_share and not independent_groups(query):
            _sharing(query, table, seed + number)


def _columns(query: Query, rows: pa.Table) -> None:
    kept = query.pane(rows)
    for what, present, announced in (
        ("kept_schema", kept.schema, query.kept_schema(rows.schema)),
        ("schema", query.window(kept).schema, query.schema(rows.schema)),
    ):
        if present != announced:
            raise BrokenLaw(query, f"`{what}` announces the columns", f"{_text(present)} came instead of {_text(announced)}")


def _merging(query: Query, rows: pa.Table, seed: int) -> None:
    """Any division into parts, in any order, with partial merges in between, has the same answer (SPEC W5)."""
    owners, rng = division(rows.num_rows, PARTS, seed)
    whole = query.window(query.pane(rows))
    if seen := difference(query.window(query.pane(rows)), whole):
        raise BrokenLaw(query, "asked again, `window` returns the same rows", seen)
    kept = [query.pane(rows.filter(pa.array(owners == part))) for part in rng.permutation(PARTS)]
    early = int(rng.integers(0, PARTS + 1))
    if early:
        kept = [*kept[early:], query.merge(pa.concat_tables(kept[:early]))]
    if seen := difference(query.window(pa.concat_tables(kept)), whole):
        raise BrokenLaw(query, "however rows are divided and merged, `window` returns the same rows", seen)


def _grouping(query: Query, rows: pa.Table, seed: int) -> None:
    """However groups are divided among slots, the answers of all slots make up the window."""
    apart, kept = query.of_groups() or query, query.pane(rows)
    groups = independent_groups(apart)
    if not groups or not set(groups) <= set(kept.column_names):
        return
    numbers = group_numbers(kept, groups)
    owners, _ = division(int(numbers.max(initial=-1)) + 1, SLOTS, seed)
    answers = pa.concat_tables([apart.window(kept.filter(pa.array(owners[numbers] == slot))) for slot in range(SLOTS)])
    if seen := difference(query.from_groups(answers), query.window(kept)):
        raise BrokenLaw(query, f"rows that differ in {', '.join(groups)} can be answered apart", seen)


def _sharing(query: Query, rows: pa.Table, seed: int) -> None:
    """However the kept rows are divided among slots, their shares make up the window."""
    kept = query.pane(rows)
    owners, _ = division(kept.num_rows, SLOTS, seed)
    if isinstance(query, Skyline) and query.distinct:  # equal points have one owner
        names = [attribute.what for attribute in query.preference.attributes()]
        points = kept.select(names).to_pylist()
        owners = np.array([hash(tuple(point.values())) % SLOTS for point in points], np.int64)
    shares = pa.concat_tables([query.share(kept, owners == slot) for slot in range(SLOTS)])
    if seen := difference(query.settle(shares), query.window(kept)):
        raise BrokenLaw(query, "the shares of all slots make up the answer", seen)


def _text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
