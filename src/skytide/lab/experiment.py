"""What an experiment is: pieces of work, what is concluded from their rows, and a picture."""

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from skytide.lab.verdict import Claim, Verdict, in_a_line, together

Row = dict[str, Any]
Piece = tuple[Any, ...]
SEEDS = tuple(range(5))


@dataclass(frozen=True)
class Findings:
    """What came of an experiment."""

    claims: Sequence[Claim]
    notes: str = ""
    """Where the experiment differs from the paper's, and why something may not hold."""


class Experiment(ABC):
    """One file per experiment; derive from this, and name the module in `skytide.lab.catalogue`.

    A module has `EXPERIMENT`, and `TOY`, the same one with little to do, which a test runs. Rows follow from the piece alone, and findings from
    the rows alone: so pieces can be played side by side, and a test can show rows to the claims that must not hold.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    """The figure or table of the paper."""
    question: ClassVar[str]
    seconds: ClassVar[float] = 0.0
    alone_seconds: ClassVar[float] = 0.0
    """How long all pieces take on one core, and those that run alone: for the bar that shows how far a run is."""

    def pieces(self) -> Sequence[Piece]:
        """Return the arguments of `play`, one tuple for each piece of work that needs no other; those that take longest first."""
        return []

    def alone(self) -> Sequence[Piece]:
        """Return the arguments of pieces beside which nothing else may run, as time is measured or Spark takes all cores."""
        return []

    @abstractmethod
    def play(self, *piece: Any) -> list[Row]:
        """Return the rows of a piece."""

    @abstractmethod
    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Return what the rows of all pieces, in their order, say about the paper's claims."""

    @abstractmethod
    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw the rows as the paper does."""


@dataclass(frozen=True)
class Outcome:
    """What became of an experiment, in a line."""

    id: str
    verdict: Verdict
    found: str
    claims: Sequence[Claim]
    notes: str

    def __str__(self) -> str:
        """Return the line."""
        return f"{self.id} {self.verdict}: {self.found}"


def finish(experiment: Experiment, rows: Sequence[Row], out: Path, seconds: float) -> Outcome:
    """Conclude, and write table, picture and verdict below a folder."""
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
