"""The compiled inner loops, on NumPy arrays: the only layer that imports numba."""

from skytide.kernels.bands import range_bands
from skytide.kernels.border import EXACT_INTEGER
from skytide.kernels.first import NO_TURN, first_dominators
from skytide.kernels.groups import by_group
from skytide.kernels.k_dominance import smallest_k
from skytide.kernels.levels import skyline_levels
from skytide.kernels.order import Indices, Points, dense_ranks, lexicographic_ranks
from skytide.kernels.scan import Mask, beaten, count_dominators
from skytide.kernels.skyline import skyline

__all__ = [
    "EXACT_INTEGER",
    "NO_TURN",
    "Indices",
    "Mask",
    "Points",
    "beaten",
    "by_group",
    "count_dominators",
    "dense_ranks",
    "first_dominators",
    "lexicographic_ranks",
    "range_bands",
    "skyline",
    "skyline_levels",
    "smallest_k",
]
