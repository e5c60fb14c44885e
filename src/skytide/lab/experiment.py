"""What an experiment is: a table, a picture, and for each claim of a paper what was measured instead."""

import csv
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

Row = dict[str, Any]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Claim:
    """What a paper says, and what was found here."""

    paper: str
    found: str
    holds: bool


@dataclass(frozen=True)
class Findings:
    """What came of an experiment."""

    rows: Sequence[Row]
    claims: Sequence[Claim]
    notes: str = ""
    """Where the experiment differs from the paper's, and why something may not hold."""


class Experiment(ABC):
    """One file an experiment; derive from this, and name it in `skytide.lab.catalogue`."""

    id: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    """The figure or table of the paper."""

    @abstractmethod
    def measure(self, tell: Progress) -> Findings:
        """Measure, telling how far it is."""

    @abstractmethod
    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw the rows as the paper does."""


@dataclass(frozen=True)
class Verdict:
    """The outcome in a line."""

    id: str
    holds: bool
    said: str
    seconds: float

    def __str__(self) -> str:
        """Give the line."""
        return f"{self.id} {'holds' if self.holds else 'does not hold'}: {self.said}"


def perform(experiment: Experiment, out: Path, tell: Progress) -> Verdict:
    """Run an experiment, and write table, picture and verdict below a folder."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    findings = experiment.measure(tell)
    seconds = time.perf_counter() - began
    with (out / f"{experiment.id}.csv").open("w", newline="") as file:
        names = list(dict.fromkeys(name for row in findings.rows for name in row))
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(findings.rows)
    figure = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    experiment.draw(findings.rows, figure)
    figure.suptitle(f"{experiment.id}: {experiment.title}")
    figure.savefig(out / f"{experiment.id}.png", dpi=110)
    failed = [claim for claim in findings.claims if not claim.holds]
    said = "; ".join(claim.found for claim in failed or findings.claims)
    verdict = Verdict(experiment.id, not failed, said, seconds)
    record = {
        **asdict(verdict),
        "title": experiment.title,
        "source": experiment.source,
        "claims": [asdict(claim) for claim in findings.claims],
        "notes": findings.notes,
    }
    (out / f"{experiment.id}.json").write_text(json.dumps(record, indent=1) + "\n")
    for claim in findings.claims:
        tell(f"{'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.paper}\n    here: {claim.found}")
    if findings.notes:
        tell(f"note: {findings.notes}")
    tell(f"{seconds:.0f} s; {out / experiment.id}.csv and .png")
    return verdict
