"""How many points dominate each point: one pass in topological order over cells of similar points."""

import numpy as np
from numpy.typing import NDArray

from skytide.kernels.compiled import compiled
from skytide.kernels.order import Indices, Points, distinct_rows, topological_order
from skytide.kernels.signature import Words, encode, guard_bits, layout, quantiles

Mask = NDArray[np.bool_]

BLOCK = 64  # a fixed length lets the compiler unroll the test of a block into wide vectors
MAX_CELL_BITS = 10
ROWS_PER_CELL = 128

_ONE = np.uint64(1)


def count_dominators(points: Points, limit: int, tested: Mask | None = None) -> Indices:
    """Return for each tested point how many points dominate it, up to `limit`; rows outside `tested` get 0."""
    n = len(points)
    counts = np.zeros(n, dtype=np.int64)
    if n == 0:
        return counts
    order = topological_order(points)
    starts = distinct_rows(points, order)
    rows = np.take(points, order[starts], axis=0)
    copies = np.diff(starts, append=n)
    asked = np.ones(len(starts), np.bool_) if tested is None else np.logical_or.reduceat(tested[order], starts)
    covered, bits = layout(rows.shape[1])
    words = encode(rows, quantiles(rows, covered, bits), bits)
    cell_bits = min(MAX_CELL_BITS, (len(rows) // ROWS_PER_CELL).bit_length())
    counts_of_rows = _scan(rows, copies, asked, words, covered, bits, cell_bits, limit)
    counts[order] = np.repeat(counts_of_rows, copies)
    if tested is not None:
        counts[~tested] = 0
    return counts


def beaten(points: Points, champions: Points) -> Mask:
    """Return for each point whether one of `champions` dominates it."""
    covered, bits = layout(points.shape[1])
    strongest_first = np.take(champions, topological_order(champions), axis=0)
    return _beaten(points, strongest_first, quantiles(points, covered, bits), bits)


@compiled
def dominates(a: Points, b: Points) -> bool:
    """Return whether point `a` is nowhere worse than point `b`, and better somewhere."""
    for k in range(len(a)):
        if a[k] > b[k]:
            return False
    for k in range(len(a)):
        if a[k] < b[k]:
            return True
    return False


@compiled
def _beaten(points: Points, champions: Points, borders: Points, bits: int) -> Mask:
    guards = guard_bits(borders.shape[0], bits)
    words = encode(points, borders, bits)
    m = len(champions)
    rivals = np.full(m + BLOCK, guards, np.uint64)
    rivals[:m] = encode(champions, borders, bits)
    rows = np.arange(m + BLOCK)
    weights = np.ones(m, np.int64)
    mask = np.empty(len(points), np.bool_)
    for i in range(len(points)):
        mask[i] = _count(points[i], words[i] | guards, guards, champions, weights, rivals, rows, m, 1) > 0
    return mask


@compiled
def _scan(
    points: Points, weights: Indices, asked: Mask, words: Words, covered: int, bits: int, cell_bits: int, limit: int
) -> Indices:
    """Return the counts, scanning cell by cell. Points are different and in topological order; a cell is a value of the codes' leading bits."""
    n = points.shape[0]
    guards = guard_bits(covered, bits)
    cells, cell_guards = _cells(words, covered, bits, cell_bits)
    order = np.argsort(cells, kind="mergesort")
    starts = np.empty(n + 1, np.int64)
    used = 0
    for i in range(n):
        if i == 0 or cells[order[i]] != cells[order[i - 1]]:
            starts[used] = i
            used += 1
    starts[used] = n
    level = np.empty(used, np.int64)
    for c in range(used):
        level[c] = _digit_sum(cells[order[starts[c]]], covered, bits)
    turn = np.argsort(level, kind="mergesort")

    counts = np.zeros(n, np.int64)
    kept = order.copy()  # the first kept_of[c] places of a cell's stretch: its points that can still dominate
    kept_of = np.zeros(used, np.int64)
    rivals = np.full(n + 2 * BLOCK, guards, np.uint64)  # a word of guard bits is above every signature: padding
    rival_rows = np.empty(n + 2 * BLOCK, np.int64)
    filled = 0
    for t in range(used):
        cell = turn[t]
        target = cells[order[starts[cell]]] | cell_guards
        m = 0
        for u in range(t):
            other = turn[u]
            if ((target - cells[order[starts[other]]]) & cell_guards) == cell_guards:
                for x in range(starts[other], starts[other] + kept_of[other]):
                    rivals[m] = words[kept[x]]
                    rival_rows[m] = kept[x]
                    m += 1
        for x in range(m, filled):
            rivals[x] = guards
        for x in range(starts[cell], starts[cell + 1]):
            i = order[x]
            if asked[i]:
                counts[i] = _count(points[i], words[i] | guards, guards, points, weights, rivals, rival_rows, m, limit)
            if counts[i] < limit:
                rivals[m] = words[i]
                rival_rows[m] = i
                m += 1
                kept[starts[cell] + kept_of[cell]] = i
                kept_of[cell] += 1
        filled = m
    return counts


@compiled
def _count(
    point: Points,
    word: np.uint64,
    guards: np.uint64,
    points: Points,
    weights: Indices,
    rivals: Words,
    rival_rows: Indices,
    m: int,
    limit: int,
) -> int:
    """Return how many of the first `m` rivals (rows of `points`) dominate `point`, by weight and up to `limit`."""
    dominators = 0
    for start in range(0, m, BLOCK):
        block = rivals[start : start + BLOCK]
        hit = False
        for y in range(BLOCK):
            hit |= ((word - block[y]) & guards) == guards
        if hit:
            for y in range(BLOCK):
                row = rival_rows[start + y]
                if ((word - block[y]) & guards) == guards and dominates(points[row], point):
                    dominators += weights[row]
                    if dominators >= limit:
                        return limit
    return dominators


@compiled
def _cells(words: Words, covered: int, bits: int, cell_bits: int) -> tuple[Words, np.uint64]:
    """Return the words with only the leading bits that make up the cell, and the guard bits that compare them."""
    mask = np.uint64(0)
    if covered >= cell_bits:
        for k in range(cell_bits):
            mask |= _ONE << np.uint64(k * (bits + 1) + bits - 1)
    else:
        for j in range(cell_bits):
            k, lead = j % covered, j // covered
            if lead < bits:
                mask |= _ONE << np.uint64(k * (bits + 1) + bits - 1 - lead)
    return words & mask, guard_bits(covered, bits)


@compiled
def _digit_sum(word: np.uint64, covered: int, bits: int) -> int:
    total = 0
    field = (_ONE << np.uint64(bits)) - _ONE
    for k in range(covered):
        total += int((word >> np.uint64(k * (bits + 1))) & field)
    return total
