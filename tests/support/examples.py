"""How many examples Hypothesis draws: those that a test asks for, or fewer in the profiles of `make test` and `make check`."""

from hypothesis import settings

PROFILES = {"all": 40, "some": 20, "quick": 5}
"""Examples of a test that does not ask for a number."""


def examples(most: int) -> int:
    """Return how many of so many examples there are in the present profile."""
    return max(1, most * settings.default.max_examples // PROFILES["all"])
