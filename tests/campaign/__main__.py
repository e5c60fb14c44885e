"""The campaign: `python -m campaign [--kills 200] [--seed 1] [--case N]`, with `tests` on the path."""

import argparse
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator

from campaign import cases
from campaign.runner import Outcome, Runner

KILLS = ("driver", "executor", "worker", "source")
OTHERS = ("full disk", "clock jump")


def available() -> tuple[str, ...]:
    """Return the kinds of cases that this machine can run, and print which it cannot."""
    kinds = list(cases.KINDS)
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
    """Return the table at the end."""
    hits = sum((outcome.hits for outcome in outcomes), Counter())
    kills = sum(hits[name] for name in KILLS)
    rows = [("cases", len(outcomes)), ("lives", sum(outcome.lives for outcome in outcomes)), ("kills", kills)]
    rows += [(f"  {name}", hits[name]) for name in KILLS] + [(name, hits[name]) for name in OTHERS]
    rows += [
        (f"windows {what}", sum(getattr(outcome.verdict, what) for outcome in outcomes))
        for what in ("compared", "lost", "doubled", "different")
    ]
    rows += [("tuples astray", sum(outcome.verdict.tuples for outcome in outcomes))]
    rows += [("cases failed", sum(not outcome.verdict.good for outcome in outcomes))]
    table = "\n".join(f"{name:<20} {count:>8,}" for name, count in rows)
    return f"\n{table}\n{'minutes':<20} {seconds / 60:>8.1f}\n{'kills per minute':<20} {kills / seconds * 60:>8.1f}"


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
        return iter([cases.draw(options.seed, options.case)] * options.times)
    kinds = [kind for kind in available() if not options.only or kind in options.only]
    return (case for number in itertools.count() if (case := cases.draw(options.seed, number)).kind in kinds)


def fight(options: argparse.Namespace, outcomes: list[Outcome]) -> None:
    """Run cases until enough has been killed, and print each."""
    began, kills = time.monotonic(), 0

    def tell(text: str) -> None:
        if options.verbose:
            print(f"{time.monotonic() - began:8.1f} s  {text}", flush=True)

    with Runner(tell) as runner:
        print(f"an undisturbed job takes {runner.usual_s:.1f} s; seed {options.seed}", flush=True)
        for present, following in itertools.pairwise(itertools.chain(chosen(options), [None])):
            if present is None or (options.case is None and kills >= options.kills):
                return
            outcomes.append(outcome := runner.run(present, following))
            kills += sum(outcome.hits[name] for name in KILLS)
            print(line(outcome, kills, options.kills), flush=True)
            if not outcome.verdict.good:
                print(explain(outcome, runner), flush=True)


def main() -> int:
    """Run the campaign; the exit status tells whether all windows came out once and right."""
    parser = argparse.ArgumentParser(prog="campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many kills are enough")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="run this case alone")
    parser.add_argument("--times", type=int, default=1, help="with --case: so often, as moments differ from run to run")
    parser.add_argument("--only", choices=tuple(cases.KINDS), action="append", help="only cases of this kind")
    parser.add_argument("--verbose", action="store_true", help="tell of every life and every kill")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that no process is left behind
    outcomes: list[Outcome] = []
    began = time.monotonic()
    try:
        fight(options, outcomes)
    finally:
        print(summary(outcomes, time.monotonic() - began), flush=True)
    return int(any(not outcome.verdict.good for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
