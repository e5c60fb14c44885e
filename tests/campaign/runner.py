"""Runs cases one after the other. A process that survives its life is used again; otherwise the next one starts while it works."""

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Self

from support.classes import archive

from campaign import cases, drawing, job, judge, streams
from campaign.cases import Case
from campaign.feeding import Feeding
from campaign.killer import Hits, Scene, strike
from campaign.processes import DEADLINE_S, Job, Needs
from skytide.spark.session.cluster import LocalCluster

DISK = "48m"
CALM_CASE = (0, 0)  # seed and number of the case that is run undisturbed first, to know how long that takes
AGAIN = 3  # more lives in peace than a case should need
EXECUTORS = 3  # so that one can be killed while another one starts
MAX_LIVES, MAX_WAITING = 8, 3  # of a process, which remembers something of each; processes that wait


class Failed(Exception):
    """A job did not do what it had to do, apart from its results."""


@dataclass
class Outcome:
    """What happened in a case."""

    case: Case
    hits: Hits = field(default_factory=Counter)
    lives: int = 0
    ended: bool = False
    """Whether the stream was read to its end, as far as it was there."""
    seconds: float = 0.0
    verdict: judge.Verdict = field(default_factory=judge.Verdict)


class Later:
    """Whether something has been so for a while."""

    def __init__(self, condition: Callable[[], bool], seconds: float) -> None:
        """Look at the clock when the condition is first seen to hold."""
        self._condition, self._seconds, self._since = condition, seconds, float("inf")

    def __call__(self) -> bool:
        """Return whether that was long enough ago."""
        if self._condition():
            self._since = min(self._since, time.monotonic())
        return time.monotonic() - self._since > self._seconds


