"""The campaign: `python -m campaign [--kills 200] [--seed 1] [--case N]`, with `tests` on the path."""

import argparse
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from campaign import cases, drawing
from campaign.runner import Outcome, Runner

KILLS = (
    "driver",
    "driver at a file",
    "driver in a sink",
    "driver at a change",
    "executor",
    "executor between stages",
    "worker",
    "source",
)
OTHERS = ("full disk", "clock jump", "batch in parts")


def available() -> tuple[str, ...]:
    """Return the kinds of cases that this machine can run, and print which it cannot."""
    kinds = list(drawing.KINDS)
    with tempfile.TemporaryDirectory() as folder:
        mounts = shutil.which("mount") and os.geteuid() == 0
        if not mounts or subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False).returncode:
            kinds.remove("disk")
            print("no full disks: this user may not mount a small one")
        else:
            subprocess.run(["umount", folder], check=True)
    return tuple(kinds)


def line(outcome: Outcome, kills: int, wanted: int) -> str:
    """Return what happened in a case, in one line."""
    verdict = outcome.verdict
    verdict_text = (
        "ok"
        if verdict.good
        else f"LOST {verdict.lost} DOUBLED {verdict.doubled} DIFFERENT {verdict.different} TUPLES {verdict.tuples}"
    )
    hits = ", ".join(f"{count} {name}" for name, count in outcome.hits.items() if count)
    return f"{kills:4}/{wanted}  case {outcome.case.number:<4} {outcome.case} {verdict.compared:4} windows  {outcome.seconds:5.1f} s  {verdict_text}  [{hits}]"


def summary(outcomes: list[Outcome], seconds: float) -> str:
    """Return the tables at the end: what was hit and what was wrong, and how long each kind of case and of input took."""
    hits = sum((outcome.hits for outcome in outcomes), Counter())
    kills = sum(map(kills_of, outcomes))
    rows = [("cases", len(outcomes)), ("lives", sum(outcome.lives for outcome in outcomes)), ("kills", kills)]
    rows += [(f"  {name}", hits[name]) for name in KILLS] + [(name, hits[name]) for name in OTHERS]
    rows += [
        (f"windows {what}", sum(getattr(outcome.verdict, what) for outcome in outcomes))
        for what in ("compared", "lost", "doubled", "different")
    ]
    rows += [("tuples astray", sum(outcome.verdict.tuples for outcome in outcomes))]
    rows += [("cases failed", sum(not outcome.verdict.good for outcome in outcomes))]
    table = "\n".join(f"{name:<26} {count:>8,}" for name, count in rows)
    busy_s = sum(outcome.seconds for outcome in outcomes)
    groups = [f"{'':<26} {'cases':>8} {'kills':>8} {'failed':>8} {'share':>8} {'a minute':>9}"]
    for group in (lambda case: case.kind, lambda case: case.input, lambda case: case.sink, subject):
        for name in sorted({group(outcome.case) for outcome in outcomes}):
            some = [outcome for outcome in outcomes if group(outcome.case) == name]
            share = sum(outcome.seconds for outcome in some) / busy_s  # runners that work side by side share the minutes
            killed, failed = sum(map(kills_of, some)), sum(not outcome.verdict.good for outcome in some)
            groups.append(
                f"{name:<26} {len(some):>8} {killed:>8} {failed:>8} {share:>8.0%} {killed / (share * seconds) * 60:>9.1f}"
            )
        groups.append("")
    end = f"{'minutes':<26} {seconds / 60:>8.1f}\n{'kills per minute':<26} {kills / seconds * 60:>8.1f}"
    return "\n".join(("", table, "", *groups, end))


def kills_of(outcome: Outcome) -> int:
    """Return how many processes were killed in a case."""
    return sum(outcome.hits[name] for name in KILLS)


def subject(case: cases.Case) -> str:
    """Return what kind of query a case has."""
    return "windows of hours" if case.subject == "hours" else "operators on keys" if case.is_keyed else "windows of all tuples"


