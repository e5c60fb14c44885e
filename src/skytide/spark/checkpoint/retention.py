"""Which states of a checkpoint are kept, to go back to."""

from collections.abc import Collection, Mapping

KEPT = 5
"""The latest states, which are kept in any case."""
OLDER_US = 3_600_000_000
"""How far back there is one state per minute."""
OLDER_BYTES = 2**30
"""What files may take that only older states than the latest five need."""
_MINUTE_US = 60_000_000


def states_to_keep(written_us: Mapping[int, int]) -> set[int]:
    """Return the sequences of the states to keep, by when each was written: the latest five, and the newest of each minute of the last hour.

    >>> sorted(states_to_keep({sequence: 20_000_000 * sequence for sequence in range(12)}))
    [2, 5, 7, 8, 9, 10, 11]
    """
    newest_first = sorted(written_us, reverse=True)
    minutes: dict[int, int] = {}
    for sequence in newest_first:
        if abs(written_us[newest_first[0]] - written_us[sequence]) < OLDER_US:  # a clock that was set back leaves none for ever
            minutes.setdefault(written_us[sequence] // _MINUTE_US, sequence)
    return {*newest_first[:KEPT], *minutes.values()}


def states_that_fit(files: Mapping[int, Collection[str]], sizes: Mapping[str, int], limit: int) -> set[int]:
    """Return the sequences of the states to keep, by the files that each needs: the latest five, and older ones as long as what only they need fits.

    >>> sorted(states_that_fit({number: {"all", f"{number}"} for number in range(9)}, {"1": 60, "2": 30, "3": 20, "8": 999}, 100))
    [2, 3, 4, 5, 6, 7, 8]
    """
    newest_first = sorted(files, reverse=True)
    seen: set[str] = {name for sequence in newest_first[:KEPT] for name in files[sequence]}
    fitting, older = set(newest_first[:KEPT]), 0
    for sequence in newest_first[KEPT:]:
        older += sum(sizes.get(name, 0) for name in set(files[sequence]) - seen)
        if older > limit:
            break
        seen.update(files[sequence])
        fitting.add(sequence)
    return fitting
