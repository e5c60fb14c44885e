"""A stream described in one line: rate, bursts, disorder and points; every tuple follows from its identity."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from skytide.errors import InvalidInput
from skytide.errors.checks import (
    check_choice,
    check_integer,
    check_number,
    check_text,
    given_if,
    positive_us,
    read_integer,
    read_number,
    refused,
)
from skytide.errors.limits import MAX_DELAY_US, MAX_DIMENSIONS, MAX_SEED, MAX_STREAMS
from skytide.workloads import events
from skytide.workloads.arrivals import SECOND_US, Arrivals, Counts
from skytide.workloads.delays import DELAYS, Delays
from skytide.workloads.events import MOST_BACK_US
from skytide.workloads.fleet import Fleet
from skytide.workloads.identity import derive
from skytide.workloads.kinds import ARRIVALS
from skytide.workloads.points import CLOUDS, DRIFTING, Points, cloud_at, columns

BURSTS = (EVENTS, ARRIVING) = ("events", "arrivals")
BATCH_ROWS = 65_536
ID_BITS = 24  # bits of an id that number the tuples of a tick; the others number the ticks
MAX_PER_TICK = 2 ** (ID_BITS - 2)  # on average, so that random ticks do not run out of numbers
TIME = pa.timestamp("us", tz="UTC")
ABOVE_HURST, MAX_HURST = 0.4999, 0.99  # 0.5 is allowed


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A generated stream. The same fields always mean the same tuples, whichever part of the stream is generated where.

    `arrivals`: "constant", "poisson", "map" (bursts with this `dispersion`), "selfsimilar" (with this `hurst`), "walk", "onoff" (for
    `on_us` and `off_us` on average), or P1's `streams` "constw", "psfcw", "ptfcw", "sfvar", "tfvar", all at `rate` tuples per second;
    "steps", which are given in `steps` as "seconds:rate, seconds:rate, ..."; or "replay" of a recorded `series`. `delays`:
    "uniform" up to `delay_us`, or "exponential" or "pareto" with that mean, of the `late_share` of the tuples; "replay" of a
    recorded `delay_series`; "none" unless there is a delay. `bursts`: whether `arrivals` describes when tuples arrive ("arrivals"), or
    when their events are ("events"), to which delays are added. `points`: see `skytide.workloads.points`; "drifting" between them.

    >>> stream = Workload(rate=1_000, dimensions=2)
    >>> [batch.num_rows for batch in stream.tuples(0, 100, start_us=0)]
    [969]
    >>> stream.schema.names
    ['id', 'ts', 'arrival', 'x0', 'x1']
    """

    rate: float | None = None
    arrivals: str = "poisson"
    dispersion: float | None = None
    steps: str | None = None
    hurst: float | None = None
    on_us: int | None = None
    off_us: int | None = None
    series: str | None = None
    streams: int | None = None
    delays: str | None = None
    delay_us: int | None = None
    delay_series: str | None = None
    late_share: float = 1.0
    bursts: str = "arrivals"
    points: str = "independent"
    dimensions: int = 8
    seed: int = 0
    tick_us: int = 10_000

    def __post_init__(self) -> None:
        """Refuse impossible streams, and fields that would be ignored."""
        if self.delays is None:
            default = "replay" if self.delay_series else "none" if self.delay_us is None else "uniform"
            object.__setattr__(self, "delays", default)
        check_choice("arrivals", self.arrivals, ARRIVALS)
        check_choice("delays", self.delays, DELAYS)
        check_choice("points", self.points, (*CLOUDS, DRIFTING))
        check_integer("dimensions", self.dimensions, 1, MAX_DIMENSIONS)
        check_integer("seed", self.seed, 0, MAX_SEED)
        positive_us("tick", self.tick_us, 3600 * SECOND_US)
        self._check_arrivals()
        self._check_delays()
        self._check_bursts()

    def _check_arrivals(self) -> None:
        _, needed = ARRIVALS[self.arrivals]
        for name in sorted({name for _, fields in ARRIVALS.values() for name in fields}):
            given_if(name in needed, name, getattr(self, name), because=f"arrivals={self.arrivals!r}")
        if self.rate is not None:
            check_number("rate", self.rate, above=0, meaning="tuples per second, more than 0")
        if self.dispersion is not None:
            check_number("dispersion", self.dispersion, above=1, meaning="a number above 1, which is the one of Poisson arrivals")
        if self.hurst is not None:
            check_number("hurst", self.hurst, above=ABOVE_HURST, up_to=MAX_HURST, meaning="a number from 0.5 to 0.99")
        for name, length_us in (("on", self.on_us), ("off", self.off_us)):
            if length_us is not None:
                positive_us(name, length_us, 3600 * SECOND_US)
        if self.series is not None:
            check_text("series", self.series, "rates.parquet")
        if self.streams is not None:
            check_integer("streams", self.streams, 1, MAX_STREAMS)
        peak = self.process.peak_hz
        if peak * self.tick_us / SECOND_US > MAX_PER_TICK:
            raise InvalidInput(
                value=f"up to {peak:,.0f} tuples per second",
                reason=f"more than {MAX_PER_TICK:,} in a tick of {self.tick_us:,} microseconds, so ids would run out",
                remedy="choose shorter ticks or a lower rate",
            )

    def _check_delays(self) -> None:
        replayed = self.delays == "replay"
        given_if(replayed, "delay_series", self.delay_series, because=f"delays={self.delays!r}")
        given_if(self.delays != "none" and not replayed, "delay", self.delay_us, because=f"delays={self.delays!r}")
        if self.delay_series is not None:
            check_text("delay_series", self.delay_series, "delays.parquet")
        if self.delay_us is not None:
            positive_us("delay", self.delay_us, MAX_DELAY_US)
        check_number("late_share", self.late_share, above=0, up_to=1, meaning="a share of the tuples, above 0 and up to 1")
        if self.delays == "none" and self.late_share != 1:
            raise InvalidInput(value=f"late_share={self.late_share}", reason="nothing is late", remedy="say how late: give a delay")
        if replayed and self.late_share != 1:
            raise InvalidInput(
                value=f"late_share={self.late_share}",
                reason="the recording determines which tuples are late",
                remedy="leave it out",
            )
        _ = self.lateness.draw(derive(self.seed, "check"), 0)  # a recording that cannot be read is refused now

    def _check_bursts(self) -> None:
        check_choice("bursts", self.bursts, BURSTS)
        if self.bursts == EVENTS and not self.can_delay_events:
            raise refused(
                "bursts",
                self.bursts,
                f"delays of this kind may be longer than {MOST_BACK_US // SECOND_US} s, and each task would make the stream from there on",
                'leave it out, or choose "arrivals"',
            )

    @property
    def can_delay_events(self) -> bool:
        """Return whether delays are bounded, so that a stretch of the stream can be made from the events before it."""
        longest_us = self.lateness.longest_us
        return longest_us is not None and longest_us <= MOST_BACK_US

    @cached_property
    def process(self) -> Arrivals:
        """Return the arrival process."""
        make, fields = ARRIVALS[self.arrivals]
        return make(*(getattr(self, name) for name in fields))

    @cached_property
    def lateness(self) -> Delays:
        """Return the distribution of the delays."""
        return DELAYS[self.delays or "none"](self.delay_us or 0, self.late_share, self.delay_series or "")

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the tuples: id, event time, time of arrival, the stream if there are several, and the point."""
        dimensions = [(f"x{i}", pa.float64()) for i in range(self.dimensions)]
        stream = [("stream", pa.int32())] if isinstance(self.process, Fleet) else []
        return pa.schema([("id", pa.int64()), ("ts", TIME), ("arrival", TIME), *stream, *dimensions])

    def counts(self, first: int, last: int) -> Counts:
        """Return the number of tuples of each tick of [first, last)."""
        return self.process.counts(first, last, tick_us=self.tick_us, seed=self.seed)

    def arriving(self, first: int, last: int) -> Counts:
        """Return how many tuples arrive in each tick of [first, last)."""
        return events.counts(self, first, last) if self.delays_events else self.counts(first, last)

    @property
    def delays_events(self) -> bool:
        """Return whether events have the bursts, and delays are added to them."""
        return self.bursts == EVENTS and self.delays != "none"

    def tuples(self, first: int, last: int, start_us: int) -> Iterator[pa.RecordBatch]:
        """Return the tuples that arrive in the ticks of [first, last), in order of arrival; tick 0 begins at `start_us`.

        The law: however [0, n) is divided, and wherever the parts are generated, together they are the same tuples.
        """
        if self.delays_events:
            yield from self._of_events(first, last, start_us)
            return
        counts = self.counts(first, last)
        ends = np.cumsum(counts)
        at = 0
        while at < len(counts):
            before = int(ends[at - 1]) if at else 0
            after = max(at + 1, int(np.searchsorted(ends, before + BATCH_ROWS, side="right")))
            if ends[after - 1] > before:
                batch = self._batch(first + at, counts[at:after], start_us)
                yield from (batch.slice(row, BATCH_ROWS) for row in range(0, batch.num_rows, BATCH_ROWS))
            at = after

    def times_us(self, tick: int, n: int, start_us: int = 0) -> tuple[Counts, Counts]:
        """Return the event times and the arrivals of the `n` tuples of a tick, without their points."""
        random = derive(self.seed, "times", tick)
        arrival = self.process.offsets(random, n, self.tick_us) + (start_us + tick * self.tick_us)
        return arrival - self.lateness.draw(random, n), arrival

    def newest_us(self, first: int, last: int, start_us: int) -> int | None:
        """Return the newest event time of the ticks of [first, last), or None if there are no tuples.

        No event is later than its arrival, so it is found by looking back from the end, seldom further than a tick or two.
        """
        if self.delays_events:
            found = events.newest_us(self, first, last)
            return None if found is None else found + start_us
        newest: int | None = None
        counts = self.counts(first, last).tolist()
        for tick in reversed(range(first, last)):
            if newest is not None and newest >= start_us + (tick + 1) * self.tick_us:
                break
            if n := counts[tick - first]:
                here = int(self.times_us(tick, n, start_us)[0].max())
                newest = here if newest is None else max(newest, here)
        return newest

    def _of_events(self, first: int, last: int, start_us: int) -> Iterator[pa.RecordBatch]:
        """Return the tuples of some ticks of arrivals, made from the events before."""
        for ticks, times, come in events.arrivals(self, first, last):
            counts = np.bincount(come // self.tick_us - ticks.start, minlength=len(ticks))
            ends = np.cumsum(counts)
            at = 0
            while at < len(counts):
                before = int(ends[at - 1]) if at else 0
                after = max(at + 1, int(np.searchsorted(ends, before + BATCH_ROWS, side="right")))
                here = slice(before, int(ends[after - 1]))
                if here.start < here.stop:
                    batch = self._batch(ticks.start + at, counts[at:after], start_us, (times[here], come[here]))
                    yield from (batch.slice(row, BATCH_ROWS) for row in range(0, batch.num_rows, BATCH_ROWS))
                at = after

    def _batch(self, first: int, counts: Counts, start_us: int, given: tuple[Counts, Counts] | None = None) -> pa.RecordBatch:
        """Return the tuples of some ticks; `given` are their times from the beginning of the stream, if they are known."""
        rows = int(counts.sum())
        ids, arrival, ts = np.empty((3, rows), np.int64)
        points = np.empty((self.dimensions, rows))
        end = 0
        for tick, n in enumerate(counts.tolist(), first):
            if not n:
                continue
            begin, end = end, end + n
            here = slice(begin, end)
            ids[here] = np.arange(tick << ID_BITS, (tick << ID_BITS) + n)
            if given is None:
                ts[here], arrival[here] = self.times_us(tick, n, start_us)
            points[:, here] = self._points(tick, n)
        if given is not None:
            ts, arrival = (times + start_us for times in given)
        times = [pa.array(time).view(TIME) for time in (ts, arrival)]
        streams = [self._streams(first, counts)] if isinstance(self.process, Fleet) else []
        return pa.RecordBatch.from_arrays([pa.array(ids), *times, *streams, *map(pa.array, points)], schema=self.schema)

    def _points(self, tick: int, n: int) -> Points:
        random = derive(self.seed, "points", tick)
        return columns(cloud_at(self.points, tick * self.tick_us, random), random, n, self.dimensions)

    def _streams(self, first: int, counts: Counts) -> pa.Array:
        """Return the stream of each tuple, by the rates of the streams at the time."""
        assert isinstance(self.process, Fleet)
        times_s = (np.arange(first, first + len(counts)) + 0.5) * self.tick_us / SECOND_US
        shares = np.cumsum(self.process.rates_hz(times_s, self.seed), axis=0)
        drawn = [
            np.searchsorted(shares[:, at], derive(self.seed, "streams", tick).random(n) * shares[-1, at])
            for at, (tick, n) in enumerate(enumerate(counts.tolist(), first))
        ]
        return pa.array(np.concatenate(drawn).astype(np.int32))

    def to_json(self) -> dict[str, str]:
        """Return the fields that were set, as texts by name.

        >>> Workload(rate=5, delay_us=300).to_json()
        {'rate': '5', 'delays': 'uniform', 'delay_us': '300'}
        """
        fields = {field.name: (getattr(self, field.name), field.default) for field in dataclasses.fields(self)}
        return {name: str(value) for name, (value, default) in fields.items() if value != default}

    @classmethod
    def from_json(cls, texts: Mapping[str, str]) -> Self:
        """Return the workload for a result of `to_json`.

        >>> Workload.from_json({"rate": "5"}) == Workload(rate=5)
        True
        """
        fields = [field.name for field in dataclasses.fields(cls)]
        for name in texts:
            check_choice("field", name, fields)
        values: dict[str, Any] = {name: typed(name, text) for name, text in texts.items()}
        return cls(**values)


def typed(name: str, text: str) -> str | float:
    """Return the number for the text of a field, or of an option of that name; other fields stay texts."""
    if name in ("rate", "dispersion", "late_share", "hurst"):
        return read_number(name, text)
    if name in ("dimensions", "seed", "partitions", "delay_us", "tick_us", "on_us", "off_us", "streams"):
        return read_integer(name, text)
    return text
