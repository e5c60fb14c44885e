"""Point clouds of the skyline literature (Börzsönyi et al. 2001)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput

Points = NDArray[np.float64]
Cloud = Callable[[np.random.Generator, int, int], Points]


def points(kind: str, n: int, d: int, *, seed: int = 0) -> Points:
    """Return `n` points in the unit cube of `d` dimensions, which follow from the arguments.

    The kind determines how dimensions depend on each other: not at all if "independent"; "correlated" points are good or bad in all of
    them, and "anticorrelated" points that are good in some are bad in others. The skyline is small if correlated, larger if independent,
    and most of the points if anticorrelated.

    >>> points("independent", 2, 3).shape
    (2, 3)
    >>> np.corrcoef(points("anticorrelated", 1000, 2).T)[0, 1] < -0.5
    np.True_
    >>> points("spherical", 2, 3)
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: kind='spherical': no such cloud; choose one of independent, correlated, anticorrelated
    """
    if kind not in CLOUDS:
        raise InvalidInput(value=f"{kind=}", reason="no such cloud", remedy=f"choose one of {', '.join(CLOUDS)}")
    return np.ascontiguousarray(columns(kind, np.random.default_rng([seed, n, d, *kind.encode()]), n, d).T)


def columns(kind: str, random: np.random.Generator, n: int, d: int) -> Points:
    """Return `n` random points of a kind, one row per dimension; those outside the unit cube are drawn again.

    >>> columns("correlated", np.random.default_rng(0), 5, 3).shape
    (3, 5)
    """
    if kind == "independent":
        return _independent(random, n, d)
    batches, missing, ask = [np.empty((d, 0))], n, n
    while missing > 0:
        drawn = CLOUDS[kind](random, ask, d)
        inside = np.flatnonzero(((drawn >= 0) & (drawn <= 1)).all(axis=0))[:missing]
        batches.append(drawn[:, inside])
        missing -= len(inside)
        ask = 16 + 2 * missing  # in 8 dimensions at least two thirds are inside, in 16 half of them
    return np.concatenate(batches, axis=1)


MIDDLE, ALONG, ACROSS = 0.5, 0.15, 0.05  # of points near a line or plane: its place, and standard deviations along and across it
DRIFTING = "drifting"
DRIFT_US = 30_000_000  # time until the next cloud has taken over


def cloud_at(kind: str, time_us: int, random: np.random.Generator) -> str:
    """Return the cloud of points at a time; drifting points gradually change to the next one every 30 s."""
    if kind != DRIFTING:
        return kind
    clouds = list(CLOUDS)
    turn, into = divmod(time_us, DRIFT_US)
    return clouds[(turn + (random.random() < into / DRIFT_US)) % len(clouds)]


def _independent(random: np.random.Generator, n: int, d: int) -> Points:
    return random.random((d, n))


def _correlated(random: np.random.Generator, n: int, d: int) -> Points:
    """Return points close to the diagonal."""
    return random.normal(MIDDLE, ALONG, n) + random.normal(0, ACROSS, (d, n))


def _anticorrelated(random: np.random.Generator, n: int, d: int) -> Points:
    """Return points close to the plane through the middle of the diagonal on which all points have the same sum."""
    free = random.random((d, n))
    free += random.normal(MIDDLE, ACROSS, n) - free.mean(axis=0)
    return free


CLOUDS: dict[str, Cloud] = {
    "independent": _independent,
    "correlated": _correlated,
    "anticorrelated": _anticorrelated,
}
