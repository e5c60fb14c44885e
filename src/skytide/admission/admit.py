"""How many tuples of each stream its split takes: as evenly as can be, and none of what it can do is left unused."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from skytide.admission.records import Counts, Numbers
from skytide.errors.checks import refused


def admit(waiting: Counts, splits: Numbers, budgets: "Mapping[int, int] | NDArray[np.integer]", *, turn: int = 0) -> Counts:
    """Return how many of the waiting tuples of each stream are let in, at most the budget of each split.

    Max-min fair: no stream gets more than another one of its split unless that one has no more. Tuples that cannot be divided evenly go
    to streams in turn: raise `turn` by one each time, and over the times every stream gets as many of them. `budgets` are by the number of a split.

    >>> admit(np.array([9, 1, 9]), np.zeros(3, np.int32), {0: 8})
    array([4, 1, 3])
    >>> admit(np.array([9, 1, 9]), np.zeros(3, np.int32), {0: 8}, turn=1)
    array([3, 1, 4])
    """
    if not len(waiting):
        return np.zeros(0, np.int64)
    budget = _by_number(budgets, splits)
    order = np.lexsort((waiting, splits))  # within a split the least first; ties keep their order
    of, wants = splits[order], waiting[order].astype(np.int64)
    starts = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    group = np.cumsum(np.append(False, of[1:] != of[:-1]))
    sizes = np.diff(np.append(starts, len(of)))
    sums = np.cumsum(wants)
    before = sums - wants - (sums[starts] - wants[starts])[group]  # what the smaller ones of its split want together
    others = (starts + sizes)[group] - np.arange(len(of))  # streams of its split that want as much or more, itself too
    full = before + wants * others <= budget[of]  # enough for all of it, even if the larger ones got as much
    short = np.flatnonzero(~full)
    taken = wants.copy()
    if len(short):
        at = np.flatnonzero(np.append(True, group[short][1:] != group[short][:-1]))
        firsts, which = short[at], np.cumsum(np.append(False, group[short][1:] != group[short][:-1]))
        many = np.diff(np.append(at, len(short)))
        each, over = np.divmod(budget[of[firsts]] - before[firsts], many)
        place = np.empty(len(short), np.int64)  # by the order of streams, not by what waits, which changes from time to time
        by_stream = np.lexsort((order[short], which))
        place[by_stream] = np.arange(len(short)) - at[which]
        lucky = np.mod(place - (turn * over)[which], many[which]) < over[which]
        taken[short] = each[which] + lucky
    result = np.empty(len(waiting), np.int64)
    result[order] = taken
    return result


def _by_number(budgets: "Mapping[int, int] | NDArray[np.integer]", splits: Numbers) -> Counts:
    """Return budgets as an array that split numbers index."""
    if int(splits.min()) < 0:
        raise refused("splits", int(splits.min()), "not the number of a split", "give 0 or more")
    if not isinstance(budgets, Mapping):
        budgets = dict(enumerate(np.asarray(budgets).tolist()))
    result = np.full(int(splits.max()) + 1, -1, np.int64)
    for number, budget in budgets.items():
        if 0 <= number < len(result):
            result[number] = budget
    if missing := set(np.unique(splits).tolist()) - set(np.flatnonzero(result >= 0).tolist()):
        raise refused(
            "budgets", sorted(missing)[:3], "these splits have none, or one below 0", "give each split a budget of 0 or more"
        )
    return result
