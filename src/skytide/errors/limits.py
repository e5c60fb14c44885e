"""The largest values that are accepted; anything beyond them is refused before anything runs."""

MAX_COUNT = 2**63 - 1
"""What the compiled loops, Arrow and Java can count to."""
MAX_DURATION_US = 100 * 365 * 86_400_000_000
"""A century: with much longer times, sums would not fit into 64 bits."""
MAX_OVERLAPPING = 1_000_000
"""Windows that one tuple may belong to."""
MAX_ROWS_PER_WINDOW = 10_000_000
"""Rows of a window that is measured in rows."""
MAX_SLOTS = 100_000
"""Tasks that work at the same time."""
MAX_PORT = 65_535
"""The highest port of TCP."""
MAX_CORES = 10_000
"""Cores of a Spark on this machine, real or claimed."""
MAX_ACCURACY = 20_000
"""The accuracy of quantiles: the largest sketch that the library offers."""
MAX_DIVIDED_KEYS = 4_096
"""The most frequent keys that are divided among slots."""
MAX_DIMENSIONS = 64
"""Columns of a generated point."""
MAX_STREAMS = 100_000
"""Streams of a generated fleet."""
MAX_SEED = 2**128
"""Seeds of generated streams."""
MAX_DELAY_US = 24 * 3600 * 1_000_000
"""A day: how late a generated tuple may be."""
