"""Draws cases: everything in one follows from (seed, number)."""

from random import Random

from campaign import hours, sinks
from campaign.cases import (
    INPUTS,
    KEYED,
    STATE_STORES,
    STATEFUL,
    Ask,
    Blow,
    Case,
    DriverBlow,
    Files,
    FillDisk,
    Fleet,
    JumpClock,
    KillDriver,
    KillDriverAtChange,
    KillDriverAtFile,
    KillDriverInSink,
    KillExecutors,
    KillWorkers,
    Life,
    Workload,
)

KINDS = {"driver": 6, "worker": 5, "executor": 4, "clock": 1, "disk": 1}
SUBJECTS = {"windows": 5, "keys": 3, "fleet": 2, "hours": 3}
SLIDES_US = (100_000, 200_000, 250_000, 333_000, 1_000_000)
SCALES = (1.0, 1.0, 1.0, 1.0, 1.0, 0.001, 3_600.0, 30 * 86_400.0)
"""How fast time passes in a stream: from tuples that are microseconds apart to tuples that are months apart."""
SPLITTINGS = (None, "EAGER", "IN_PLACE", "EVEN", "PB_RR", "TB_RR", "AS", "AS_PID", "RATE")
NUMBERS = ("a", "b", "c")
ORDERS = ((), (), ("c",), ("d", "b"))


