"""The partitions of an input that is not our own, in virtual time: where its tuples lie, and how they are sent to slots."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skytide.routing import Owners
from skytide.windows import Windows
from skytide.workloads.identity import derive
from skytide.workloads.workload import Workload

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Partitions:
    """Where tuples lie, and what it costs to send them."""

    shares: tuple[float, ...]
    """How much of the tuples each partition has."""
    send_s: float = 8e-7
    stage_s: float = 0.06

    def tuples(self, workload: Workload, first: int, counts: list[int]) -> list[Numbers]:
        """Return the times of the tuples of each partition, of some ticks with so many tuples each."""
        times = np.concatenate([np.zeros(0, np.int64), *(workload.times_us(tick, n)[0] for tick, n in enumerate(counts, first))])
        ends = np.cumsum(self.shares)
        lying = np.searchsorted(ends / ends[-1], derive(workload.seed, "partitions", first).random(len(times)), side="right")
        return [times[lying == number] for number in range(len(self.shares))]

    def sent(self, lying: list[Numbers], owners: Owners, windows: Windows, seed: int) -> list[tuple[Numbers, list[int]]]:
        """Return the times of the tuples of each slot, and how many of them come from each partition."""
        times, origins = np.concatenate(lying), np.repeat(np.arange(len(lying)), [len(each) for each in lying])
        hashes = derive(seed, "rows", len(times)).integers(0, 2**63, len(times)).astype(np.uint64)
        slots = owners.slots_of(windows.pane_of(times), hashes)
        return [
            (times[slots == slot], np.bincount(origins[slots == slot], minlength=len(lying)).tolist())
            for slot in range(owners.slots)
        ]
