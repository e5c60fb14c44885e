"""Keyed operators: which slot has the state of which keys, and when it moves (P2 §2.1, §4)."""

from skytide.keyed.rebalance import Loads, Moves, Rebalancer, RebalancerLogic
from skytide.keyed.table import GROUPS, RoutingTable

__all__ = ["GROUPS", "Loads", "Moves", "Rebalancer", "RebalancerLogic", "RoutingTable"]
