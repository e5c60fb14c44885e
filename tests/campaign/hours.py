"""Draws windows of hours, each of which spreads over many batches, mostly with many groups: state that is merged, divided and read again."""

from dataclasses import replace
from random import Random

from campaign.cases import WORDINGS, Ask, Blow, Files, KillDriver, KillDriverAtChange, KillDriverAtFile, Life

HOUR_US = 3_600_000_000
MEASURES = (
    ("count", "*", "n"),
    *((function, "a", f"{function}_a") for function in ("min", "max", "first", "last", "sum")),
    ("avg", "b", "mean"),
    ("count", "d", "some"),
)
BY_GROUP = Ask("aggregate", measures=MEASURES, keys=("g",))
PREFERENCES = (("low", "a"), ("high", "b"))
ASKS = (
    *(replace(BY_GROUP, wording=wording) for wording in WORDINGS * 2),
    replace(BY_GROUP, method="best_keys", number=3),
    replace(BY_GROUP, keys=()),
    Ask("skyline", (*PREFERENCES, ("diff", "g"))),
    Ask("skyline", (*PREFERENCES, ("low", "id"))),
    Ask("skyband", (*PREFERENCES, ("diff", "g")), 2),
    Ask("top_k", PREFERENCES[:1], 5),
    Ask("timed", keys=("g",)),
)
INPUTS = ("plain", "plain", "plain", "shuffled", "not null", "deduplicated")
TINY_MB = "0.01"


def ask(random: Random) -> Ask:
    """Return a query, most often one whose state is divided into parts."""
    return random.choice(ASKS)


def stream(random: Random, of: Ask, kind: str) -> tuple[int, int, Files]:
    """Return the length and slide of windows, and a stream of a few of them: so small that an oracle can answer each window from all of its rows."""
    by_group = of.method in ("aggregate", "best_keys")
    if random.random() < 0.6:
        length_us = slide_us = HOUR_US * random.choice((1, 2, 6, 24))
        tuples, groups = (
            random.choice(((3_000, 3), (6_000, 2_000), (20_000, 15_000))) if by_group else (2_500, random.choice((3, 800)))
        )
    else:
        length_us = HOUR_US * random.choice((1, 4))
        panes = random.choice((12, 60))
        slide_us = length_us // panes
        tuples, groups = 2_000, random.choice((3, 200 if panes == 60 else 1_000))
    files = random.randint(28, 40) if kind in ("driver", "worker") else random.randint(18, 24)
    return (
        length_us,
        slide_us,
        Files(
            seed=random.randrange(2**31),
            format=random.choice(("parquet", "parquet", "json")),
            files=files,
            tuples=tuples,
            span_us=round(length_us * random.uniform(2.2, 3.5)),
            disorder_us=random.choice((1, length_us // 500, length_us // 4)),
            strays=random.choice((0, 0, 3)),
            invalid=0,
            input=random.choice(INPUTS),
            groups=groups,
        ),
    )


def life(random: Random, of: Ask, like: Life) -> Life:
    """Return a life with many pieces in each batch, in which the state may be divided and the memory of processes be tiny."""
    return replace(
        like,
        blow=_later(like.blow),
        partitions=random.choice((2, 3, 4)),
        window_slots=tuple(random.randint(1, 4) for _ in range(4)),
        divides=random.random() < 0.6,
        cache_mb=random.choice(("", TINY_MB)),
        wording=random.choice(WORDINGS[:2]) if of.keys and of.wording in WORDINGS[:2] else "",
    )


def _later(blow: Blow) -> Blow:
    """Return a blow that comes as late as suits a stream with more batches than others."""
    match blow:
        case KillDriver(after):
            return KillDriver(1.2 * after)
        case KillDriverAtFile(changes):
            return KillDriverAtFile(2 * changes)
        case KillDriverAtChange(changes, after):
            return KillDriverAtChange(2 * changes, after)
    return blow
