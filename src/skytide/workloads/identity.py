"""Randomness from identity: what is drawn depends on what it is for, never on who draws it, when, or in which order."""

import hashlib

import numpy as np


def derive(seed: int, *identity: int | str) -> np.random.Generator:
    """Return the random generator of one thing, which words and numbers name.

    >>> first, again, other = derive(7, "arrivals", 0), derive(7, "arrivals", 0), derive(7, "arrivals", 1)
    >>> first.random() == again.random() != other.random()
    True
    """
    name = "/".join(map(str, (seed, *identity)))
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(digest)))
