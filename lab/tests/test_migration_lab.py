"""X10 at toy size: a hundredth of the tuples, with all measures and claims."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from skytide_lab.experiments import x10_migration as x10
from skytide_lab.experiments.experiment import Row
from skytide_lab.sim.migration import PROTOCOLS


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    small = {"BEFORE_HZ": 3e3, "AFTER_HZ": 4e3, "KEYS": 400, "END_S": 33.0, "INSERT_S": 1e-4, "SEEDS": range(3)}
    for name, value in small.items():
        monkeypatch.setattr(x10, name, value)
    for name in ("VARIANTS", "BEYOND"):
        slower = {
            key: replace(each, replica_hz=each.replica_hz / 100, route_s=each.route_s * 100)
            for key, each in getattr(x10, name).items()
        }
        monkeypatch.setattr(x10, name, slower)
    return [row for name in (*x10.VARIANTS, *x10.BEYOND) for seed in x10.SEEDS for row in x10.simulate((name, seed))]


def test_all_is_measured_and_each_claim_is_judged(rows: list[Row]) -> None:
    measured = [row for row in rows if row["figure"] == "measures"]
    assert {row["variant"] for row in measured} == {*x10.VARIANTS, *x10.INTERVALS, *x10.BEYOND}
    assert {row["protocol"] for row in measured} == set(PROTOCOLS)
    for row in measured:
        assert row["worst_ms"] >= row["peak_ms"] > 0
        assert row["moved_load"] == pytest.approx(0.25 if row["variant"] == x10.REBALANCED else 0.8, abs=0.1)
    by = {(row["variant"], row["protocol"], row["seed"]): row for row in measured}
    for seed in x10.SEEDS:  # the first phase is as long for all
        assert len({by[x10.CHOSEN, each, seed]["first_ms"] for each in PROTOCOLS}) == 1
        assert by[x10.CHOSEN, x10.R_BLK, seed]["staying_ms"] > by[x10.CHOSEN, x10.S_BLK, seed]["staying_ms"]
    judged = x10.claims(rows)
    assert len(judged) == 7
    assert all("nan" not in claim.found for claim in judged)
    assert "It leaves open" in x10.notes(rows)
    figure = Figure()
    x10.EXPERIMENT.draw(rows, figure)
    assert len(figure.axes) == 4


def test_a_difference_is_sure_beyond_two_standard_errors() -> None:
    base = np.array([10.0, 20.0, 30.0])
    assert x10.significantly_more(base + np.array([1.0, 1.1, 0.9]), base)
    assert not x10.significantly_more(base + np.array([1.0, -0.9, 0.1]), base)
    assert not x10.significantly_more(base, base + 1)
