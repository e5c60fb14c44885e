"""The state of operators between batches: what is kept is what was returned, and what a user does with it disturbs nobody."""

import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.engine import COLUMNS, InProcess, Outputs
from support.keyed import plan_of, step

from skytide.errors import InvalidInput, SkytideError
from skytide.keyed import CountWindows, KeyedStep, Operator
from skytide.lateness import FixedSlack
from skytide.spark.engine.engine import Engine

ZEROS = np.zeros(1, np.int64)


class InPlace:
    """Counts rows in an array that it changes, which is the same for all keys at first, and returns as a result."""

    def open(self, key: Any) -> Any:
        return ZEROS

    def process(self, state: Any, rows: pa.Table) -> Any:
        state += rows.num_rows
        return state, {"n": state}


class Growing:
    """Adds to a bytearray in place."""

    def open(self, key: Any) -> Any:
        return bytearray()

    def process(self, state: Any, rows: pa.Table) -> Any:
        state += b"." * rows.num_rows
        return state, {"n": [len(state)]}


class Masked:
    """Returns masked arrays."""

    def __init__(self, as_state: bool) -> None:
        self.as_state = as_state

    def open(self, key: Any) -> Any:
        return None

    def process(self, state: Any, rows: pa.Table) -> Any:
        some = np.ma.array(rows["id"].to_numpy(), mask=rows["id"].to_numpy() % 2 == 0)
        return some if self.as_state else None, {"n": some}


def results(made: KeyedStep, batches: int) -> list[dict[str, Any]]:
    """Return the results of batches of four rows of each of two keys."""
    out = Outputs()
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(*plan_of(made, folder, FixedSlack(0)), out.sinks)
        for number in range(batches):
            ids = np.arange(8 * number, 8 * number + 8)
            times = pa.array(ids * 1_000, pa.timestamp("us", "UTC"))
            engine.run_batch(
                InProcess(), [pa.table({"ts": times, "a": ids % 2, "b": ids.astype(float), "id": ids}, COLUMNS)], number
            )
        engine.flush(InProcess())
    return out.results.rows()


@pytest.mark.parametrize("own", [InPlace(), Growing()])
@pytest.mark.parametrize("windows", [None, CountWindows(2, 1)])
def test_state_may_be_changed_in_place(own: Any, windows: CountWindows | None) -> None:
    found = results(step(windows, None, Operator(own)), 4)
    for key in (0, 1):
        counts = [row["n"] for row in found if row["a"] == key]
        assert counts == (list(range(2, 2 * 15 + 1, 2)) if windows else sorted(counts)) and counts[-1] == (30 if windows else 16)
    assert ZEROS[0] == 0


def test_a_masked_array_is_no_state() -> None:
    with pytest.raises(SkytideError, match=r"the state of Masked is a MaskedArray; return None, .* a plain NumPy array"):
        results(step(None, None, Operator(Masked(as_state=True))), 1)


def test_what_is_masked_in_results_is_null() -> None:
    found = results(step(None, None, Operator(Masked(as_state=False))), 2)
    assert [row["n"] for row in found if row["a"] == 0] == [None] * 8
    assert [row["n"] for row in found if row["a"] == 1] == list(range(1, 16, 2))


def test_another_version_without_upgrade_is_refused_at_the_start() -> None:
    second = type("InPlace", (InPlace,), {"version": 2})
    upgraded = type("InPlace", (second,), {"upgrade": lambda self, state, version: state})
    ids = np.arange(2)
    rows = pa.table({"ts": pa.array(ids * 1_000, pa.timestamp("us", "UTC")), "a": ids, "b": ids.astype(float), "id": ids}, COLUMNS)
    with tempfile.TemporaryDirectory() as folder:

        def start(own: Any) -> Engine:
            return Engine(*plan_of(step(None, None, Operator(own)), folder, FixedSlack(0)), Outputs().sinks)

        engine = start(InPlace())
        engine.run_batch(InProcess(), [rows], 0)
        engine.flush(InProcess())
        with pytest.raises(InvalidInput, match=r"InPlace of version 2: the checkpoint .* has states that its version 1 wrote"):
            start(second())
        start(InPlace())  # the remedies
        start(upgraded())


@pytest.mark.parametrize("version", [-1, 2**32, 1.5, "2", None, True])
def test_a_version_is_a_whole_number(version: Any) -> None:
    operator = InPlace()
    operator.version = version  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="version of InPlace"):
        Operator(operator)
