"""What an experiment is: pieces of work, the conclusions from their rows, and a picture."""

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from skytide_lab.experiments.verdict import Claim, Verdict, in_a_line, together

Row = dict[str, Any]
Piece = tuple[Any, ...]
SEEDS = tuple(range(5))


@dataclass(frozen=True)
class Findings:
    """The results of an experiment: its claims, and notes on them."""

    claims: Sequence[Claim]
    notes: str = ""
    """Where the experiment differs from the paper's, and why a claim may not hold."""


class Experiment(ABC):
    """One file per experiment; derive from this, and name the module in `skytide_lab.experiments.catalogue`.

    A module has `EXPERIMENT`, and `TOY`, the same experiment at a small size, which a test runs. Rows follow from the piece alone, and
    findings from the rows alone: so pieces can run side by side, and a test can check that claims do not hold on rows that contradict them.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    """The figure or table of the paper."""
    question: ClassVar[str]
    seconds: ClassVar[float] = 0.0
    alone_seconds: ClassVar[float] = 0.0
    """How long all pieces take on one core, and how long those that run alone take: for the progress bar."""

    def pieces(self) -> Sequence[Piece]:
        """Return the arguments of `play`, one tuple per independent piece of work, the longest first."""
        return []

    def alone(self) -> Sequence[Piece]:
        """Return the arguments of pieces that must run alone, as time is measured or Spark takes all cores."""
        return []

    @abstractmethod
    def play(self, *piece: Any) -> list[Row]:
        """Return the rows of a piece."""

    @abstractmethod
    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Return the findings about the paper's claims, from the rows of all pieces in their order."""

    @abstractmethod
    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw the rows as the paper does."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an experiment; as a text, one line."""

    id: str
    verdict: Verdict
    found: str
    claims: Sequence[Claim]
    notes: str

    def __str__(self) -> str:
        """Return the line."""
        return f"{self.id} {self.verdict}: {self.found}"


def finish(experiment: Experiment, rows: Sequence[Row], out: Path, seconds: float) -> Outcome:
    """Write the table, picture and verdict of an experiment to a folder, and return its outcome."""
    out.mkdir(parents=True, exist_ok=True)
    findings = experiment.conclude(rows)
    with (out / f"{experiment.id}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    figure = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    experiment.draw(rows, figure)
    figure.savefig(out / f"{experiment.id}.png", dpi=110)
    claims = findings.claims
    outcome = Outcome(experiment.id, together(claims), in_a_line(claims), claims, findings.notes)
    record = {
        "id": outcome.id,
        "verdict": outcome.verdict,
        "found": outcome.found,
        "seconds": seconds,
        "title": experiment.title,
        "source": experiment.source,
        "question": experiment.question,
        "claims": [{"paper": c.paper, "found": c.found, "verdict": c.verdict, "why": c.why} for c in claims],
        "notes": findings.notes,
    }
    (out / f"{experiment.id}.json").write_text(json.dumps(record, indent=1) + "\n")
    return outcome
