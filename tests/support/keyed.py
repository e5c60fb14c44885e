"""Operators on keys without Spark."""

from typing import Any

from skytide.batch import BatchRules, Keying
from skytide.keyed import CountWindows, KeyedStep, QueryAnswer, Rebalancer, Tagged, TimeWindows
from skytide.lateness import Slack
from skytide.spark.checkpoint import Store
from skytide.windows import Windows
from support.engine import COLUMNS, Plan

TICK = Windows(100, 100)


def step(
    windows: CountWindows | TimeWindows | None = None, answer: Any = None, operator: Any = None, keys: tuple[str, ...] = ("a",)
) -> KeyedStep:
    """Return what is done with the tuples of each key."""
    return KeyedStep(keys, "ts", COLUMNS, windows, answer, operator)


def plan_of(made: KeyedStep, folder: str, slack: Slack, slots: int = 2) -> Plan:
    """Return the plan of a step, with a checkpoint in a folder, and keys that move for little."""
    tick = TICK if not isinstance(made.windows, TimeWindows) else made.windows.tick
    windows = made.windows.windows if isinstance(made.windows, TimeWindows) else None
    keying = Keying(slots, Rebalancer(threshold=1.05, target=1.01, own_share=0.3), windows)
    tagged = Tagged(made.keys, asked=made.answer.query if isinstance(made.answer, QueryAnswer) else None)
    return Plan.of(tagged, BatchRules(tick, slack, keying=keying), Store(folder), made.columns, made)
