"""What `skytide fleet` reads: made-up streams, or the cabs of a city, as lines that come in real time."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.checks import check_integer, check_number
from skytide.records import WindowRow
from skytide.workloads.fleet import PERIOD_S, Tfvar
from skytide.workloads.identity import derive

SEED = 3
BROKEN_EVERY_S = 2.0
BURST = (0.4, 0.6)  # of the period: when the first stream bursts
BURST_SHARE = 0.5  # of the rate of all streams, which the burst adds
MEAN_DELAY_US = 300_000
GONE_AFTER_S = 3.0
JOINING, FALLING_SILENT, VANISHING, DELAYED = (10, 3), (20, 7), (40, 7), (10, 5)
"""Which streams do so: every tenth from number 3 on, and so on. Those that vanish are among those that fall silent."""
RATE_STEPS = 256  # per period, in which rates are constant


class Traffic(ABC):
    """Streams with a time of their own, which begins at `first_us` and runs `speed` times faster than real time."""

    schema: ClassVar[str]
    format: ClassVar[str] = "jsonl"

    title: str
    seconds: float
    """How long there is something to write, in seconds of real time."""
    speed: float

    @property
    @abstractmethod
    def first_us(self) -> int | None:
        """The time at which the streams begin; None: the time of day when they are written."""

    @abstractmethod
    def due(self, begin_s: float, end_s: float, began_us: int) -> Iterator[tuple[str, bytes]]:
        """Yield what comes of each stream between two times since the beginning, which was at `began_us`."""

    def gone(self, at_s: float) -> list[str]:
        """Return the streams that have ended."""
        return []

    def in_real_time(self, row: WindowRow, began_us: int) -> WindowRow:
        """Return a window with the times of day when its tuples were written, and its latency counted from then."""
        first_us = began_us if self.first_us is None else self.first_us
        out_us = row.window_end_us + row.latency_s * 1e6
        start_us, end_us = (began_us + round((at - first_us) / self.speed) for at in (row.window_start_us, row.window_end_us))
        return replace(row, window_start_us=start_us, window_end_us=end_us, latency_s=(out_us - end_us) / 1e6)


class FleetTraffic(Traffic):
    """Streams with the windows that a query makes of them."""

    measures: ClassVar[tuple[str, ...]]
    window: ClassVar[tuple[str, str]]  # length and slide


@dataclass(frozen=True)
class Generated(FleetTraffic):
    """Uneven streams that rise and fall together, once in a period.

    A tenth of them joins later, a twentieth falls silent and some of these vanish; a tenth has tuples that come late; the first one bursts;
    and now and then a record is broken.
    """

    streams: int
    rate_hz: float
    period_s: float

    seconds = inf
    schema = "ts timestamp, x double"
    measures = ("count(*) AS tuples", "avg(x) AS mean", "max(x) AS highest")
    window = ("2 seconds", "1 second")
    speed = 1.0

    def __post_init__(self) -> None:
        """Refuse what cannot be written."""
        check_integer("streams", self.streams, 1, 100_000)
        check_number("rate", self.rate_hz, above=0, up_to=1e7, meaning="tuples per second, more than 0")

    @property
    def title(self) -> str:  # type: ignore[override]
        """What it is, in a few words."""
        return f"{self.streams:,} streams that rise and fall together"

    @property
    def first_us(self) -> int | None:
        """None: they begin when they are written."""
        return None

    @cached_property
    def names(self) -> list[str]:
        """The names of the streams."""
        return [f"s{number:05}" for number in range(self.streams)]

    @cached_property
    def _lives(self) -> NDArray[np.float64]:
        """When each stream joins, and when it falls silent."""
        number, draws = np.arange(self.streams), derive(SEED, "lives").random((2, self.streams))
        joins = np.where(_among(number, JOINING), (0.1 + 0.5 * draws[0]) * self.period_s, 0.0)
        ends = np.where(_among(number, FALLING_SILENT), (0.3 + 0.4 * draws[1]) * self.period_s, np.inf)
        return np.array([joins, ends])

    def arrived(self, at_s: float) -> NDArray[np.int64]:
        """Return how many tuples of each stream there are up to a time."""
        grid_s = self.period_s / RATE_STEPS
        steps = int(at_s / grid_s) + 1
        edges = np.minimum(np.arange(steps + 1) * grid_s, at_s)
        middles, lengths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        rates = Tfvar(self.rate_hz, self.streams).rates_hz(middles * (PERIOD_S / self.period_s), SEED)
        rates = np.where((middles >= self._lives[0][:, None]) & (middles < self._lives[1][:, None]), rates, 0.0)
        begin, end = (share * self.period_s for share in BURST)
        rates[0] += np.where((middles >= begin) & (middles < end), BURST_SHARE * self.rate_hz, 0.0)
        counts: NDArray[np.int64] = np.floor(rates @ lengths).astype(np.int64)
        return counts

    def due(self, begin_s: float, end_s: float, began_us: int) -> Iterator[tuple[str, bytes]]:
        """Yield the lines of each stream."""
        counts = np.maximum(self.arrived(end_s) - self.arrived(begin_s), 0)
        rng = derive(SEED, "tick", str(begin_s))
        stream = np.repeat(np.arange(self.streams), counts)
        firsts = np.cumsum(counts) - counts
        share = (np.arange(len(stream)) - firsts[stream] + 0.5) / counts[stream]
        delays = np.where(_among(stream, DELAYED), rng.exponential(MEAN_DELAY_US, len(stream)), 0.0)
        times = began_us + ((begin_s + share * (end_s - begin_s)) * 1e6 - delays).astype(np.int64)
        values = 20 + 5 * rng.standard_normal(len(stream))
        lines = [
            f'{{"ts":"{ts}Z","x":{x:.3f}}}\n'
            for ts, x in zip(np.datetime_as_string(times.astype("M8[us]")).tolist(), values.tolist(), strict=True)
        ]
        broken = int(begin_s / BROKEN_EVERY_S) != int(end_s / BROKEN_EVERY_S)
        for number in np.flatnonzero(counts).tolist():
            text = "".join(lines[firsts[number] : firsts[number] + counts[number]])
            yield self.names[number], (text + '{"ts": oops}\n' * broken).encode()
            broken = False

    def gone(self, at_s: float) -> list[str]:
        """Return a few of the streams that fell silent some time ago."""
        ended = np.flatnonzero(self._lives[1] + GONE_AFTER_S < at_s)
        return [self.names[number] for number in ended[_among(ended, VANISHING)].tolist()]


def _among(numbers: NDArray[np.int64], which: tuple[int, int]) -> NDArray[np.bool_]:
    every, first = which
    return np.asarray(numbers % every == first)


@dataclass(frozen=True)
class Cabs(FleetTraffic):
    """The cabs of a Parquet file with the columns ts, cab, lat, lon and occupied: one stream each, `speed` times faster than they were."""

    file: Path
    speed: float

    schema = "ts timestamp, lat double, lon double, occupied boolean"
    measures = ("count(*) AS reports", "avg(lat) AS lat", "avg(lon) AS lon")
    window = ("20 minutes", "10 minutes")

    def __post_init__(self) -> None:
        """Refuse a file that holds something else."""
        check_number(
            "speed", self.speed, above=0, up_to=1e5, meaning="how many times faster than they were, above 0 and up to 100000"
        )
        if not len(self._times_us):
            raise self._refused("it has no rows")

    @property
    def title(self) -> str:  # type: ignore[override]
        """What it is, in a few words."""
        return f"{len(np.unique(self._columns['cab'])):,} cabs, {self.speed:,g} times faster"

    @property
    def first_us(self) -> int | None:
        """The time of the first report."""
        return int(self._times_us[0])

    @property
    def seconds(self) -> float:  # type: ignore[override]
        """The time from the first report to the last, at this speed."""
        return float(self._times_us[-1] - self._times_us[0]) / 1e6 / self.speed

    @cached_property
    def _columns(self) -> dict[str, Any]:
        kinds = {"ts": pa.timestamp("us"), "cab": pa.int64(), "lat": pa.float64(), "lon": pa.float64(), "occupied": pa.bool_()}
        try:
            table = pq.read_table(self.file, columns=list(kinds)).cast(pa.schema(kinds.items())).sort_by("ts")
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise self._refused(str(error).partition("\n")[0]) from None
        if any(column.null_count for column in table.columns):
            raise self._refused("there are NULLs in it")
        return {name: np.array(table[name]) for name in kinds}

    @cached_property
    def _times_us(self) -> NDArray[np.int64]:
        times: NDArray[np.int64] = self._columns["ts"].astype(np.int64)
        return times

    def due(self, begin_s: float, end_s: float, began_us: int) -> Iterator[tuple[str, bytes]]:
        """Yield the lines of each cab."""
        times = self._times_us
        begin, end = np.searchsorted(times, times[0] + np.array([begin_s, end_s]) * 1e6 * self.speed)
        order = begin + np.argsort(self._columns["cab"][begin:end], kind="stable")
        texts: dict[int, list[str]] = {}
        stamps = np.datetime_as_string(times[order].astype("M8[us]"), unit="s").tolist()
        rest = zip(*(self._columns[name][order].tolist() for name in ("cab", "lat", "lon", "occupied")), strict=True)
        for stamp, (cab, lat, lon, occupied) in zip(stamps, rest, strict=True):
            line = f'{{"ts":"{stamp}Z","lat":{lat},"lon":{lon},"occupied":{"true" if occupied else "false"}}}\n'
            texts.setdefault(cab, []).append(line)
        for cab, lines in texts.items():
            yield f"cab{cab:03}", "".join(lines).encode()

    def _refused(self, reason: str) -> InvalidInput:
        return InvalidInput(
            value=f"--cabs {self.file}", reason=reason, remedy="name a Parquet file with the columns ts, cab, lat, lon, occupied"
        )
