"""How the work of the window level is spread over slots: one task, unless it is worth more."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from skytide.queries import sliding_memory
from skytide.queries.sliding import Incremental
from skytide.spark.jobs import Jobs
from skytide.spark.store import State
from skytide.spark.window_level import WindowTask

WORTH_S = 0.4  # of work: below, the further jobs cost more than a second core saves
SLICES_A_SLOT = 2  # so that a slot which is done early has something to pull
FIRST_PAIR_S = 1e-9  # until it was measured

Work = Callable[[], Iterator[pa.RecordBatch]]
Row = dict[str, Any]


class Spread:
    """Decides batch by batch; each slot is a thread on the driver that pulls the next task when it is idle."""

    def __init__(self, slots: int) -> None:
        """Begin with an estimate of the cost of a pair of rows."""
        self.slots = slots
        self.said = ""
        self.worth_s = WORTH_S
        self._pair_s = FIRST_PAIR_S

    def run(self, jobs: Jobs, task: WindowTask, state: State) -> list[Row]:
        """Let the ended windows out, and give the report: a row a window, and the last one about it all."""
        new = sum(state.kept.get(file, 0) for files in task.panes.values() for file in files)
        pairs = new * (state.memory_rows + new)
        expected_s = pairs * self._pair_s
        if not isinstance(sliding_memory(task.query), Incremental):
            self.said = "one task: this query is answered from its panes as a whole"
        elif self.slots == 1:
            self.said = "one task: there is one slot"
        elif expected_s < self.worth_s:
            self.said = f"one task: {expected_s:.2f} s of work, and spreading pays from {self.worth_s:.2f} s on"
        else:
            return self._spread(jobs, task, state, pairs)
        rows: list[Row] = jobs.window_task(task.run).to_pylist()
        self._measured(rows[-1]["busy_s"], pairs)
        return rows

    def _spread(self, jobs: Jobs, task: WindowTask, state: State, pairs: int) -> list[Row]:
        with ThreadPoolExecutor(self.slots) as slots:

            def pull(work: list[Work]) -> list[Row]:
                return [reports.to_pylist()[-1] for reports in slots.map(jobs.window_task, work)]

            parted = [pane for pane, files in task.panes.items() if len(files) > 1]
            merged = pull([lambda pane=pane: task.merge(pane) for pane in parted])  # type: ignore[misc]
            task = replace(task, panes={**task.panes, **{p: (row["file"],) for p, row in zip(parted, merged, strict=True)}})
            cuts = [state.memory_rows * at // (self.slots * SLICES_A_SLOT) for at in range(self.slots * SLICES_A_SLOT + 1)]
            slices = [(first, last) for first, last in pairwise(cuts) if first < last]
            # The new panes among themselves are the last task, marked by an empty slice.
            compared = pull([lambda cut=cut: task.compare(*cut) for cut in (*slices, (0, 0))])  # type: ignore[misc]
        rows: list[Row] = jobs.window_task(lambda: task.assemble(tuple(row["file"] for row in compared))).to_pylist()
        busy_s = sum(row["busy_s"] for row in (*merged, *compared))
        self.said = f"{len(merged)} merges and {len(compared)} comparisons on {self.slots} slots: {busy_s:.2f} s of work"
        self._measured(busy_s, pairs)
        rows[-1]["busy_s"] += busy_s
        return rows

    def _measured(self, busy_s: float, pairs: int) -> None:
        if pairs:
            self._pair_s += (busy_s / pairs - self._pair_s) / 4
