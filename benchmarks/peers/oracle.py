"""What windows have to answer, the plain way: NumPy on all tuples of a window, and no code of any contestant."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Disagreement

Array = NDArray[np.float64]


def check(query: str, points: Array, answer: Array, *, sample: int) -> None:
    """Raise Disagreement unless an answer is right; of a skyline, so many of the window's rows are looked at.

    >>> window = np.array([[1.0, 4.0], [2.0, 3.0], [2.0, 4.0]])
    >>> check("skyline", window, window[:2], sample=3)
    >>> check("skyline", window, window[1:], sample=3)
    Traceback (most recent call last):
    ...
    benchmarks.timing.Disagreement: 2 rows of 3 are wrongly in the skyline, or not in it
    >>> check("aggregate", window, np.array([3, 5 / 3, 4.0]), sample=0)
    """
    if query == "aggregate":
        expected = [len(points), points[:, 0].mean(), points[:, 1].max()]
        if answer.shape != (3,) or not np.allclose(answer, expected, rtol=1e-9, atol=0):
            raise Disagreement(f"{answer} instead of {expected}")
        return
    there = {row.tobytes() for row in points}
    found = {row.tobytes() for row in answer}
    if len(found) != len(answer) or not found <= there:
        raise Disagreement(f"{len(answer):,} rows, of which {len(found - there):,} are not in the window and some may be twice")
    rows = np.random.default_rng(len(points)).permutation(points)[:sample]
    wrong = sum((row.tobytes() in found) == dominated(row, points) for row in rows)
    if wrong:
        raise Disagreement(f"{wrong:,} rows of {len(rows):,} are wrongly in the skyline, or not in it")


def dominated(row: Array, points: Array) -> bool:
    """Say if some point is nowhere worse than a row, and better somewhere."""
    return bool(((points <= row).all(axis=1) & (points < row).any(axis=1)).any())
