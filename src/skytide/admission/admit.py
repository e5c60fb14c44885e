"""How many tuples of each stream its split takes: as evenly as possible, without leaving any of its capacity unused."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.admission.records import Counts, Numbers
from skytide.errors.checks import check_integer, refused


def admit(waiting: Counts, splits: Numbers, budget: int, *, turn: int = 0) -> Counts:
    """Return how many of the waiting tuples of each stream are admitted, at most `budget` in each split.

    Max-min fair: no stream gets more than another one of its split unless that one has no more. Tuples that cannot be divided evenly go
    to streams in turn: raise `turn` by one with each call, and in the long run every stream gets equally many.

    >>> admit(np.array([9, 1, 9]), np.zeros(3, np.int32), 8)
    array([4, 1, 3])
    >>> admit(np.array([9, 1, 9]), np.zeros(3, np.int32), 8, turn=1)
    array([3, 1, 4])
    """
    if not len(waiting):
        return np.zeros(0, np.int64)
    check_integer("budget", budget, 0)
    if int(splits.min()) < 0:
        raise refused("splits", int(splits.min()), "not the number of a split", "give 0 or more")
    if (np.bincount(splits, waiting) <= budget).all():  # enough for all, the usual case
        return waiting.astype(np.int64)
    order = np.lexsort((waiting, splits))  # within a split the smallest first; ties keep their order
    of, wants = splits[order], waiting[order].astype(np.int64)
    group, starts, sizes = _groups(of)
    sums = np.cumsum(wants)
    before = sums - wants - (sums[starts] - wants[starts])[group]  # what the smaller streams of its split want together
    others = (starts + sizes)[group] - np.arange(len(of))  # streams of its split that want as much or more, itself included
    short = np.flatnonzero(before + wants * others > budget)  # not enough for all of it, if the larger streams get as much
    group, starts, sizes = _groups(of[short])
    firsts = short[starts]
    share, over = np.divmod(budget - before[firsts], sizes)
    by_stream = np.lexsort((order[short], group))  # not by what is waiting, which changes all the time
    rank = np.empty(len(short), np.int64)
    rank[by_stream] = np.arange(len(short)) - starts[group]
    lucky = np.mod(rank - (turn * over)[group], sizes[group]) < over[group]
    wants[short] = share[group] + lucky
    result = np.empty(len(waiting), np.int64)
    result[order] = wants
    return result


def _groups(sorted_keys: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the group of each element, and where each group starts and how many elements it has."""
    new = np.ones(len(sorted_keys), np.bool_)
    new[1:] = sorted_keys[1:] != sorted_keys[:-1]
    starts = np.flatnonzero(new)
    sizes = np.diff(starts, append=len(sorted_keys))
    return np.cumsum(new) - 1, starts, sizes
