"""X10 on the engine at toy size: all protocols run, hand over what they should, and are judged."""

import math

import pytest
from pyspark.sql import SparkSession

from skytide.keyed import RoutingTable
from skytide_lab.experiments import x10_engine as x10
from skytide_lab.experiments.blocking import MP, R_BLK, S_BLK, Forced


@pytest.mark.long
def test_each_protocol_moves_keys_and_is_judged(spark: SparkSession) -> None:
    rows = x10.measure(1, x10.SMALL)
    measured = [row for row in rows if row["figure"] == "engine"]
    assert {row["protocol"] for row in measured} == {MP, R_BLK, S_BLK}
    for row in measured:
        assert 0.4 < row["moved_keys"] < 1
        assert all(math.isfinite(row[name]) for name in ("before_ms", "staying_ms", "moving_ms", "service_ms"))
        assert row["staying_done_ms"] <= row["staying_ms"] + 1e-6
    assert sum(row["results"] for row in rows if row["figure"] == "engine over time") > 100
    assert len(x10.claims(rows)) == 2


def test_so_many_groups_move_as_are_asked_for() -> None:
    logic, table = Forced(stay=0.2).build(), RoutingTable.even(6)
    assert logic.plan(table, 6).table == table
    moves = logic.plan(table, 8)
    assert moves.table.count == 8
    assert len(moves.moved) == pytest.approx(0.8 * 256, abs=25)
    assert sorted({moves.table.slots.count(slot) for slot in range(8)})[-1] <= 34
