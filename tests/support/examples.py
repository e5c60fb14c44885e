"""How many examples Hypothesis draws: those that a test asks for, or in the profile `quick` of `make check` fewer."""

from hypothesis import settings

ALL, QUICK = 40, 8
"""Examples of a test that does not ask for a number."""


def examples(most: int) -> int:
    """Return how many of so many examples there are in the present profile."""
    return max(1, most * settings.default.max_examples // ALL)
