"""What it costs the driver to plan where tuples are worked on, by the partitions of the input, the panes of a batch, and the slots."""

import argparse
import time

from rich.console import Console

from benchmarks.timing import duration, show
from skytide.routing import Auto, Costs, Measured

STRATEGY = Auto(costs=Costs(send_s=0.0, stage_s=0.0))
"""Sends whenever partitions are not balanced, so that all there is to plan is planned."""


def main() -> None:
    """Plan batches of growing size, and print what each step took, and how large the state is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for partitions, panes, slots in [
        (1, 1, 2), (100, 1, 2), (1_000, 1, 2), (10_000, 1, 2), (100_000, 1, 2),
        (1, 10, 2), (1, 100, 2), (1, 1_000, 2), (1, 10_000, 2), (1, 100_000, 2),
        (1, 10, 16), (1, 10, 128), (1, 10, 1_024),
    ]:  # fmt: skip
        learned_s, planned_s, size = min(planned(partitions, panes, slots) for _ in range(options.rounds))
        rows.append([f"{partitions:,}", f"{panes:,}", f"{slots:,}", duration(learned_s), duration(planned_s), f"{size:,}"])
    columns = ["partitions", "panes", "slots", "to learn from a batch", "to plan the next", "bytes of state"]
    show(Console(width=130, highlight=False), f"on the driver, the best of {options.rounds}", columns, rows)


def planned(partitions: int, panes: int, slots: int) -> tuple[float, float, int]:
    """Return how long it takes to learn from a batch and to plan the next one, and the size of what is remembered."""
    router = STRATEGY.build(slots)
    assert router.chooser is not None
    sizes = [100_000_000, *[10] * (partitions - 1)]
    learned_s = 0.0
    for batch in range(4):
        began = time.perf_counter()
        router.recent_panes.learn({batch * panes + pane: 1 + sum(sizes) // panes for pane in range(panes)})
        router.chooser.learn(Measured(sizes, 1.0, 0.0, 1.0, 0.5, slots, sent=False))
        learned_s = time.perf_counter() - began
    began = time.perf_counter()
    again = STRATEGY.build(slots, router.snapshot())
    plan = STRATEGY.plan_panes(again)
    planned_s = time.perf_counter() - began
    assert plan.owners is not None, plan.reason
    return learned_s, planned_s, len(str(router.snapshot()))


if __name__ == "__main__":
    main()