class Runner:
    """Has processes ready for the next lives, one cluster, and a folder; to be used as a context."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Start nothing yet; `tell` gets a line for everything that happens."""
        self._tell = tell
        self.folder = Path(tempfile.mkdtemp(prefix="skytide-campaign-"))
        self.usual_s = 5.0
        self._cluster: LocalCluster | None = None
        self._waiting: list[Job] = []
        self._present: Job | None = None
        self._stopped = False
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        """Measure how long an undisturbed job takes."""
        case = drawing.draw(*CALM_CASE)
        first = self._start(self._needs(cases.Life("local[2,1]", 0, 2, None, (2,), (1,), None)))
        folder = self.folder / "calm"
        self._feed(case, folder)
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

    def stop(self) -> None:
        """End the present case, from another thread."""
        self._stopped = True
        if self._present:
            self._present.kill()

    def run(self, case: Case, following: Case | None) -> Outcome:
        """Run a case to its end, and judge it."""
        outcome, began = Outcome(case), time.monotonic()
        folder = self.folder / f"case-{case.number}"
        with self._place(case, folder):
            try:
                parts, feeding = self._feed(case, folder)
                self._live(case, following, folder, feeding, outcome)
                outcome.verdict = judge.judge(case, streams.seen(case.stream, parts), judge.read(case.sink, folder / "out"))
            except Exception as error:
                outcome.verdict.reasons.append(f"{type(error).__name__}: {error}")
        outcome.seconds = time.monotonic() - began
        if outcome.verdict.good:
            shutil.rmtree(folder)
        return outcome

    def _live(self, case: Case, following: Case | None, folder: Path, feeding: Feeding, outcome: Outcome) -> None:
        """Let a job live again and again, until it has ended."""
        random = Random(f"{case.seed}/{case.number}/blows")
        last = len(case.lives) - 1
        for number in [*range(len(case.lives)), *[last] * AGAIN]:
            if outcome.ended and number < last:
                continue
            life = case.lives[number]
            if self._stopped:
                raise Failed("told to end")
            present = self._present = self._take(self._needs(life))
            try:
                self._prepare(present, life, case.lives[number + 1] if number < last else following and following.lives[0])
                if not present.ready():
                    raise Failed(f"Spark did not start: {present.log()[-2_000:]}")
                if number == last:
                    feeding.finish()
                self._tell(f"life {outcome.lives} of case {case.number} on {life.master}: {life.blow}")
                present.go(job.orders(case, number, folder))
                hits = self._strike(case, life, Scene(present, folder, self.usual_s, random, self._tell), feeding)
                outcome.hits += hits
                outcome.lives += 1
                present.until(present.done)
                outcome.hits += Counter({"batch in parts": present.count("parts")})
                self._tell(f"{'done' if present.done() else 'ended'} after {present.batches()} batches")
                self._check_end(present, disturbed=hits.total() > 0)
                outcome.ended = present.done()
                if outcome.ended and (number == last or not case.has_tail):
                    return
            finally:
                shutil.copy(present.log_file, folder / f"life-{outcome.lives}.log")
                self._put_back(present)
        raise Failed(f"did not come to an end in {len(case.lives) + AGAIN} lives, {AGAIN + 1} of them in peace")

    def _strike(self, case: Case, life: cases.Life, scene: Scene, feeding: Feeding) -> Hits:
        """Let happen what has to; a job that waits for more is killed when no more comes."""
        if not life.is_endless(case):
            return strike(life.blow, scene)
        with feeding.growing(lambda: scene.job.batches() > 0) as over:
            tired = Later(over, self.usual_s / 4)
            hits = strike(life.blow, replace(scene, tired=tired))
            scene.job.watch(tired)
            return hits + scene.hit("driver", scene.job.kill())

    def _check_end(self, present: Job, *, disturbed: bool = False) -> None:
        if not present.ended() and not present.done():
            raise Failed(f"still runs after {DEADLINE_S:g} s: {present.log()[-2_000:]}")
        if not present.done() and not disturbed:
            raise Failed(f"ended with {present.process.returncode} undisturbed: {present.log()[-3_000:]}")

    def _feed(self, case: Case, folder: Path) -> tuple[streams.Parts, Feeding]:
        folder.mkdir(exist_ok=True)
        parts = streams.parts_of(case.stream, invalid="invalid" in job.sides())
        return parts, Feeding(case, parts, folder)

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
            return Needs(life.master, (), life.fake_clock, life.cache_mb)
        if self._cluster is None:
            # For the executors of the present job, of the one that waits, and those that come in place of killed ones.
            self._cluster = LocalCluster(cores=2 * EXECUTORS + 2, classes=archive()).__enter__()
        settings = {
            **self._cluster.settings(),
            "spark.cores.max": str(EXECUTORS),
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
            **({"spark.executorEnv.SKYTIDE_CACHE_MB": life.cache_mb} if life.cache_mb else {}),
        }
        return Needs(self._cluster.url, tuple(settings.items()), life.fake_clock, life.cache_mb)

    def _start(self, needs: Needs) -> Job:
        return Job(needs, self.folder / "jobs" / str(next(self._numbers)))

    def _prepare(self, present: Job, life: cases.Life, upcoming: cases.Life | None) -> None:
        """Start the process for the next life, unless the present one is likely to be there for it."""
        needs = upcoming and self._needs(upcoming)
        survives = not isinstance(life.blow, cases.DriverBlow | cases.FillDisk) and present.lives < MAX_LIVES - 1
        if needs and not (survives and present.needs == needs) and all(each.needs != needs for each in self._waiting):
            self._waiting.append(self._start(needs))

    def _take(self, needs: Needs) -> Job:
        """Return a process that waits for orders."""
        for each in self._waiting:
            if each.needs == needs:
                self._waiting.remove(each)
                return each
        return self._start(needs)

    def _put_back(self, present: Job) -> None:
        """Let a process wait for another life if it has ended this one well."""
        if present.ended() or not present.done() or present.lives >= MAX_LIVES:
            present.end()
            return
        self._waiting.insert(0, present)
        for surplus in self._waiting[MAX_WAITING:]:
            surplus.end()
        del self._waiting[MAX_WAITING:]
