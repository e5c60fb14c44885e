"""Compares what came out of a case with the oracle."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from support import oracle
from support.oracle import Row

from campaign import sinks
from campaign.cases import Ask, Case, Files, slide_of_count
from campaign.streams import MAX_FILES_PER_BATCH, Parts

BOUNDS = ("batch", "window_start", "window_end")
LONG_AGO = -(2**62)
SILENCE_US = 1_800_000_000  # what comes after so long may be a wrong time, and empty windows on the way to it need not be reported
CONFIRM = 4  # so many tuples move the stream's time, however far
TICK_US = 100_000  # steps in which an operator without windows takes tuples


@dataclass
class Verdict:
    """How many windows were compared, and what was wrong with them."""

    compared: int = 0
    lost: int = 0
    doubled: int = 0
    different: int = 0
    tuples: int = 0
    """Tuples that are not where they belong: late without a reason, late twice, or never seen."""
    reasons: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Return whether nothing was wrong."""
        return not (self.lost or self.doubled or self.different or self.tuples or self.reasons)

    def blame(self, what: str, reason: str) -> None:
        """Count a fault."""
        setattr(self, what, getattr(self, what) + 1)
        self.reasons.append(f"{what}: {reason}")


@dataclass(frozen=True)
class Found:
    """All that a case wrote."""

    results: list[Row]
    windows: list[Row]
    late: list[Row]
    invalid: list[Row]


def read(kind: str, target: Path) -> Found:
    """Read what was written to the sinks of a case."""
    return Found(*(sinks.written(kind, target, name) for name in ("results", "windows", "late", "invalid")))


def asked(ask: Ask) -> oracle.Ask:
    """Return a query as the oracle understands it."""
    if ask.method == "aggregate":
        return oracle.aggregate(ask.measures, ask.keys)
    if ask.method == "best_keys":
        by_key, best = oracle.aggregate(ask.measures, ask.keys), oracle.top_k(ask.number, ("high", "n"))
        return lambda rows: best(by_key(rows))
    if ask.method == "skyline":
        return oracle.skyline(*ask.preferences)
    return getattr(oracle, ask.method)(ask.number, *ask.preferences)  # type: ignore[no-any-return]


def asked_of_a_key(case: Case) -> oracle.Ask:
    """Return what an operator on keys has to answer for the tuples of a key."""
    if case.ask.method == "running":
        return oracle.running("c")
    if case.ask.method == "timed":
        return oracle.numbered_by_time(case.length_us, case.slide_us)
    return oracle.numbered_by_count(case.ask.number, slide_of_count(case.ask.number))


def judge(case: Case, parts: Parts, found: Found) -> Verdict:
    """Compare what came out with what had to come out.

    Which tuples are late depends on where batches end, so those that were handed to `late=` or `invalid=` are taken as they are, if they can
    be late at all. All others must be in their windows.
    """
    verdict = Verdict()
    accepted = _accepted(case, parts, found, verdict)
    if case.is_keyed:
        _judge_keys(case, accepted, found, verdict)
        return verdict
    expected, silent = _expected(case, accepted), _silent(case, accepted)
    verdict.compared = len(expected)
    reported = _reported(case, found.windows, verdict)
    results: dict[int, list[Row]] = {}
    for row in _complete(case, found.results, next((row for window in expected.values() for row in window.rows), {})):
        results.setdefault(row["window_start"], []).append(row)
    for start in sorted({*expected, *reported, *results}):
        window = expected.get(start, oracle.Window(0, []) if silent(start) else None)
        if silent(start) and start not in reported and start not in results:
            continue
        if window is None:
            verdict.blame("different", f"window {start} came out and does not exist")
        else:
            _compare(start, window, reported.get(start, []), results.get(start, []), case, verdict)
    order = [row["window_start"] for row in sorted(found.windows, key=lambda row: (row["batch"], row["window_start"]))]
    if order != sorted(order):
        verdict.blame("different", "windows did not come out in order")
    if sum(row["late"] for row in found.windows) > len(found.late) + len(found.invalid):
        verdict.blame("tuples", "windows count more late tuples than there are")
    return verdict


def _expected(case: Case, accepted: list[Row]) -> dict[int, oracle.Window]:
    """Return every window that has tuples, and the empty ones between them, except on the way to a time far ahead."""
    found: dict[int, oracle.Window] = {}
    rows, far_us = sorted(accepted, key=lambda row: row["ts"]), max(SILENCE_US, 100 * case.length_us)
    cuts = [number for number in range(1, len(rows)) if rows[number]["ts"] - rows[number - 1]["ts"] > far_us]
    for first, last in pairwise([0, *cuts, len(rows)]):
        found |= oracle.windows_of(rows[first:last], case.length_us, case.slide_us, asked(case.ask))
    return found


def _silent(case: Case, accepted: list[Row]) -> Callable[[int], bool]:
    """Return whether the window that begins at a time lies wholly in a silence so long that it need not be reported."""
    times = sorted(row["ts"] for row in accepted)

    def silent(start: int) -> bool:
        after = bisect_left(times, start)
        if not 0 < after < len(times):
            return False
        return times[after] >= start + case.length_us and times[after] - times[after - 1] > SILENCE_US

    return silent


