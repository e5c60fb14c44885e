"""Operators on the quotes of a symbol: what a trader sees of a window, and what it lets expect (P2 §5.1)."""

from skytide.trading.algo_trader import AlgoTrader
from skytide.trading.candlesticks import Candlesticks

__all__ = ["AlgoTrader", "Candlesticks"]
