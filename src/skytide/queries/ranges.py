"""The answers of many ranges of rows that overlap: at once for queries that contain a skyband, and one by one for the others."""

import numpy as np
import pyarrow as pa

from skytide.kernels import Indices, Mask, Points, count_dominators, range_bands
from skytide.queries.columns import group_numbers, missing
from skytide.queries.memory import Answers
from skytide.queries.query import Query, stands_for_window
from skytide.queries.skyline import Skyband

LARGE = 1024  # rows between neighbouring bounds of ranges that are first reduced on their own
MAX_REMEMBERED = 2**24  # dominators of rows, in memory: 128 MiB


def range_answers(query: Query, rows: pa.Table, begins: Indices, ends: Indices) -> Answers:
    """Return the answers of ranges of rows; those that slide forward cost little more than their rows and answers.

    >>> from skytide.queries import TopK, high
    >>> answers = range_answers(TopK(high("x"), k=1), pa.table({"x": [3, 1, 2]}), np.array([0, 0, 1]), np.array([1, 2, 3]))
    >>> answers.rows["x"].to_pylist(), answers.counts.tolist()
    ([3, 3, 2], [1, 1, 1])
    """
    band = skyband_of(query)
    longest = int((ends - begins).max(initial=0))
    if band is None or min(band.k, longest) * longest > MAX_REMEMBERED:
        return answers_one_by_one(query, rows, begins, ends)
    places, points = _compared(band, rows, _covered(rows, begins, ends))
    first, last = np.searchsorted(places, begins), np.searchsorted(places, ends)
    few = _reduced(points, first, last, band.k)
    first, last = np.searchsorted(few, first), np.searchsorted(few, last)
    best_places, counts, runs = range_bands(points[few], first, last, band.k)
    best, counts = query.windows_of_skyband(rows.take(pa.array(places[few[best_places]])), counts)
    return Answers(best, counts).repeated(np.diff(runs, append=len(begins)))


def answers_one_by_one(query: Query, rows: pa.Table, begins: Indices, ends: Indices) -> Answers:
    """Return the answers of ranges of rows, each from its rows alone; ranges that follow each other with the same rows are one."""
    same = (begins[1:] == begins[:-1]) & (ends[1:] == ends[:-1])
    first = np.flatnonzero(np.concatenate([np.ones(min(len(begins), 1), np.bool_), ~same]))
    bounds = zip(begins[first].tolist(), ends[first].tolist(), strict=True)
    windows_out = [query.window(query.pane(rows.slice(begin, end - begin))) for begin, end in bounds]
    return Answers.of(windows_out, query.schema(rows.schema).empty_table()).repeated(np.diff(first, append=len(begins)))


def needed_later(query: Query, rows: pa.Table, starts: Indices) -> Mask:
    """Return which rows may be in an answer of a range that holds all rows after them, too; `starts` is where each key's rows start, and the end.

    Rows are compared with some of those after them, so that this costs little; some that are not needed may be left.
    """
    band = skyband_of(query)
    if band is None or min(band.k, LARGE) * LARGE > MAX_REMEMBERED:
        return np.ones(rows.num_rows, np.bool_)
    places, points = _compared(band, rows, ~_absent(band, rows))
    starts = np.searchsorted(places, starts)
    cuts = np.unique(np.concatenate([starts, np.arange(0, len(places), LARGE), [len(places)]]))
    needed_places, _, _ = range_bands(points, cuts[:-1], cuts[1:], band.k, later=True)
    needed = _absent(band, rows)  # these are in no answer, but their windows come out
    needed[places[needed_places]] = True
    return needed


def skyband_of(query: Query) -> Skyband | None:
    """Return the skyband inside a query; None if a subclass has another `pane` or `window`, but inherits the skyband."""
    stands = all(stands_for_window(query, "skyband_inside", instead_of) for instead_of in ("pane", "window"))
    return query.skyband_inside() if stands and stands_for_window(query, "windows_of_skyband") else None


def _covered(rows: pa.Table, begins: Indices, ends: Indices) -> Mask:
    """Return which rows are in a range."""
    depth = np.bincount(begins, minlength=rows.num_rows + 1) - np.bincount(ends, minlength=rows.num_rows + 1)
    return np.asarray(np.cumsum(depth)[: rows.num_rows] > 0)


def _absent(band: Skyband, rows: pa.Table) -> Mask:
    """Return which rows do not take part, for NULL or NaN."""
    if band.nulls == "worst":
        return np.zeros(rows.num_rows, np.bool_)
    return missing(rows, tuple(band.preference.attributes()))


def _compared(band: Skyband, rows: pa.Table, wanted: Mask) -> tuple[Indices, Points]:
    """Return which of the wanted rows take part, and their points; rows of other groups are neither better nor worse."""
    if band.nulls == "drop":
        wanted = wanted & ~_absent(band, rows)
    places = np.flatnonzero(wanted)
    some = rows if wanted.all() else rows.take(pa.array(places))
    some, points = band.compared(some)
    if band.groups() and some.num_rows:
        group = group_numbers(some, band.groups()).astype(np.float64)
        points = np.column_stack([points, group, -group])
    return places, points


def _reduced(points: Points, begins: Indices, ends: Indices, k: int) -> Indices:
    """Return the points that may be in a skyband: many between neighbouring bounds, which all ranges have together, are compared at once."""
    kept = np.ones(len(points), np.bool_)
    cuts = np.unique(np.concatenate([begins, ends]))
    for large in np.flatnonzero(np.diff(cuts) > LARGE).tolist():
        part = slice(cuts[large], cuts[large + 1])
        kept[part] = count_dominators(points[part], limit=k) < k
    return np.flatnonzero(kept)
