"""Frozen values that layers exchange, with units in their names."""

from skytide.records.stream import Status, WindowRow

__all__ = ["Status", "WindowRow"]
