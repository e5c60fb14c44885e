"""Operators on the tuples of each key; keys can move from slot to slot at any time (P2)."""

from skytide.keyed.answers import AggregateAnswer, Answer, OperatorAnswer, QueryAnswer
from skytide.keyed.candlesticks import Candlesticks
from skytide.keyed.chunk import Chunk, gathered, to_merge
from skytide.keyed.costs import Spent, loads_of, slot_loads
from skytide.keyed.operator import KeyedOperator, Operator
from skytide.keyed.rebalance import Loads, Moves, Rebalancer, RebalancerLogic
from skytide.keyed.state import KeyedState, SlotReport, StoredChunk
from skytide.keyed.table import GROUPS, GROUPS_PER_SLOT, RoutingTable, base_groups
from skytide.keyed.tagged import OfEachKey, Tagged, hashes_of
from skytide.keyed.windows import CountWindows, TimeWindows
from skytide.keyed.work import HASH, KeyedStep, Worked

__all__ = [
    "GROUPS",
    "GROUPS_PER_SLOT",
    "HASH",
    "AggregateAnswer",
    "Answer",
    "Candlesticks",
    "Chunk",
    "CountWindows",
    "KeyedOperator",
    "KeyedState",
    "KeyedStep",
    "Loads",
    "Moves",
    "OfEachKey",
    "Operator",
    "OperatorAnswer",
    "QueryAnswer",
    "Rebalancer",
    "RebalancerLogic",
    "RoutingTable",
    "SlotReport",
    "Spent",
    "StoredChunk",
    "Tagged",
    "TimeWindows",
    "Worked",
    "base_groups",
    "gathered",
    "hashes_of",
    "loads_of",
    "slot_loads",
    "to_merge",
]
