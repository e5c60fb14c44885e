"""How long to wait for workers that were requested."""

PATIENCE = 3  # lead times


def patience_s(lead_s: float) -> float:
    """Return how long requested workers may take, for a usual lead time; later ones count as not granted.

    >>> patience_s(6.0)
    18.0
    """
    return PATIENCE * lead_s
