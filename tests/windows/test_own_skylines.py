"""A skyline with an answer of its own: windows of a stream have it, however it is written."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.engine import COLUMNS, InProcess, Outputs, plan_of

from skytide import low
from skytide.lateness import FixedSlack
from skytide.queries import Skyline
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows


class Eldest(Skyline):
    """The rows of a skyline with the two smallest numbers."""

    def window(self, kept: pa.Table) -> pa.Table:
        return self.window_of_skyline(super().window(kept))

    def window_of_skyline(self, best: pa.Table) -> pa.Table:
        return best.sort_by("id").slice(0, 2)


@pytest.mark.parametrize("slots", [1, 3])
def test_an_answer_made_of_a_skyline_counts_where_both_methods_are_written_anew(tmp_path: Path, slots: int) -> None:
    always: dict[str, Any] = {"spreading_pays_s": 0.0, "driver_pays_s": -1.0}
    plan, out = plan_of(Eldest(low("a")), str(tmp_path), Windows(20, 10), FixedSlack(0), **always), Outputs()
    engine = Engine(*plan, out.sinks)
    engine.resize(window_slots=slots)
    for number in range(3):
        ids = list(range(5 * number, 5 * number + 5))
        times = pa.array([10 * number] * 5, pa.timestamp("us", "UTC"))
        engine.run_batch(InProcess(), [pa.table([times, pa.array([1] * 5), pa.array([1.0] * 5), ids], schema=COLUMNS)], number)
    engine.flush(InProcess())
    found: dict[Any, list[int]] = {}
    for row in out.results.rows():
        found.setdefault(row["window_end"], []).append(row["id"])
    assert [sorted(ids) for _, ids in sorted(found.items())] == [[0, 1], [0, 1], [5, 6], [10, 11]]
