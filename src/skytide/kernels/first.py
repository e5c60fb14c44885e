"""Finds the first rival that dominates a point, where rivals have an order of their own: the panes they came in."""

import numpy as np

from skytide.kernels.compiled import compiled
from skytide.kernels.order import Indices, Points, dense_ranks
from skytide.kernels.scan import BLOCK, dominates
from skytide.kernels.signature import Words, encode, guard_bits, layout, quantiles

NO_TURN = np.iinfo(np.int64).max
MAX_CELL_BITS = 10
ROWS_PER_CELL = 32
STRENGTH_BITS = 14  # of a key: the sum of all codes; above them the cell, the number of its bits that are set, and the turn
ONES_BITS = 4

_ONE = np.uint64(1)


def first_dominators(points: Points, rivals: Points, turns: Indices, begins: Indices | None = None) -> Indices:
    """Return for each point the smallest turn of a rival that dominates it, or NO_TURN if none does.

    Each rival has its turn; those before the turn `begins` of a point do not count for it.

    >>> few, rivals, turns = np.array([[2.0], [1.0]]), np.array([[0.0], [3.0], [1.0]]), np.array([9, 7, 8])
    >>> first_dominators(few, rivals, turns)
    array([8, 9])
    >>> first_dominators(few, rivals, turns, begins=np.array([9, 9]))
    array([9, 9])
    """
    if len(points) == 0 or len(rivals) == 0:
        return np.full(len(points), NO_TURN, dtype=np.int64)
    covered, bits = layout(points.shape[1])
    borders = quantiles(points, covered, bits)
    words, rival_words = encode(points, borders, bits), encode(rivals, borders, bits)
    leads = _leading_bits(covered, bits, (min(len(points), len(rivals)) // ROWS_PER_CELL).bit_length())
    keys = _keys(words, np.zeros(len(points), np.int64), leads, covered, bits)
    rival_keys = _keys(rival_words, dense_ranks(turns), leads, covered, bits)
    group, order = np.argsort(keys), np.argsort(rival_keys)
    stretches = np.append(0, np.flatnonzero(np.diff(rival_keys[order] >> STRENGTH_BITS)) + 1)
    turns = turns[order]
    first = np.zeros(len(points), np.int64) if begins is None else np.searchsorted(turns[stretches], begins)
    rows = np.append(stretches, len(rivals))
    dominators = _first(
        points, words, keys, group, first, rivals, rival_words, order, rows, leads, np.uint64(guard_bits(covered, bits))
    )
    return np.append(turns, NO_TURN)[dominators]


def _leading_bits(covered: int, bits: int, count: int) -> Indices:
    """Return the places in a signature of the bits that make up a cell: the leading one of each code, then the one after it, and so on."""
    places = [k * (bits + 1) + bits - 1 - lead for lead in range(bits) for k in range(covered)]
    return np.array(places[: min(count, MAX_CELL_BITS)], np.int64)


@compiled
def _keys(words: Words, turns: Indices, leads: Indices, covered: int, bits: int) -> Indices:
    """Return what to sort by: turns first, then cells as wholes, and what dominates most of all early."""
    keys = np.empty(len(words), np.int64)
    field = (_ONE << np.uint64(bits)) - _ONE
    for i in range(len(words)):
        cell = ones = strength = 0
        for j in range(len(leads)):
            bit = int((words[i] >> np.uint64(leads[j])) & _ONE)
            cell |= bit << j
            ones += bit
        for k in range(covered):
            strength += int((words[i] >> np.uint64(k * (bits + 1))) & field)
        keys[i] = ((((turns[i] << ONES_BITS) | ones) << MAX_CELL_BITS | cell) << STRENGTH_BITS) | strength
    return keys


@compiled
def _first(
    points: Points,
    words: Words,
    keys: Indices,
    group: Indices,
    begins: Indices,
    rivals: Points,
    rival_words: Words,
    order: Indices,
    stretches: Indices,
    leads: Indices,
    guards: np.uint64,
) -> Indices:
    """Return the place in `order` of the first dominating rival, for points and rivals that are grouped by cells.

    A stretch of rivals has one turn and one cell; `begins` is the stretch at which each point begins. Of all rivals, only those in cells that are
    nowhere worse than the cell of a point are compared with it: they are gathered once for all points of a cell.
    """
    mask = np.uint64(0)
    for place in leads:
        mask |= _ONE << np.uint64(place)
    dominators = np.full(len(points), len(rivals), np.int64)
    gathered = np.empty(len(rivals) + BLOCK, np.uint64)
    places = np.empty(len(rivals) + BLOCK, np.int64)
    come = np.empty(len(stretches), np.int64)  # how many were gathered before each stretch
    m = 0
    for g in range(len(group)):
        i = group[g]
        word = words[i] | guards
        if g == 0 or keys[i] >> STRENGTH_BITS != keys[group[g - 1]] >> STRENGTH_BITS:
            target = (words[i] & mask) | guards
            m = 0
            for s in range(len(stretches) - 1):
                come[s] = m
                if ((target - (rival_words[order[stretches[s]]] & mask)) & guards) == guards:
                    for x in range(stretches[s], stretches[s + 1]):
                        gathered[m] = rival_words[order[x]]
                        places[m] = x
                        m += 1
            come[-1] = m
            gathered[m : m + BLOCK] = guards  # padding is above every signature
        start = come[begins[i]]
        while start < m and dominators[i] == len(rivals):
            block = gathered[start : start + BLOCK]
            hit = False
            for y in range(BLOCK):
                hit |= ((word - block[y]) & guards) == guards
            if hit:
                for y in range(BLOCK):
                    if ((word - block[y]) & guards) == guards and dominates(rivals[order[places[start + y]]], points[i]):
                        dominators[i] = places[start + y]
                        break
            start += BLOCK
    return dominators
