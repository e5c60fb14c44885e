"""An operator on keys in virtual time decides what the engine decides about the same stream, and its slots take what they cost."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import keyed
from support.engine import COLUMNS, InProcess, Outputs

from skytide.batch import BatchRules, InSource, Keying
from skytide.errors import InvalidInput
from skytide.keyed import AggregateAnswer, CountWindows, Rebalancer
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure
from skytide.routing import EVEN
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.sim.key_level import ZipfKeys
from skytide_lab.sim.micro_batch import BatchCosts, BatchPlant, run_batches

TICK = Windows(10_000, 10_000)
STREAM = Workload(rate=4_000, tick_us=10_000, seed=5)
COSTS = BatchCosts("made up", batch_s=0.1, tuple_s=0.0, task_s=0.01, window_s=0.0, window_tuple_s=0.0, key_tuple_s=1e-4)
KEYS = ZipfKeys(300, exponent=1.2, seed=2)
MANY_MOVES = Rebalancer(threshold=1.05, target=1.01, own_share=0.3)
PER_BATCH = 25  # ticks
RESIZED = {3: 4, 6: 7, 9: 3}
"""With which batches the number of slots changes."""


def rules(rebalancer: Rebalancer = MANY_MOVES) -> BatchRules:
    return BatchRules(TICK, FixedSlack(0), InSource(EVEN), keying=Keying(2, rebalancer))


def rows_of(ticks: range) -> pa.Table:
    """Return the tuples of some ticks as the engine gets them."""
    parts = [
        pa.table({"ts": pa.array(STREAM.times_us(tick, n)[0], pa.timestamp("us", "UTC")), "a": KEYS.of_tick(tick, n)})
        for tick, n in zip(ticks, STREAM.counts(ticks.start, ticks.stop).tolist(), strict=True)
    ]
    rows = pa.concat_tables(parts)
    return rows.append_column("b", pa.nulls(len(rows), pa.float64())).append_column("id", rows["a"]).cast(COLUMNS)


def decisions(engine: Any, state: Any) -> tuple[Any, ...]:
    assert state.keyed is not None
    return state.keyed.table, state.keyed.moved, engine.window_plan, engine.key_slots


def in_virtual_time(keys: ZipfKeys = KEYS) -> list[tuple[Any, ...]]:
    plant, made = BatchPlant(STREAM, COSTS, rules(), 2, keys), []
    for batch in range(12):
        plant.machine.resize(slots=RESIZED.get(batch))
        plant.run_batch(range(batch * PER_BATCH, (batch + 1) * PER_BATCH))
        made.append(decisions(plant.machine, plant.state))
    return made


def in_the_engine(folder: Path) -> list[tuple[Any, ...]]:
    counted = AggregateAnswer(Aggregate((Measure.parse("count(*) AS n"),), time="ts"))
    plan = keyed.plan_of(keyed.step(CountWindows(10, 5), counted), str(folder), FixedSlack(0))
    plan = replace(plan.but(windows=TICK), rules=replace(plan.rules, windows=TICK))
    engine, made = Engine(*plan, Outputs().sinks), []
    for batch in range(12):
        engine.resize(slots=RESIZED.get(batch))
        engine.run_batch(InProcess(), [rows_of(range(batch * PER_BATCH, (batch + 1) * PER_BATCH))], batch)
        made.append(decisions(engine._machine, plan.store.latest()))
    return made


def test_the_simulator_decides_what_the_engine_decides(tmp_path: Path) -> None:
    simulated, real = in_virtual_time(), in_the_engine(tmp_path)
    assert simulated == real
    assert real[-1][1] > 50, "hardly anything moved, so little was compared"
    assert [table.count for table, *_ in real] == [2, 2, 2, 4, 4, 4, 7, 7, 7, 3, 3, 3]
    assert any("becomes a group of its own" in why for _, _, why, _ in real)


def test_other_keys_lead_to_other_decisions(tmp_path: Path) -> None:
    """A guilty specimen: a simulator that sees another stream."""
    assert in_virtual_time(replace(KEYS, seed=3)) != in_the_engine(tmp_path)


def test_slots_take_what_their_keys_cost() -> None:
    """Half a second of 4,000 tuples per second: 0.1 s for Spark, 0.01 s for each level, 0.1 s for the tuples of two balanced slots."""
    usual = {"slots": 2, "cores": 2, "trigger_s": 0.5, "length_s": 30.0}
    even = replace(KEYS, exponent=0.1)
    balanced = run_batches(STREAM, TICK, COSTS, EVEN, **usual, keys=even, keying=Keying(2))  # type: ignore[arg-type]
    assert balanced.utilisation == pytest.approx((0.1 + 0.02 + 0.1) / 0.5, rel=0.1)
    alone = run_batches(STREAM, TICK, COSTS, EVEN, **usual, keys=even, keying=Keying(1))  # type: ignore[arg-type]
    assert alone.utilisation == pytest.approx((0.1 + 0.02 + 0.2) / 0.5, rel=0.1)
    assert alone.moved_groups == 0


def test_keys_need_rules_for_them() -> None:
    with pytest.raises(InvalidInput, match="operator on keys"):
        BatchPlant(STREAM, COSTS, rules(), 2)
    with pytest.raises(InvalidInput, match="windows"):
        BatchPlant(STREAM, COSTS, replace(rules(), keying=None), 2, KEYS)
