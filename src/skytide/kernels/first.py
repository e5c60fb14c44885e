"""Finds the first rival that dominates a point, where rivals have an order of their own: the panes they came in."""

import numpy as np

from skytide.kernels.compiled import compiled
from skytide.kernels.order import Indices, Points, scaled_sums
from skytide.kernels.scan import BLOCK, Mask, count_dominators, dominates
from skytide.kernels.signature import Words, encode, guard_bits, layout, quantiles

NO_TURN = np.iinfo(np.int64).max


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
    if begins is None and turns.min() == turns.max():  # any of them will do, which is faster to find out
        return np.where(_dominated(points, rivals), turns[0], NO_TURN)
    keys = scaled_sums(np.concatenate([rivals, points]))  # a dominating row never has the larger key
    order = np.lexsort((keys[: len(rivals)], turns))
    rivals, turns = np.take(rivals, order, axis=0), turns[order]
    covered, bits = layout(points.shape[1])
    borders, guards = quantiles(points, covered, bits), np.uint64(guard_bits(covered, bits))
    padded = np.full(-(-len(rivals) // BLOCK) * BLOCK, guards, np.uint64)  # padding is above every signature
    padded[: len(rivals)] = encode(rivals, borders, bits)
    lowest = np.minimum.reduceat(keys[order], np.arange(0, len(rivals), BLOCK))
    places = np.zeros(len(points), np.int64) if begins is None else np.searchsorted(turns, begins)
    words = encode(points, borders, bits)
    found = _first(points, words, keys[len(rivals) :], rivals, padded, lowest, places, guards)
    return np.append(turns, NO_TURN)[found]


def _dominated(points: Points, rivals: Points) -> Mask:
    both = np.concatenate([points, rivals])
    asked = np.arange(len(both)) < len(points)
    return np.asarray(count_dominators(both, 1, tested=asked, dominating=~asked)[: len(points)] > 0)


@compiled
def _first(
    points: Points,
    words: Words,
    keys: Points,
    rivals: Points,
    rival_words: Words,
    lowest: Points,
    begins: Indices,
    guards: np.uint64,
) -> Indices:
    """Return the place of the first dominating rival, block by block; `lowest` is the smallest key in each block."""
    found = np.full(len(points), len(rivals), np.int64)
    for i in range(len(points)):
        word = words[i] | guards
        for b in range(begins[i] // BLOCK, len(lowest)):
            if lowest[b] > keys[i]:
                continue
            block = rival_words[b * BLOCK : b * BLOCK + BLOCK]
            hit = False
            for y in range(BLOCK):
                hit |= ((word - block[y]) & guards) == guards
            if hit:
                for y in range(max(0, begins[i] - b * BLOCK), BLOCK):
                    row = b * BLOCK + y
                    if ((word - block[y]) & guards) == guards and dominates(rivals[row], points[i]):
                        found[i] = row
                        break
                if found[i] < len(rivals):
                    break
    return found
