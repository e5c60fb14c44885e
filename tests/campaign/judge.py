"""Compares what came out of a case with the oracle."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from support import oracle
from support.oracle import Row

from campaign import sinks
from campaign.cases import Ask, Case, Files
from campaign.streams import MAX_FILES_PER_BATCH, Parts

BOUNDS = ("batch", "window_start", "window_end")
LONG_AGO = -(2**62)


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


def judge(case: Case, parts: Parts, found: Found) -> Verdict:
    """Compare what came out with what had to come out.

    Which tuples are late depends on where batches end, so those that were handed to `late=` or `invalid=` are taken as they are, if they can
    be late at all. All others must be in their windows.
    """
    verdict = Verdict()
    accepted = _accepted(case, parts, found, verdict)
    expected = oracle.windows_of(accepted, case.length_us, case.slide_us, asked(case.ask))
    verdict.compared = len(expected)
    reported = _reported(case, found.windows, verdict)
    results: dict[int, list[Row]] = {}
    for row in found.results:
        results.setdefault(row["window_start"], []).append(row)
    for start in sorted({*expected, *reported, *results}):
        window = expected.get(start)
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
    if len(unjust) > (0.01 * len(by_id) if odd else 0):  # a time from the future may cost others, but only a few
        verdict.blame("tuples", f"tuples {unjust} were dropped and were not late")
    for number in sorted((must | odd) - dropped.keys()):
        verdict.blame("tuples", f"tuple {number} was hopelessly late or had an impossible time, and was not dropped")
    return [row for row in by_id.values() if row["id"] not in dropped and row["id"] not in odd]


def _late(case: Case, parts: Parts) -> tuple[set[int], set[int], set[int]]:
    """Return the tuples that can be late, those that must be, wherever batches end, and those with impossible times.

    A tuple can be late only if one that came before it is newer, by more than a fixed slack. It must be, if that was so already
    with the tuples of earlier batches (whose files are known: all but the few that can be in its own batch), and its last window ended.
    """
    name, value = case.slack
    slack_us = value if name == "fixed" else 0
    first_odd = case.stream.tuples + case.stream.strays if isinstance(case.stream, Files) else None
    can, must, odd = set(), set(), set()
    newest: list[int] = [LONG_AGO] * MAX_FILES_PER_BATCH  # after each file, with some before the first
    for number, part in enumerate(parts):
        so_far = newest[-1]
        for row in part:
            if first_odd is not None and row["id"] >= first_odd:
                odd.add(row["id"])
                continue
            if so_far - row["ts"] > slack_us:
                can.add(row["id"])
            if name == "fixed" and newest[number] - row["ts"] > slack_us + case.length_us:
                must.add(row["id"])
            so_far = max(so_far, row["ts"])
        newest.append(so_far)
    return can, must, odd
