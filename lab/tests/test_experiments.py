"""Every experiment runs, at toy size, and each of its claims can fail: a claim that holds whatever is measured says nothing."""

import random
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest
from lab_support.experiments import play_all

from skytide_lab.experiments.catalogue import MODULES
from skytide_lab.experiments.experiment import Experiment, Row, finish
from skytide_lab.experiments.verdict import HOLDS, Claim

pytestmark = pytest.mark.long
CANNOT_BE = (ArithmeticError, AttributeError, KeyError, IndexError, StopIteration, TypeError, ValueError, AssertionError)
"""The errors of concluding from a table that no experiment could have produced."""


def toy(name: str) -> Experiment:
    made = import_module(f"skytide_lab.experiments.{MODULES[name]}").TOY
    assert isinstance(made, Experiment)
    return made


def measures(rows: Sequence[Row]) -> list[str]:
    """Return the columns with numbers that may differ."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if any(isinstance(row.get(name), (bool, int, float)) for row in rows) and name != "seed"]


def changed(rows: Sequence[Row], name: str, change: Callable[[list[float]], Sequence[float]]) -> list[Row]:
    """Return rows with other numbers in a column."""
    having = [row for row in rows if isinstance(row.get(name), (bool, int, float))]
    values = iter(change([row[name] for row in having]))
    return [{**row, name: next(values)} if isinstance(row.get(name), (bool, int, float)) else row for row in rows]


def shuffled(seed: int) -> Callable[[list[float]], list[float]]:
    return lambda values: random.Random(seed).sample(values, len(values))


def tables_of_guilty_models(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield what other models would have measured: nothing, far more, the opposite, or anything, one column at a time."""
    for name in measures(rows):
        for factor in (0.0, 0.3, 3.0, 1e4, -1.0):
            yield changed(rows, name, lambda values, factor=factor: [factor * value for value in values])  # type: ignore[misc]
        yield changed(rows, name, lambda values: values[::-1])
        yield changed(rows, name, lambda values: [max(values) + min(values) - value for value in values])
        yield changed(rows, name, lambda values: [not value for value in values])
        for seed in range(6):
            yield changed(rows, name, shuffled(seed))


def law_claims_can_fail(experiment: Experiment, rows: Sequence[Row]) -> None:
    claims = experiment.conclude(rows).claims
    failed = {number for number, claim in enumerate(claims) if claim.verdict is not HOLDS}
    for table in tables_of_guilty_models(rows):
        if len(failed) == len(claims):
            break
        try:
            found: Sequence[Claim] = experiment.conclude(table).claims
        except CANNOT_BE:
            continue
        failed |= {number for number, claim in enumerate(found) if claim.verdict is not HOLDS}
    always = [claim.paper for number, claim in enumerate(claims) if number not in failed]
    assert not always, f"these hold whatever is measured: {always}"


@pytest.mark.parametrize("name", MODULES)
def test_an_experiment_runs_and_its_claims_can_fail(name: str, tmp_path: Path, data_dir: Path) -> None:
    experiment = toy(name)
    rows = play_all(experiment)
    outcome = finish(experiment, rows, tmp_path, 0.0)
    assert outcome.claims and str(outcome).startswith(f"{name} {outcome.verdict}: ")
    assert all(claim.found and claim.paper for claim in outcome.claims)
    assert (tmp_path / f"{name}.png").stat().st_size > 1_000
    law_claims_can_fail(experiment, rows)


def test_a_claim_that_cannot_fail_is_caught() -> None:
    class Boasting(type(toy("F3"))):  # type: ignore[misc]
        def conclude(self, rows: Sequence[Row]):  # type: ignore[no-untyped-def]
            findings = super().conclude(rows)
            return type(findings)([Claim("it always works", "it does", True)], "")

    boasting = Boasting(seeds=(0,), length_s=16)
    with pytest.raises(AssertionError, match="hold whatever is measured"):
        law_claims_can_fail(boasting, play_all(boasting))
