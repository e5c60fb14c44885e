"""A case of the campaign: a stream, a query, a sink, and lives with what happens to each of them; all drawn from (seed, number)."""

from dataclasses import dataclass
from random import Random
from typing import Any

from campaign import sinks

Preference = tuple[str, str]
Shares = float
"""A moment, in units of the time that an undisturbed life takes."""

START_US = 1_700_000_000_000_000
KINDS = {"driver": 5, "worker": 4, "executor": 3, "clock": 1, "disk": 1}
SLIDES_US = (100_000, 200_000, 250_000, 333_000, 1_000_000)
SPLITTINGS = (None, None, "EVEN", "PB_RR", "TB_RR", "AS", "AS_PID", "RATE")


@dataclass(frozen=True)
class Ask:
    """A query in plain words, which the job passes to skytide and the judge to the oracle."""

    method: str
    preferences: tuple[Preference, ...] = ()
    number: int = 0
    """k, or how many levels."""
    measures: tuple[tuple[str, str, str], ...] = ()
    keys: tuple[str, ...] = ()


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
class KillWorkers:
    """Kill Python workers (or the process that plays skytide's own source), one after some of each batch."""

    shares: tuple[Shares, ...]
    source: bool = False


@dataclass(frozen=True)
class KillExecutors:
    """Kill an executor of the cluster, after some of each batch."""

    shares: tuple[Shares, ...]


@dataclass(frozen=True)
class FillDisk:
    """Fill the disk when a number of files have appeared, changed or gone; make room when the query has failed."""

    changes: int


@dataclass(frozen=True)
class JumpClock:
    """Move the wall clock of all Python processes away from the true time, after some of each batch."""

    shares: tuple[Shares, ...]
    seconds: tuple[int, ...]


Blow = KillDriver | KillDriverAtFile | KillDriverInSink | KillWorkers | KillExecutors | FillDisk | JumpClock | None


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
    """At the start, and after each batch."""
    window_slots: int
    blow: Blow
    fake_clock: bool = False


@dataclass(frozen=True)
class Case:
    """All that is needed to run a case again."""

    seed: int
    number: int
    kind: str
    stream: Files | Workload
    ask: Ask
    length_us: int
    slide_us: int
    slack: tuple[str, float]
    """("fixed", microseconds), ("k", 0) or ("ratio", share)."""
    sink: str
    lives: tuple[Life, ...]
    """The last one is left in peace."""

    def __str__(self) -> str:
        """Return the case in one line."""
        source = self.stream.format if isinstance(self.stream, Files) else "workload"
        window = f"{self.length_us / 1e6:g} s by {self.slide_us / 1e6:g} s"
        return f"{self.kind:<8} {self.ask.method:<10} {window:<15} {self.slack[0]:<5} {source:<8} {self.sink:<9}"


