"""What was seen of a running query: one look per batch, and the windows that came out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skytide.records import Status, WindowRow


@dataclass(frozen=True)
class History:
    """What views and pictures are made of. Times of day are in microseconds since 1970."""

    batches: tuple[Status, ...] = ()
    """The status after each batch, as far as it was looked at."""
    windows: tuple[WindowRow, ...] = ()
    out_us: int | None = None
    """When the first window came out: those that ended before had to wait for the first batch."""

    def after(self, status: Status, windows: Sequence[WindowRow]) -> "History":
        """Return the history after one more look; nothing is new until the next batch has ended."""
        if status.batch < 0 or (self.batches and status.batch == self.batches[-1].batch):
            return self
        out_us = self.out_us or (windows[0].window_end_us + round(windows[0].latency_s * 1e6) if windows else None)
        return replace(self, batches=(*self.batches, status), windows=tuple(windows), out_us=out_us)

    @property
    def latest(self) -> Status | None:
        """The status after the latest batch."""
        return self.batches[-1] if self.batches else None

    def latency(self) -> "Latency | None":
        """Return the latency of the windows that ended since the first one came out, if there are any yet."""
        return None if self.out_us is None else latency(self.windows, since_us=self.out_us)


@dataclass(frozen=True)
class Latency:
    """How long after their end windows came out."""

    windows: int
    last_s: float
    mean_s: float
    p99_s: float


def latency(windows: Sequence[WindowRow], *, since_us: int) -> Latency | None:
    """Return the latency of the windows that ended since some time, if there are any.

    >>> rows = [WindowRow(0, 1_000_000, tuples=9, kept=2, late=0, latency_s=s) for s in (0.5, 1.5)]
    >>> latency(rows, since_us=1_000_000)
    Latency(windows=2, last_s=1.5, mean_s=1.0, p99_s=1.49)
    """
    seconds = [row.latency_s for row in windows if row.window_end_us >= since_us]
    if not seconds:
        return None
    return Latency(len(seconds), seconds[-1], float(np.mean(seconds)), float(np.quantile(seconds, 0.99)))


def read_windows(folder: Path) -> list[WindowRow]:
    """Return the rows about windows that the sink "parquet" wrote, in order."""
    if not folder.is_dir():
        return []
    table = pq.read_table(folder).sort_by("window_start")
    for name in ("window_start", "window_end"):
        table = table.append_column(f"{name}_us", table[name].cast(pa.int64()))
    rows = table.select(list(WindowRow.__dataclass_fields__)).to_pylist()
    return [WindowRow(**row) for row in rows]
