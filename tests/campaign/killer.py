"""What happens to a life: each blow strikes at its moment, and reports what it hit."""

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from random import Random

from campaign import cases
from campaign.processes import SOURCE, WORKER, Job, executors, kill

Hits = Counter[str]
NO_ROOM = ("No space left on device", "disk is full", "disk I/O error")


@dataclass(frozen=True)
class Scene:
    """Where a blow strikes."""

    job: Job
    folder: Path
    usual_s: float
    """How long an undisturbed life takes."""
    random: Random
    tell: Callable[[str], None]
    """Called with everything that is hit."""
    tired: Callable[[], bool] = lambda: False
    """Whether not to wait any longer: nothing more will come to a job that would wait for it."""

    def hit(self, name: str, whether: bool) -> Hits:
        """Return a count of something if it was hit."""
        if whether:
            self.tell(f"{name} after {self.job.batches()} batches")
        return Counter({name: int(whether)})


class Silent(Exception):
    """Something failed without saying why."""


@singledispatch
def strike(blow: object, scene: Scene) -> Hits:
    """Strike a blow, and return what it hit; without a blow nothing happens."""
    return Counter()


@strike.register
def _(blow: cases.KillDriver, scene: Scene) -> Hits:
    scene.job.wait(blow.after * scene.usual_s)
    return scene.hit("driver", scene.job.kill())


@strike.register
def _(blow: cases.KillDriverAtFile, scene: Scene) -> Hits:
    changed = changes(scene.folder)
    came = scene.job.watch(lambda: changed() >= blow.changes or scene.tired()) and not scene.tired()
    return scene.hit("driver at a file" if came else "driver", scene.job.kill())


@strike.register
def _(blow: cases.KillDriverInSink, scene: Scene) -> Hits:
    scene.job.watch(scene.tired)  # it does so itself
    return scene.hit("driver in a sink", scene.job.process.poll() == -signal.SIGKILL)


@strike.register
def _(blow: cases.KillDriverAtChange, scene: Scene) -> Hits:
    came = scene.job.watch(lambda: scene.job.count("change") >= blow.changes or scene.tired()) and not scene.tired()
    scene.job.wait(blow.after * scene.usual_s)
    return scene.hit("driver at a change" if came else "driver", scene.job.kill())


@strike.register
def _(blow: cases.KillWorkers, scene: Scene) -> Hits:
    hits: Hits = Counter()
    module, name = (SOURCE, "source") if blow.source else (WORKER, "worker")
    for _ in batch_by_batch(blow.shares, scene):
        if scene.job.watch(lambda: bool(scene.job.workers(module)), scene.usual_s):
            found = scene.job.workers(module)
            hits += scene.hit(name, bool(found) and kill(scene.random.choice(found)))
    return hits


@strike.register
def _(blow: cases.KillExecutors, scene: Scene) -> Hits:
    hits: Hits = Counter()
    application, name = scene.job.application, "executor between stages" if blow.between_stages else "executor"
    for _ in batch_by_batch(blow.shares, scene):
        if not scene.job.watch(lambda: len(executors(application)) > 1):  # Spark gives up on a task that loses four, so one stays
            break
        found, stages = executors(application), scene.job.count("stage")
        if not blow.between_stages or scene.job.until(lambda: scene.job.count("stage") > stages):  # noqa: B023
            hits += scene.hit(name, kill(scene.random.choice(found)))
    return hits


@strike.register
def _(blow: cases.JumpClock, scene: Scene) -> Hits:
    hits: Hits = Counter()
    for jump, _ in zip(blow.seconds, batch_by_batch(blow.shares, scene), strict=False):
        set_clock(scene.job.clock, jump)
        hits += scene.hit("clock jump", True)
    return hits


@strike.register
def _(blow: cases.FillDisk, scene: Scene) -> Hits:
    changed = changes(scene.folder)
    if not scene.job.watch(lambda: changed() >= blow.changes):
        return Counter()
    ballast = scene.folder / "ballast"
    try:
        fill(ballast)
        scene.job.until(lambda: False)
    finally:
        ballast.unlink()
    failed = scene.job.ended() and scene.job.process.returncode != 0
    if failed and not any(words in scene.job.log() for words in NO_ROOM):
        raise Silent(f"the disk was full, and the log does not say so: {scene.job.log()[-2_000:]}")
    return scene.hit("full disk", failed)


def batch_by_batch(shares: tuple[float, ...], scene: Scene) -> Iterator[None]:
    """Yield some time after the beginning of each of the next batches, as long as the job runs."""
    for share in shares:
        if not scene.job.wait(share * scene.usual_s) or scene.tired():
            return
        before = scene.job.batches()
        yield
        scene.job.watch(lambda: scene.job.batches() > before or scene.tired())  # noqa: B023


def changes(folder: Path) -> Callable[[], int]:
    """Return a function that counts the files that have appeared, changed or gone so far, between its calls."""
    seen, count = snapshot(folder), 0

    def look() -> int:
        nonlocal seen, count
        now = snapshot(folder)
        count += len(now ^ seen)
        seen = now
        return count

    return look


def snapshot(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Return the files that a job has written below a folder, with their sizes and times."""
    found = set()
    for place, names in ((place, names) for below in ("checkpoint", "out") for place, _, names in os.walk(folder / below)):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(os.path.join(place, name))
                found.add((os.path.join(place, name), status.st_size, status.st_mtime_ns))
    return frozenset(found)


def set_clock(file: Path, seconds: int) -> None:
    """Set how wrong a clock is."""
    draft = file.with_suffix(".draft")
    draft.write_text(f"{seconds:+d}\n")
    draft.rename(file)


def fill(ballast: Path) -> None:
    """Write until nothing more fits."""
    with ballast.open("wb", buffering=0) as out:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    out.write(b"\0" * size)