def draw(seed: int, number: int) -> Case:
    """Return case `number` of a campaign."""
    random = Random(f"{seed}/{number}")
    kind = random.choices(list(KINDS), list(KINDS.values()))[0]
    slide_us = random.choice(SLIDES_US)
    length_us = random.choice((slide_us, 2 * slide_us, 5 * slide_us, slide_us * 5 // 2, slide_us + 7_001))
    span_us = slide_us * random.randint(15, 45)
    own = kind != "executor" and random.random() < 0.25
    stream = _workload(random, span_us) if own else _files(random, span_us, slide_us, kind)
    disorder_us = stream.options["delay_us"] if isinstance(stream, Workload) else stream.disorder_us
    sink = random.choice(sinks.KINDS)
    slacks = (("k", 0.0), ("ratio", random.choice((0.01, 0.1))), ("fixed", float(disorder_us)), ("fixed", disorder_us // 3 + 1.0))
    return Case(
        seed=seed,
        number=number,
        kind=kind,
        stream=stream,
        ask=_ask(random, ("x0", "x1", "x2") if own else ("a", "b", "c"), own),
        length_us=length_us,
        slide_us=slide_us,
        slack=random.choice(slacks),
        sink=sink,
        lives=_lives(random, kind, own, sink),
    )


def _workload(random: Random, span_us: int) -> Workload:
    seconds = max(3, span_us // 1_000_000)
    options = {
        "rate": 1_200 // seconds,
        "arrivals": random.choice(("poisson", "map", "onoff")),
        "delay_us": random.choice((50_000, 300_000)),
        "late_share": random.choice((0.1, 0.5, 1.0)),
        "dimensions": 3,
        "seed": random.randrange(1_000),
    }
    options |= {"map": {"dispersion": 20}, "onoff": {"on": "300 ms", "off": "900 ms"}}.get(str(options["arrivals"]), {})
    return Workload(options, duration_us=seconds * 1_000_000, batch_us=seconds * 100_000)


def _files(random: Random, span_us: int, slide_us: int, kind: str) -> Files:
    return Files(
        seed=random.randrange(2**31),
        format=random.choice(("parquet", "parquet", "json")),
        files=random.randint(8, 16),
        tuples=random.randint(200, 1_200),
        span_us=span_us,
        disorder_us=random.choice((1, slide_us // 2, slide_us * 3, slide_us * 8)),
        strays=random.choice((0, 0, 3)),
        invalid=random.choice((0, 0, 0, 2)),
    )


def _ask(random: Random, columns: tuple[str, ...], own: bool) -> Ask:
    preferences = tuple((random.choice(("low", "high")), column) for column in columns)
    grouped = () if own else random.choice(((), (("diff", "g"),)))
    measures = [("count", "*", "n"), *((f, columns[0], f"{f}_") for f in ("min", "max", "first", "last"))]
    if not own:  # sums of fractions are rounded, and may differ in the last digit
        measures += [("sum", "a", "sum_a"), ("avg", "b", "mean"), ("sum", "d", "sum_d"), ("count", "d", "some")]
    keys = () if own else random.choice(((), ("g",)))
    return random.choice(
        (
            Ask("skyline", preferences + grouped),
            Ask("skyline", preferences[:2]),
            Ask("skyband", preferences[:2] + grouped, random.randint(1, 4)),
            Ask("levels", preferences[:2], random.randint(1, 3)),
            Ask("k_dominant", preferences, random.randint(2, 3)),
            Ask("top_k", preferences[:1], random.randint(1, 5)),
            Ask("aggregate", measures=tuple(measures), keys=keys),
            Ask("aggregate" if own else "best_keys", number=2, measures=tuple(measures), keys=keys if own else ("g",)),
        )
    )


def _lives(random: Random, kind: str, own: bool, sink: str) -> tuple[Life, ...]:
    blows: list[Blow] = {
        "driver": lambda: [_driver_blow(random, sink) for _ in range(random.randint(4, 7))],
        "worker": lambda: [_worker_blow(random, own) for _ in range(2)],
        "executor": lambda: [_executor_blow(random, sink) for _ in range(2)],
        "clock": lambda: [_clock_blow(random), _driver_blow(random, sink), _clock_blow(random)],
        "disk": lambda: [FillDisk(random.randint(3, 60)) for _ in range(2)],
    }[kind]()
    return tuple(_life(random, kind, blow) for blow in [*blows, None])


def _life(random: Random, kind: str, blow: Blow) -> Life:
    cores = random.choice((1, 2, 2, 4))
    tries = 4 if isinstance(blow, KillWorkers) and random.random() < 0.75 else 1
    return Life(
        master="cluster" if kind == "executor" else f"local[{cores},{tries}]",
        partitions=random.choice((0, 1, 2, 3, 4)),
        files_per_batch=random.randint(1, 3),
        splitting=random.choice(SPLITTINGS),
        pane_slots=tuple(random.randint(1, 4) for _ in range(4)),
        window_slots=random.randint(1, 3),
        blow=blow,
        fake_clock=kind == "clock",
    )


def _driver_blow(random: Random, sink: str) -> Blow:
    at_file = KillDriverAtFile(random.randint(1, 80))
    in_sink = KillDriverInSink(random.choice((1, 1, 2, 2, 3, 3, 4, 6)), random.choice(("before", "inside", "after", "after")))
    return random.choice((KillDriver(random.random()), at_file, *([in_sink] * 3 if sink != "parquet" else [at_file])))


def _worker_blow(random: Random, own: bool) -> Blow:
    shares = tuple(random.random() / 10 for _ in range(random.randint(5, 9)))
    return KillWorkers(shares[:1], source=True) if own and random.random() < 0.3 else KillWorkers(shares)


def _executor_blow(random: Random, sink: str) -> Blow:
    if random.random() < 0.25:
        return _driver_blow(random, sink)
    return KillExecutors(tuple(random.random() / 10 for _ in range(random.randint(3, 5))))


def _clock_blow(random: Random) -> Blow:
    jumps = random.randint(2, 5)
    return JumpClock(
        tuple(random.random() / 10 for _ in range(jumps)),
        tuple(random.choice((-1, 1)) * random.choice((1, 3_600, 86_400, 30 * 86_400)) for _ in range(jumps)),
    )
