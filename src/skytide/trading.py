"""What was here has moved."""

_HOMES = {
    "AlgoTrader": "skytide_lab.trading, of the laboratory: pip install 'skytide[lab]'",
    "Candlesticks": "skytide.keyed",
}


def __getattr__(name: str) -> object:
    """Say where it is now."""
    if name in _HOMES:
        raise ImportError(f"{name} has moved from skytide.trading to {_HOMES[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
