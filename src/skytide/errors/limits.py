"""The largest values that are taken from people; what is beyond them is refused before anything runs."""

MAX_COUNT = 2**63 - 1
"""What the compiled loops, Arrow and Java can count to."""
MAX_DURATION_US = 100 * 365 * 86_400_000_000
"""A century: beyond that sums of times no longer fit into 64 bits before long."""
MAX_OVERLAPPING = 1_000_000
"""Windows that one tuple may belong to."""
MAX_ROWS_PER_WINDOW = 10_000_000
"""The length of a window of so many rows."""
MAX_SLOTS = 100_000
"""Tasks that work at the same time."""
MAX_CORES = 1_000
"""Cores of an executor of a cluster on this machine."""
MAX_ACCURACY = 20_000
"""Of quantiles: what the largest sketch of the library is good for."""
MAX_DIVIDED_KEYS = 4_096
"""The most frequent keys that are divided among slots."""
MAX_DIMENSIONS = 64
"""Columns of a generated point."""
MAX_DELAY_US = 24 * 3600 * 1_000_000
"""A day: how late a generated tuple may be."""
MAX_SYMBOLS = 5_000
"""Symbols of a made-up trading day: names that can be spoken run out."""
MAX_DEGREE = 8
"""Of a polynomial that prices are fitted to."""
MAX_KERNEL_US = 2**62
"""Times that a compiled loop adds to others."""
