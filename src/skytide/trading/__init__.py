"""Operators on the quotes of a symbol: candlesticks of a window, and a forecast of the price (P2 §5.1)."""

from skytide.trading.algo_trader import AlgoTrader
from skytide.trading.candlesticks import Candlesticks

__all__ = ["AlgoTrader", "Candlesticks"]
