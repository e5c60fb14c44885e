"""How a workload is played: at which pace, in which batches, from when and for how long."""

from dataclasses import dataclass

from skytide.errors import InvalidInput
from skytide.errors.checks import check_choice, check_integer, check_type
from skytide.errors.limits import MAX_SLOTS
from skytide.workloads.workload import Workload

PACES = ("real", "fast")
FAST_BATCH_US = 500_000


@dataclass(frozen=True, kw_only=True)
class Playback:
    """A workload, and how it is played."""

    workload: Workload
    partitions: int = 2
    pace: str = "real"
    batch_us: int | None = None
    duration_us: int | None = None
    start_us: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        check_type("workload", self.workload, Workload, reason="not a workload", remedy="make one by skytide.workload(...)")
        check_integer("partitions", self.partitions, 1, MAX_SLOTS)
        check_choice("pace", self.pace, PACES)
        for name, length_us in (("batch", self.batch_us), ("duration", self.duration_us)):
            if length_us is not None and length_us < self.workload.tick_us:
                raise InvalidInput(
                    value=f"a {name} of {length_us:,} microseconds",
                    reason=f"shorter than a tick, which is {self.workload.tick_us:,} long",
                    remedy=f"choose a longer {name}, or a shorter tick",
                )

    @property
    def batch_ticks(self) -> int | None:
        """The maximum number of ticks of a micro-batch, if there is a limit."""
        batch_us = self.batch_us or (FAST_BATCH_US if self.pace == "fast" else None)
        return batch_us and max(1, batch_us // self.workload.tick_us)

    @property
    def last_tick(self) -> int | None:
        """The tick at which the stream ends, if it does."""
        return self.duration_us and self.duration_us // self.workload.tick_us
