"""Runs cases one after the other; the next process always starts while the present one works."""

import itertools
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Self

from campaign import cases, job, judge, streams
from campaign.cases import Case, Files
from campaign.killer import Hits, Scene, strike
from campaign.processes import DEADLINE_S, Job, Needs
from skytide.spark.session.cluster import LocalCluster

DISK = "48m"
CALM_CASE = (0, 0)  # seed and number of the case that is run undisturbed first, to know how long that takes
AGAIN = 3  # more lives in peace than a case should need


class Failed(Exception):
    """A job did not do what it had to do, apart from its results."""


@dataclass
class Outcome:
    """What happened in a case."""

    case: Case
    hits: Hits = field(default_factory=Counter)
    lives: int = 0
    seconds: float = 0.0
    verdict: judge.Verdict = field(default_factory=judge.Verdict)


class Runner:
    """Has processes ready for the next lives, one cluster, and a folder; to be used as a context."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Start nothing yet; `tell` gets a line for everything that happens."""
        self._tell = tell
        self.folder = Path(tempfile.mkdtemp(prefix="skytide-campaign-"))
        self.usual_s = 5.0
        self._cluster: LocalCluster | None = None
        self._waiting: list[Job] = []
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        """Measure how long an undisturbed job takes."""
        case = cases.draw(*CALM_CASE)
        first = self._start(self._needs(cases.Life("local[2,1]", 0, 2, None, (2,), 1, None)))
        folder = self.folder / "calm"
        self._write(case, folder)
        first.ready()
        began = time.monotonic()
        first.go(job.orders(case, len(case.lives) - 1, folder))
        first.until(first.done)
        self.usual_s = time.monotonic() - began
        self._check_end(first)
        first.end()
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes; what failed stays on disk."""
        for each in self._waiting:
            each.end()
        if self._cluster:
            self._cluster.__exit__()
        if self.folder.is_dir() and not any(self.folder.glob("case-*")):
            shutil.rmtree(self.folder)

    def run(self, case: Case, following: Case | None) -> Outcome:
        """Run a case to its end, and judge it."""
        outcome, began = Outcome(case), time.monotonic()
        folder = self.folder / f"case-{case.number}"
        with self._place(case, folder):
            parts = self._write(case, folder)
            try:
                self._live(case, following, folder, outcome)
                outcome.verdict = judge.judge(case, parts, judge.read(case.sink, folder / "out"))
            except Exception as error:
                outcome.verdict.reasons.append(f"{type(error).__name__}: {error}")
        outcome.seconds = time.monotonic() - began
        if outcome.verdict.good:
            shutil.rmtree(folder)
        return outcome

    def _live(self, case: Case, following: Case | None, folder: Path, outcome: Outcome) -> None:
        """Let a job live again and again, until it has ended."""
        random = Random(f"{case.seed}/{case.number}/blows")
        planned = [*range(len(case.lives)), *[len(case.lives) - 1] * AGAIN]
        for number, after in itertools.pairwise([*planned, None]):
            life = case.lives[number]
            present = self._take(self._needs(life))
            self._prepare(
                case.lives[after] if after is not None and number != len(case.lives) - 1 else following and following.lives[0]
            )
            try:
                if not present.ready():
                    raise Failed(f"Spark did not start: {present.log()[-2_000:]}")
                self._tell(f"life {outcome.lives} of case {case.number} on {life.master}: {life.blow}")
                present.go(job.orders(case, number, folder))
                hits = strike(life.blow, Scene(present, folder, self.usual_s, random, self._tell))
                outcome.hits += hits
                outcome.lives += 1
                present.until(present.done)
                self._tell(f"{'done' if present.done() else 'ended'} after {present.batches()} batches")
                self._check_end(present, disturbed=hits.total() > 0)
                if present.done():
                    return
            finally:
                shutil.copy(present.log_file, folder / f"life-{outcome.lives}.log")
                present.end()
        raise Failed(f"did not come to an end in {len(planned)} lives, {AGAIN + 1} of them in peace")

    def _check_end(self, present: Job, *, disturbed: bool = False) -> None:
        if not present.ended() and not present.done():
            raise Failed(f"still runs after {DEADLINE_S:g} s: {present.log()[-2_000:]}")
        if not present.done() and not disturbed:
            raise Failed(f"ended with {present.process.returncode} undisturbed: {present.log()[-3_000:]}")

    def _write(self, case: Case, folder: Path) -> streams.Parts:
        folder.mkdir(exist_ok=True)
        parts = streams.parts_of(case.stream, invalid="invalid" in job.sides())
        if isinstance(case.stream, Files):
            streams.write(parts, case.stream.format, folder / "in")
        return parts

    @contextmanager
    def _place(self, case: Case, folder: Path) -> Iterator[None]:
        """Mount a small disk for the case, if it is to be filled."""
        if case.kind != "disk":
            yield
            return
        small = folder.with_name("disk")
        small.mkdir()
        folder.symlink_to(small)
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", small], check=True)
            yield
        finally:
            folder.unlink()
            shutil.copytree(small, folder)
            subprocess.run(["umount", "--lazy", small], check=True)
            small.rmdir()

    def _needs(self, life: cases.Life) -> Needs:
        if life.master != "cluster":
            return Needs(life.master, (), life.fake_clock)
        if self._cluster is None:
            self._cluster = LocalCluster(cores=5).__enter__()
        settings = {**self._cluster.settings(), "spark.cores.max": "2", "spark.deploy.maxExecutorRetries": "-1"}
        return Needs(self._cluster.url, tuple(settings.items()), life.fake_clock)

    def _start(self, needs: Needs) -> Job:
        return Job(needs, self.folder / "jobs" / str(next(self._numbers)))

    def _prepare(self, life: cases.Life | None) -> None:
        if life is not None and all(each.needs != self._needs(life) for each in self._waiting):
            self._waiting.append(self._start(self._needs(life)))

    def _take(self, needs: Needs) -> Job:
        """Return a process that waits for orders."""
        for each in self._waiting:
            if each.needs == needs:
                self._waiting.remove(each)
                return each
        return self._start(needs)