def draw(seed: int, number: int) -> Case:
    """Return case `number` of a campaign."""
    random = Random(f"{seed}/{number}")
    kind = random.choices(list(KINDS), list(KINDS.values()))[0]
    subject = random.choices(list(SUBJECTS), list(SUBJECTS.values()))[0]
    if subject == "fleet" and kind not in ("driver", "worker"):
        subject = "windows"
    if subject == "hours":
        return _hours(random, seed, number, kind)
    slide_us = round(random.choice(SLIDES_US) * (random.choice(SCALES) if subject != "fleet" else 1))
    length_us = random.choice((slide_us, 2 * slide_us, 5 * slide_us, slide_us * 5 // 2, slide_us + slide_us * 7 // 100))
    span_us = slide_us * random.randint(15, 45)
    own = subject == "windows" and kind != "executor" and slide_us in SLIDES_US and random.random() < 0.25
    stream: Files | Workload | Fleet
    if subject == "fleet":
        stream = _fleet(random, span_us)
    else:
        stream = _workload(random, span_us) if own else _files(random, span_us, slide_us, kind, subject)
    sink = random.choice(sinks.KINDS)
    ask = _keyed(random, slide_us) if subject == "keys" else _ask(random, ("x0", "x1", "x2") if own else NUMBERS, own)
    return Case(
        seed=seed,
        number=number,
        kind=kind,
        stream=stream,
        ask=ask,
        length_us=length_us,
        slide_us=slide_us,
        slack=_slack(random, stream, slide_us),
        sink=sink,
        lives=_lives(random, kind, sink, ask, stream),
        subject=subject,
    )


def _hours(random: Random, seed: int, number: int, kind: str) -> Case:
    """Return a case with windows of hours."""
    ask, sink = hours.ask(random), random.choice(sinks.KINDS)
    length_us, slide_us, stream = hours.stream(random, ask, kind)
    slack = _slack(random, stream, slide_us)
    lives = tuple(hours.life(random, ask, life) for life in _lives(random, kind, sink, ask, stream))
    return Case(seed, number, kind, stream, ask, length_us, slide_us, slack, sink, lives, "hours")


def _slack(random: Random, stream: Files | Workload | Fleet, slide_us: int) -> tuple[str, float]:
    """Return a slack; where it is not known which tuples come together, one with which nothing can be late."""
    if isinstance(stream, Fleet):
        return "fixed", 3.0 * stream.span_us / stream.steps
    if isinstance(stream, Files) and stream.input == "aggregated":
        return "fixed", 2.0 * stream.group_us
    disorder_us = stream.options["delay_us"] if isinstance(stream, Workload) else stream.disorder_us
    fixed = ("fixed", float(disorder_us)), ("fixed", disorder_us // 3 + 1.0)
    return random.choice((("k", 0.0), ("ratio", random.choice((0.01, 0.1))), *fixed))


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


def _files(random: Random, span_us: int, slide_us: int, kind: str, subject: str) -> Files:
    shuffled = ("shuffled", "joined", "deduplicated") if kind == "executor" else ()  # a lost executor has rows that others need
    input_ = random.choice((*INPUTS, "plain", "plain", *shuffled))
    # Spark's own watermark cannot cope with odd times, and an operator on keys may hold tuples from the future to the end.
    stamped_oddly = input_ not in ("deduplicated", "aggregated") and subject != "keys"
    return Files(
        seed=random.randrange(2**31),
        format=random.choice(("parquet", "parquet", "json")),
        files=random.randint(14, 18) if kind != "disk" else random.randint(8, 14),
        tuples=random.randint(200, 1_000),
        span_us=span_us,
        disorder_us=random.choice((1, slide_us // 2, slide_us * 3, slide_us * 8)),
        strays=random.choice((0, 0, 3)) if input_ != "aggregated" else 0,
        invalid=random.choice((0, 0, 0, 2)) if stamped_oddly else 0,
        input=input_,
        state_store=random.choice(STATE_STORES) if input_ in STATEFUL else STATE_STORES[0],
        group_us=max(slide_us // 3, 10),
    )


def _fleet(random: Random, span_us: int) -> Fleet:
    return Fleet(
        seed=random.randrange(2**31),
        format=random.choice(("jsonl", "csv")),
        streams=random.choice((5, 40)),
        steps=random.randint(80, 120),
        tuples=random.randint(600, 2_000),
        span_us=span_us,
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


def _keyed(random: Random, slide_us: int) -> Ask:
    sparse = slide_us > max(SLIDES_US)  # an operator without windows takes tuples in steps of 100 ms
    return Ask(
        random.choice(KEYED[:2] if sparse else KEYED),
        number=random.choice((1, 7, 20)),
        keys=random.choice((("g",), ("a",), ("g", "c"))),
        order=random.choice(ORDERS),
    )


def _lives(random: Random, kind: str, sink: str, ask: Ask, stream: Files | Workload | Fleet) -> tuple[Life, ...]:
    own = isinstance(stream, Workload)
    blows: list[Blow] = {
        "driver": lambda: [_driver_blow(random, sink) for _ in range(random.randint(4, 7))],
        "worker": lambda: [_worker_blow(random, own) for _ in range(2)],
        "executor": lambda: [_executor_blow(random, sink) for _ in range(2)],
        "clock": lambda: [_clock_blow(random), _driver_blow(random, sink), _clock_blow(random)],
        "disk": lambda: [FillDisk(random.randint(3, 60)) for _ in range(2)],
    }[kind]()
    splittings = (*SPLITTINGS, "KEYS", "KEYS") if ask.keys or ("diff", "g") in ask.preferences else SPLITTINGS
    if isinstance(stream, Fleet):
        splittings = (None,)  # with any other, windows do not wait for streams that are behind, and tuples may be late
    return tuple(_life(random, kind, blow, splittings) for blow in [*blows, None])


def _life(random: Random, kind: str, blow: Blow, splittings: tuple[str | None, ...]) -> Life:
    cores = random.choice((1, 2, 2, 4)) if isinstance(blow, DriverBlow) else 2
    tries = 4 if isinstance(blow, KillWorkers) and random.random() < 0.75 else 1
    return Life(
        master="cluster" if kind == "executor" else f"local[{cores},{tries}]",
        partitions=random.choice((0, 1, 2, 3, 4)),
        files_per_batch=1 if isinstance(blow, KillWorkers | KillExecutors) else random.choice((1, 1, 1, 2, 3)),
        splitting=random.choice(splittings),
        pane_slots=tuple(random.randint(1, 4) for _ in range(4)),
        window_slots=tuple(random.randint(1, 3) for _ in range(4)),
        blow=blow,
        fake_clock=kind == "clock",
    )


def _driver_blow(random: Random, sink: str) -> DriverBlow:
    """Return a blow early enough to leave something for the lives after it."""
    at_file = KillDriverAtFile(random.randint(1, 50))
    at_change = KillDriverAtChange(random.choice((1, 1, 1, 2, 2, 3)), random.random() / 10)
    in_sink = KillDriverInSink(random.choice((1, 1, 1, 2, 2, 3, 3, 5)), random.choice(("before", "inside", "after", "after")))
    in_sinks = [in_sink] * 3 if sink in sinks.HOOKED else [at_file]
    return random.choice((KillDriver(0.1 + 0.6 * random.random()), at_file, at_change, at_change, *in_sinks))


def _worker_blow(random: Random, own: bool) -> Blow:
    shares = tuple(random.random() / 15 for _ in range(random.randint(10, 16)))
    return KillWorkers(shares[:1], source=True) if own and random.random() < 0.3 else KillWorkers(shares)


def _executor_blow(random: Random, sink: str) -> Blow:
    if random.random() < 0.2:
        return _driver_blow(random, sink)
    return KillExecutors(tuple(random.random() / 10 for _ in range(random.randint(6, 9))), between_stages=random.random() < 0.6)


def _clock_blow(random: Random) -> Blow:
    jumps = random.randint(2, 5)
    return JumpClock(
        tuple(random.random() / 10 for _ in range(jumps)),
        tuple(random.choice((-1, 1)) * random.choice((1, 3_600, 86_400, 30 * 86_400)) for _ in range(jumps)),
    )