def _compare(start: int, window: oracle.Window, reported: list[Row], results: list[Row], case: Case, verdict: Verdict) -> None:
    """Compare one window."""
    right, rows = oracle.multiset(window.rows), oracle.multiset(_bare(row) for row in results)
    twice = right + right
    if not reported or (right and not rows):
        verdict.blame("lost", f"window {start} with {window.tuples} tuples: {len(reported)} times reported, {len(results)} rows")
    elif len(reported) > 1 or (right and rows == twice):
        verdict.blame("doubled", f"window {start}: {len(reported)} times reported, {len(results)} rows instead of {right.total()}")
    elif rows != right:
        verdict.blame("different", f"window {start}: missing {dict(right - rows)}, too many {dict(rows - right)}")
    elif (reported[0]["tuples"], reported[0]["kept"]) != (window.tuples, len(window.rows)):
        verdict.blame("different", f"window {start}: {reported[0]} instead of {window.tuples} tuples and {len(window.rows)} rows")
    elif any(row["window_end"] - row["window_start"] != case.length_us for row in results):
        verdict.blame("different", f"window {start} has a wrong end")


def _judge_keys(case: Case, accepted: list[Row], found: Found, verdict: Verdict) -> None:
    """Compare the results of an operator on keys: each once, and in order within its key."""
    expected = oracle.of_each_key(asked_of_a_key(case), case.ask.keys, order=case.ask.order)(accepted)
    right = oracle.multiset(expected)
    results = _complete(case, found.results, expected[0] if expected else {})
    rows = oracle.multiset({name: value for name, value in row.items() if name != "batch"} for row in results)
    verdict.compared = right.total()
    missing, too_many = right - rows, rows - right
    for row in too_many:
        verdict.blame("doubled" if row in right else "different", f"{row} came out {rows[row]} times instead of {right[row]}")
    for row in missing:
        verdict.blame("lost", f"{row} is missing")
    order: dict[str, list[tuple[int, int]]] = {}
    for row in results:
        order.setdefault(str([row[key] for key in case.ask.keys]), []).append((row["batch"], row["number"]))
    for key, places in order.items():
        if [number for _, number in sorted(places)] != sorted(number for _, number in places):
            verdict.blame("different", f"results of {key} did not come out in order")


def _complete(case: Case, rows: list[Row], like: Row) -> list[Row]:
    """Return rows with all columns: Spark leaves NULLs out of JSON."""
    return [{**dict.fromkeys(like), **row} for row in rows] if case.sink == "json" else rows


def _bare(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in BOUNDS}


def _reported(case: Case, rows: list[Row], verdict: Verdict) -> dict[int, list[Row]]:
    """Return the rows of `windows=` by window; one row may stand for a run of empty windows."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        count = row.get("windows") or 1
        if row["window_end"] != row["window_start"] + (count - 1) * case.slide_us + case.length_us:
            verdict.blame("different", f"{row} does not end where it should")
        for number in range(count):
            found.setdefault(row["window_start"] + number * case.slide_us, []).append(row)
    return found


def _accepted(case: Case, parts: Parts, found: Found, verdict: Verdict) -> list[Row]:
    """Return the tuples that must be in windows: all that did not go to a side output."""
    dropped = Counter(row["id"] for row in (*found.late, *found.invalid))
    by_id = {row["id"]: row for part in parts for row in part}
    for number, times in dropped.items():
        if times > 1 or number not in by_id:
            verdict.blame("tuples", f"tuple {number} was dropped {times} times, and came {int(number in by_id)} times")
    for row in found.late:
        if _bare(row) != by_id.get(row["id"]):
            verdict.blame("tuples", f"{row} is late, and came as {by_id.get(row['id'])}")
    can, must, odd = _late(case, parts)
    unjust = sorted(dropped.keys() - can - odd)
    if unjust:
        verdict.blame("tuples", f"tuples {unjust} were dropped and were not late")
    for number in sorted((must | odd) - dropped.keys()):
        verdict.blame("tuples", f"tuple {number} was hopelessly late or had no time, and was not dropped")
    return [row for row in by_id.values() if row["id"] not in dropped and row["id"] not in odd]


def _late(case: Case, parts: Parts) -> tuple[set[int], set[int], set[int]]:
    """Return the tuples that can be late, those that must be, wherever batches end, and those that have no time or that of 1970.

    A tuple can be late only if one that came before it is newer, by more than a fixed slack. It must be, if that was so already
    with the tuples of earlier batches (whose files are known: all but the few that can be in its own batch), and its last window ended.
    """
    name, value = case.slack
    slack_us = value if name == "fixed" else 0
    if case.has_tail:  # it is not known what comes together, and the slack is such that nothing is late
        return set(), set(), set()
    first_odd = case.stream.tuples + case.stream.strays if isinstance(case.stream, Files) else None
    can, must, odd = set(), set(), set()
    newest: list[int] = [
        LONG_AGO
    ] * MAX_FILES_PER_BATCH  # as far as enough tuples confirm it, after each file, with some before the first
    so_far, latest = LONG_AGO, [LONG_AGO] * CONFIRM
    for number, part in enumerate(parts):
        for row in part:
            if first_odd is not None and row["id"] >= first_odd:
                if not row["ts"]:
                    odd.add(row["id"])
                continue  # a time far ahead is in its window, and makes nothing late
            if so_far - row["ts"] > slack_us:
                can.add(row["id"])
            if name == "fixed" and newest[number] - row["ts"] > slack_us + max(case.length_us, TICK_US):
                must.add(row["id"])
            so_far = max(so_far, row["ts"])
            latest = sorted((*latest, row["ts"]))[1:]
        newest.append(latest[0])
    return can, must, odd
