"""The laboratory: verdicts, tables, pictures and the page of all of them."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab_support.experiments import play_all
from matplotlib.figure import Figure

from skytide.cli import main
from skytide.errors import InvalidInput
from skytide_lab.experiments import calibrate, report
from skytide_lab.experiments.catalogue import MODULES, experiment
from skytide_lab.experiments.experiment import Experiment, Findings, Outcome, Piece, Row, finish
from skytide_lab.experiments.report import write_report
from skytide_lab.experiments.runner import run
from skytide_lab.experiments.verdict import HOLDS, NOT, OPEN, PART, Claim, Verdict, in_a_line, together
from skytide_lab.sim import Costs, known_costs


@dataclass(frozen=True)
class Doubling(Experiment):
    """An experiment that is over at once."""

    factor: float = 2.0
    id, title, source, question = "X0", "doubling", "a paper, Fig. 1", "does it <double>?"

    def pieces(self) -> Sequence[Piece]:
        return [(x,) for x in range(4)]

    def play(self, *piece: Any) -> list[Row]:
        return [{"x": piece[0], "y": self.factor * piece[0]}]

    def conclude(self, rows: Sequence[Row]) -> Findings:
        growth = rows[-1]["y"] / rows[-1]["x"]
        return Findings([Claim("it doubles", f"it grows {growth:g} times", growth == 2, "made <so>")], "made <up>")

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        figure.subplots().plot([row["x"] for row in rows], [row["y"] for row in rows])


@dataclass(frozen=True)
class AloneDoubling(Doubling):
    """The same, with nothing beside it."""

    id = "S0"

    def pieces(self) -> Sequence[Piece]:
        return []

    def alone(self) -> Sequence[Piece]:
        return super().pieces()


@pytest.mark.parametrize(
    ("factor", "line"),
    [
        (2.0, "X0 holds: it grows 2 times"),
        (3.0, "X0 does not hold: 0 of 1 claims hold; does not hold: it grows 3 times (made <so>)"),
    ],
)
def test_an_experiment_gives_a_table_a_picture_and_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, line: str
) -> None:
    made = Doubling(factor)
    outcome = finish(made, play_all(made), tmp_path, 1.0)
    assert str(outcome) == line
    assert (outcome.verdict is HOLDS) == (factor == 2)
    assert [float(row["y"]) for row in csv.DictReader((tmp_path / "X0.csv").read_text().splitlines())] == [
        0,
        factor,
        2 * factor,
        3 * factor,
    ]
    assert (tmp_path / "X0.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "X0.json").read_text())["claims"][0]["paper"] == "it doubles"
    monkeypatch.setattr(report, "MODULES", {"X0": ""})
    page = write_report(tmp_path).read_text()
    assert ("✗ does not hold" in page) == (factor != 2)
    assert "made &lt;up&gt;" in page and "does it &lt;double&gt;?" in page
    assert "data:image/png;base64," in page
    assert "http" not in page  # nothing is fetched from elsewhere


def test_pieces_side_by_side_give_the_rows_of_pieces_in_turn(tmp_path: Path) -> None:
    reported: list[str] = []

    def on_outcome(outcome: Outcome, seconds: float) -> None:
        reported.append(outcome.id)

    outcomes = run([AloneDoubling(), Doubling()], tmp_path, on_outcome, cores=2)
    assert [str(outcome) for outcome in outcomes] == ["S0 holds: it grows 2 times", "X0 holds: it grows 2 times"]
    assert reported == ["X0", "S0"]  # those that need the machine for themselves come last
    assert (tmp_path / "X0.csv").read_text() == (tmp_path / "S0.csv").read_text()


@pytest.mark.parametrize(
    ("verdicts", "of_all"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, NOT], PART),
        ([PART, NOT], PART),
        ([NOT, NOT], NOT),
        ([OPEN, OPEN], OPEN),
        ([OPEN, NOT], NOT),
        ([OPEN, HOLDS], PART),
    ],
)
def test_an_experiment_holds_as_far_as_its_claims_do(verdicts: list[Verdict], of_all: Verdict) -> None:
    claims = [Claim("a claim", f"found {number}", verdict) for number, verdict in enumerate(verdicts)]
    assert together(claims) is of_all
    assert all(
        (f"found {number}" in in_a_line(claims)) == (verdict is not HOLDS or of_all is HOLDS)
        for number, verdict in enumerate(verdicts)
    )


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no experiment has been run; run some first: skytide lab run X1"):
        write_report(tmp_path)


def test_all_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list"]) == 0
    listed = capsys.readouterr().out
    assert len(listed.splitlines()) == len(MODULES), "one line per experiment, however long"
    for name in MODULES:
        known = experiment(name)
        assert known.id == name
        assert known.title in listed
        assert known.question.endswith("?")
    assert main(["lab", "run", "X99"]) == 1
    assert "experiment 'X99': there is no such experiment; choose one of X1, X2" in capsys.readouterr().err


def test_costs_are_measured_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "SIZES", (10, 100, 300))
    monkeypatch.setattr(calibrate, "MERGED", 300)
    measured = calibrate.calibrate("bnl", lambda _: None, tmp_path)
    assert Costs.load(tmp_path / "bnl.json") == measured
    by_size = measured.curves["independent"].kept_by_size
    assert by_size[10] <= 10
    assert by_size[1_000] > by_size[300]
    with pytest.raises(InvalidInput, match="algorithm='magic': not known; choose one of bnl, skytide"):
        calibrate.calibrate("magic", print)
    with pytest.raises(InvalidInput, match="make them with `skytide lab calibrate`"):
        Costs.load(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["bnl", "skytide"])
def test_costs_come_with_their_origin(name: str) -> None:
    costs = known_costs(name)
    assert "measured on" in costs.origin
    twice = costs.faster(2, "a faster machine")
    assert twice.curves["correlated"].busy_by_size[500] == pytest.approx(costs.curves["correlated"].busy_by_size[500] / 2)
    assert twice.origin.endswith("; a faster machine")


def test_a_kernel_that_scans_the_whole_result_costs_more_than_proportionally() -> None:
    """P0's data of Fig. 11 have 3.25 times the cost for twice the tuples; leaving early 2.46."""
    measured = known_costs("bnl")
    early, whole = (costs.curves["independent"].busy_by_size for costs in (measured, measured.scanning_all()))
    assert early[7_868] / early[3_934] == pytest.approx(2.46, rel=0.03)
    assert whole[7_868] / whole[3_934] == pytest.approx(3.21, rel=0.03)
