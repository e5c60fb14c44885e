"""Operators on keys without Spark."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from skytide.batch import BatchRules, Keying
from skytide.keyed import CountWindows, KeyedStep, QueryAnswer, Rebalancer, Tagged, TimeWindows
from skytide.lateness import Slack
from skytide.spark.checkpoint import Files, Store
from skytide.spark.engine.cache import cache
from skytide.spark.engine.chunks import Chunks
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


@contextmanager
def reading_slowly() -> Iterator[list[str]]:
    """Let every second chunk be one that has to be read, as from an object store, and is there only after all other work; yield those that were."""
    read: list[str] = []
    find, get = cache.find, Chunks.get

    def forgetful(query: str, name: str) -> Any:
        return None if name.startswith("keys/") and zlib.crc32(name.encode()) % 2 else find(query, name)

    def noted(self: Chunks, stored: Any) -> Any:
        read.extend([stored.file] if stored.file not in self._there else [])
        return get(self, stored)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Files, "is_local", property(lambda self: False))
        patch.setattr(cache, "find", forgetful)
        patch.setattr(Chunks, "is_there", lambda self, stored: stored.file in self._there)
        patch.setattr(Chunks, "get", noted)
        yield read