def explain(outcome: Outcome, runner: Runner) -> str:
    """Print what was wrong with a case, and how to repeat it."""
    case, shown = outcome.case, outcome.verdict.reasons[:8]
    more = len(outcome.verdict.reasons) - len(shown)
    reasons = "\n".join(f"      {reason}" for reason in shown) + (f"\n      and {more} more" if more else "")
    where = runner.folder / f"case-{case.number}"
    return f"{reasons}\n      all it wrote: {where}\n      alone: PYTHONPATH=tests python -m campaign --seed {case.seed} --case {case.number}"


def chosen(options: argparse.Namespace) -> Iterator[cases.Case]:
    """Return the cases to run: a single one, or all from the first on."""
    if options.case is not None:
        return iter([drawing.draw(options.seed, number) for number in options.case] * options.times)
    kinds = [kind for kind in available() if not options.only or kind in options.only]
    every = (drawing.draw(options.seed, number) for number in itertools.count())
    return (case for case in every if case.kind in kinds and case.subject in (options.subject or drawing.SUBJECTS))


class Fight:
    """Cases that are run until enough has been killed, by runners side by side."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Start nothing yet."""
        self.options, self.outcomes, self._kills = options, list[Outcome](), 0
        self._runners, self._stopped = list[Runner](), False
        self._cases, self._began, self._lock = chosen(options), time.monotonic(), threading.Lock()

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._began

    def join(self) -> None:
        """Run one case after the other."""
        with Runner(self._tell) as runner:
            self._say(f"an undisturbed job takes {runner.usual_s:.1f} s; seed {self.options.seed}")
            self._runners.append(runner)
            present, following = self._next(), self._next()
            while present is not None and not self._is_over():
                self._note(runner.run(present, following), runner)
                present, following = following, self._next()

    def stop(self) -> None:
        """End all runners, and what they run."""
        self._stopped = True
        for runner in self._runners:
            runner.stop()

    def _is_over(self) -> bool:
        return self._stopped or (self.options.case is None and self._kills >= self.options.kills)

    def _next(self) -> cases.Case | None:
        with self._lock:
            return next(self._cases, None)

    def _note(self, outcome: Outcome, runner: Runner) -> None:
        if self._stopped:
            return
        with self._lock:
            self.outcomes.append(outcome)
            self._kills += kills_of(outcome)
            print(line(outcome, self._kills, self.options.kills), flush=True)
            if not outcome.verdict.good:
                print(explain(outcome, runner), flush=True)

    def _tell(self, text: str) -> None:
        if self.options.verbose:
            self._say(text)

    def _say(self, text: str) -> None:
        print(f"{self.seconds:8.1f} s  {text}", flush=True)


def main() -> int:
    """Run the campaign; the exit status tells whether all windows came out once and right."""
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many kills are enough")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, nargs="+", help="run these cases alone")
    parser.add_argument("--times", type=int, default=1, help="with --case: so often, as moments differ from run to run")
    parser.add_argument("--only", choices=tuple(drawing.KINDS), action="append", help="only cases of this kind")
    parser.add_argument("--subject", choices=tuple(drawing.SUBJECTS), action="append", help="only cases of this subject")
    parser.add_argument("--runners", type=int, default=2, help="how many cases run side by side")
    parser.add_argument("--verbose", action="store_true", help="tell of every life and every kill")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that no process is left behind
    fight = Fight(options)
    try:
        with ThreadPoolExecutor(options.runners) as runners:
            running = [runners.submit(fight.join) for _ in range(options.runners)]
            try:
                for each in running:
                    each.result()
            except BaseException:
                fight.stop()
                raise
    finally:
        print(summary(fight.outcomes, fight.seconds), flush=True)
    return int(any(not outcome.verdict.good for outcome in fight.outcomes))


if __name__ == "__main__":
    sys.exit(main())
