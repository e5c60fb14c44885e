"""The laboratory: verdicts, tables, pictures and the page of all of them."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from skytide.cli import main
from skytide.errors import InvalidInput
from skytide.lab import calibrate
from skytide.lab.catalogue import MODULES, experiment
from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row, perform
from skytide.lab.report import write_report
from skytide.sim import Costs, known_costs


class Doubling(Experiment):
    """An experiment that is over at once."""

    id, title, source = "X0", "doubling", "a paper, Fig. 1"

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def measure(self, tell: Progress) -> Findings:
        tell("at it")
        rows = [{"x": x, "y": self.factor * x} for x in range(4)]
        return Findings(rows, [Claim("it doubles", f"it grows {self.factor:g} times", self.factor == 2)], "made <up>")

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        figure.subplots().plot([row["x"] for row in rows], [row["y"] for row in rows])


@pytest.mark.parametrize(("factor", "line"), [(2, "X0 holds: it grows 2 times"), (3, "X0 does not hold: it grows 3 times")])
def test_an_experiment_gives_a_table_a_picture_and_a_verdict(tmp_path: Path, factor: float, line: str) -> None:
    told: list[str] = []
    verdict = perform(Doubling(factor), tmp_path, told.append)
    assert str(verdict) == line
    assert verdict.holds == (factor == 2)
    assert [float(row["y"]) for row in csv.DictReader((tmp_path / "X0.csv").read_text().splitlines())] == [
        0,
        factor,
        2 * factor,
        3 * factor,
    ]
    assert (tmp_path / "X0.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "X0.json").read_text())["claims"][0]["paper"] == "it doubles"
    assert told[0] == "at it"
    page = write_report(tmp_path).read_text()
    assert ("does not hold" in page) == (factor != 2)
    assert "made &lt;up&gt;" in page
    assert "data:image/png;base64," in page


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no experiment has been run; run some first: skytide lab run X1"):
        write_report(tmp_path)


def test_all_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list"]) == 0
    listed = capsys.readouterr().out
    for name in MODULES:
        known = experiment(name)
        assert known.id == name
        assert known.title in listed
    assert main(["lab", "run", "X99"]) == 1
    assert "experiment 'X99': there is no such; choose one of X1, X2" in capsys.readouterr().err


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


@pytest.mark.slow
def test_an_experiment_of_the_papers_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["lab", "run", "F11", "--out", str(tmp_path)])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("F11 holds: " if status == 0 else "F11 does not hold: ")
    assert main(["lab", "report", "--out", str(tmp_path)]) == 0
