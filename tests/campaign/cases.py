"""A case of the campaign: a stream, a query, a sink, and lives with what happens to each of them; `drawing.py` draws them."""

from dataclasses import dataclass
from typing import Any

Preference = tuple[str, str]
Shares = float
"""A moment, in units of the time that an undisturbed life takes."""

START_US = 1_700_000_000_000_000
KEYED = ("counted", "timed", "running")
"""Operators on keys: on windows by count, on windows of time, and without windows."""
INPUTS = ("plain", "shuffled", "not null", "deduplicated", "aggregated", "joined")
STATEFUL = INPUTS[3:]
WORDINGS = ("keys", "group_by", "keyed")
"""How the same aggregates of groups can be asked for: `aggregate(keys=)`, `group_by().agg()` and `keyed().window().aggregate()`."""
STATE_STORES = ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")


@dataclass(frozen=True)
class Ask:
    """A query in plain words, which the job passes to skytide and the judge to the oracle."""

    method: str
    preferences: tuple[Preference, ...] = ()
    number: int = 0
    """k, how many levels, or how many tuples of a window by count."""
    measures: tuple[tuple[str, str, str], ...] = ()
    keys: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    """What orders tuples of a key with equal times, before their values."""
    wording: str = WORDINGS[0]


def slide_of_count(length: int) -> int:
    """Return how many tuples windows by count are apart."""
    return max(1, length // 3)


def row_key(ask: Ask) -> tuple[str, ...]:
    """Return the columns by which rows of a window differ."""
    if ask.method in KEYED:
        return (*ask.keys, "number")
    return ask.keys if ask.method in ("aggregate", "best_keys") else ("id",)


@dataclass(frozen=True)
class Files:
    """A synthetic stream in files, from its own seed: never older than the newest before by more than `disorder_us`, except for strays."""

    seed: int
    format: str
    files: int
    tuples: int
    span_us: int
    disorder_us: int
    strays: int
    """Tuples that are hopelessly late: older than the whole stream."""
    invalid: int
    """Tuples with impossible times, for an engine that sorts them out."""
    input: str = "plain"
    """What Spark does with the files before our query gets them: one of `INPUTS`."""
    state_store: str = STATE_STORES[0]
    group_us: int = 0
    """The windows of an aggregated input."""
    groups: int = 3
    """How many values the column of groups has, some far more often than others if they are many."""


@dataclass(frozen=True)
class Fleet:
    """Streams in files that grow while they are read, step by step, with bursts; times advance with each step."""

    seed: int
    format: str
    streams: int
    steps: int
    tuples: int
    span_us: int


@dataclass(frozen=True)
class Workload:
    """A stream of skytide's own source."""

    options: dict[str, Any]
    duration_us: int
    batch_us: int


@dataclass(frozen=True)
class KillDriver:
    """Kill Python and Java at once, after a share of the usual time."""

    after: Shares


@dataclass(frozen=True)
class KillDriverAtFile:
    """Kill Python and Java at once, when a number of files have appeared, changed or gone below the checkpoint or the target."""

    changes: int


@dataclass(frozen=True)
class KillDriverInSink:
    """Kill Python and Java at once, before or after the n-th call of a sink, or between its write and its commit."""

    call: int
    moment: str


@dataclass(frozen=True)
class KillDriverAtChange:
    """Kill Python and Java at once, soon after the n-th time that slots were asked for, keys were to move, or a fleet had another number of splits."""

    changes: int
    after: Shares


@dataclass(frozen=True)
class KillWorkers:
    """Kill Python workers (or the process that plays skytide's own source), one after some of each batch."""

    shares: tuple[Shares, ...]
    source: bool = False


@dataclass(frozen=True)
class KillExecutors:
    """Kill an executor of the cluster, after some of each batch, or right after the first stage of a job, whose rows it has."""

    shares: tuple[Shares, ...]
    between_stages: bool = False


@dataclass(frozen=True)
class FillDisk:
    """Fill the disk when a number of files have appeared, changed or gone; make room when the query has failed."""

    changes: int


@dataclass(frozen=True)
class JumpClock:
    """Move the wall clock of all Python processes away from the true time, after some of each batch."""

    shares: tuple[Shares, ...]
    seconds: tuple[int, ...]


DriverBlow = KillDriver | KillDriverAtFile | KillDriverInSink | KillDriverAtChange
Blow = DriverBlow | KillWorkers | KillExecutors | FillDisk | JumpClock | None


@dataclass(frozen=True)
class Life:
    """One life of a job: what it runs on, and what happens to it."""

    master: str
    """The master of Spark, or "cluster"."""
    partitions: int
    """Of the DataFrame, or of skytide's own source; 0 leaves files where Spark puts them."""
    files_per_batch: int
    splitting: str | None
    pane_slots: tuple[int, ...]
    """At the start, and after each batch; for an operator on keys, its slots."""
    window_slots: tuple[int, ...]
    """At the start, and after each batch."""
    blow: Blow
    fake_clock: bool = False
    divides: bool = False
    """Whether the window level is divided among its slots, and leaves the driver, however little it has to do."""
    cache_mb: str = ""
    """What processes may keep of the files of the state, if not the usual."""
    wording: str = ""
    """How the query is asked for, if not as in other lives: the same query goes on."""

    def is_endless(self, case: "Case") -> bool:
        """Return whether the query waits for more: that of a fleet does, except in its last life."""
        return isinstance(case.stream, Fleet) and self.blow is not None

    def flushes(self, case: "Case") -> bool:
        """Return whether the last windows come out with the end of this life: if something is added after it, that would be late."""
        return self.blow is None or not case.has_tail


@dataclass(frozen=True)
class Case:
    """All that is needed to run a case again."""

    seed: int
    number: int
    kind: str
    stream: Files | Workload | Fleet
    ask: Ask
    length_us: int
    slide_us: int
    slack: tuple[str, float]
    """("fixed", microseconds), ("k", 0) or ("ratio", share)."""
    sink: str
    lives: tuple[Life, ...]
    """The last one is left in peace."""
    subject: str = "windows"

    @property
    def is_keyed(self) -> bool:
        """Whether the query is an operator on keys."""
        return self.ask.method in KEYED

    @property
    def input(self) -> str:
        """What comes to the query: one of `INPUTS`, "workload" or "fleet"."""
        return self.stream.input if isinstance(self.stream, Files) else type(self.stream).__name__.lower()

    @property
    def has_tail(self) -> bool:
        """Whether something is added before the last life, so that only that one can end the case."""
        return self.input in ("aggregated", "fleet")

    def __str__(self) -> str:
        """Return the case in one line."""
        window = f"{self.length_us / 1e6:g} s by {self.slide_us / 1e6:g} s"
        return f"{self.kind:<8} {self.ask.method:<10} {window:<20} {self.slack[0]:<5} {self.input:<12} {self.sink:<9}"
