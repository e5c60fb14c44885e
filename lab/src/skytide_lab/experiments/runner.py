"""Runs experiments: most pieces side by side, then those that need the machine for themselves, one by one."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from skytide_lab.experiments.experiment import Experiment, Outcome, Piece, Row, finish

SOON_S = 90.0  # below this, the time left is shown in seconds, otherwise in minutes


@dataclass
class Pace:
    """How long everything will still take: the expected time, corrected by how long the finished pieces took."""

    left_s: float
    """Expected time of all unfinished pieces on one core."""
    cores: int
    expected_s: float = 0.0
    took_s: float = 0.0
    _estimate: tuple[float, float] | None = field(default=None, repr=False)

    def done(self, expected_s: float, took_s: float) -> None:
        """Take a finished piece into account."""
        self.left_s -= expected_s
        self.expected_s += expected_s
        self.took_s += took_s
        self._estimate = None

    def remaining_s(self, now_s: float) -> float:
        """Return the time left; it runs down between two pieces.

        >>> pace = Pace(left_s=100, cores=2)
        >>> pace.done(expected_s=10, took_s=20)
        >>> pace.remaining_s(now_s=5.0), pace.remaining_s(now_s=6.0)
        (90.0, 89.0)
        """
        factor = self.took_s / self.expected_s if self.expected_s else 1.0
        if self._estimate is None:
            self._estimate = (now_s, self.left_s * factor / self.cores)
        since_s, left_s = self._estimate
        return max(0.0, left_s - (now_s - since_s))


class Remaining(ProgressColumn):
    """The time left, as a column of a progress bar."""

    def __init__(self, pace: Pace) -> None:
        """Show the time left by a pace."""
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> Text:
        """Return the time left in words."""
        left_s = self._pace.remaining_s(task.get_time())
        return Text(f"about {left_s:.0f} s left" if left_s < SOON_S else f"about {left_s / 60:.0f} min left", style="cyan")


def run(
    experiments: Sequence[Experiment], out: Path, on_outcome: Callable[[Outcome, float], None], *, cores: int | None = None
) -> list[Outcome]:
    """Run experiments, call `on_outcome` with each outcome as soon as it is known, and return all outcomes in the order of the experiments."""
    cores = cores or os.cpu_count() or 1
    outcomes: dict[str, Outcome] = {}
    pace = Pace(sum(each.seconds + cores * each.alone_seconds for each in experiments), cores)
    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), Remaining(pace)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = bar.add_task("", total=pace.left_s)
        later: list[tuple[Experiment, list[Row], float]] = []

        def end(experiment: Experiment, rows: list[Row], seconds: float) -> None:
            outcomes[experiment.id] = finish(experiment, rows, out, seconds)
            on_outcome(outcomes[experiment.id], seconds)

        def step(experiment: Experiment, expected_s: float, took_s: float) -> None:
            pace.done(expected_s, took_s)
            bar.update(shown, advance=expected_s, description=experiment.id)

        for experiment, rows, seconds in _side_by_side(experiments, cores, step):
            if experiment.alone():
                later.append((experiment, rows, seconds))
            else:
                end(experiment, rows, seconds)
        for experiment, rows, seconds in later:
            bar.update(shown, description=experiment.id)
            more, took_s = _played(experiment, experiment.alone())
            step(experiment, cores * experiment.alone_seconds, cores * took_s)
            end(experiment, [*rows, *more], seconds + took_s)
    return [outcomes[experiment.id] for experiment in experiments]


def _side_by_side(
    experiments: Sequence[Experiment], cores: int, step: Callable[[Experiment, float, float], None]
) -> Iterator[tuple[Experiment, list[Row], float]]:
    """Run all pieces of all experiments on `cores` cores, and yield each experiment when its last piece is done."""
    pieces = {one.id: list(one.pieces()) for one in experiments}
    yield from ((one, [], 0.0) for one in experiments if not pieces[one.id])
    experiments = [one for one in experiments if pieces[one.id]]
    if not experiments:
        return
    found: dict[str, dict[int, list[Row]]] = {one.id: {} for one in experiments}
    spent = dict.fromkeys(pieces, 0.0)
    work = sorted(
        experiments, key=lambda one: -one.seconds / len(pieces[one.id])
    )  # long pieces first: at the end, the other cores would wait for them
    with ProcessPoolExecutor(cores) as processes:
        asked: dict[Future[tuple[list[Row], float]], tuple[Experiment, int]] = {
            processes.submit(_played, one, [piece]): (one, number) for one in work for number, piece in enumerate(pieces[one.id])
        }
        try:
            for done in as_completed(asked):
                experiment, number = asked[done]
                rows, seconds = done.result()
                mine = found[experiment.id]
                mine[number] = rows
                spent[experiment.id] += seconds
                step(experiment, experiment.seconds / len(pieces[experiment.id]), seconds)
                if len(mine) == len(pieces[experiment.id]):
                    yield experiment, [row for at in sorted(mine) for row in mine[at]], spent[experiment.id]
        finally:
            for waiting in asked:
                waiting.cancel()


def _played(experiment: Experiment, pieces: Sequence[Piece]) -> tuple[list[Row], float]:
    """Return the rows of pieces, and how long they took."""
    began = time.perf_counter()
    rows = [row for piece in pieces for row in experiment.play(*piece)]
    return rows, time.perf_counter() - began
