"""Another sink after a batch that was cut off: no result is lost, and none comes twice."""

import re
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.engine import Collected, InProcess, micros, plan_of
from support.remedies import WINDOWS, Row, by_window, rows_of, stream

from skytide.cli import main
from skytide.errors import InvalidInput
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure
from skytide.spark.engine.engine import Engine
from skytide.spark.sinks.base import Staged
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks

QUERY = Aggregate((Measure.parse("sum(id) AS total"), Measure.parse("count(*) AS n")))
DATA = stream()
EXPECTED = by_window(rows_of(DATA), lambda rows: (sum(row["id"] for row in rows), len(rows)))
CUT = 2


class CutOff(Parquet):
    """A sink whose process dies before or after it has published a batch."""

    published = False

    def publish(self, sequence: int, staged: Staged) -> None:
        if sequence < CUT or self.published:
            super().publish(sequence, staged)
        if sequence >= CUT:
            raise ConnectionError("cut off")


class Refusing(Collected):
    """A function that gets nothing from a batch on."""

    def __call__(self, results: Any, number: int) -> None:
        if number >= CUT:
            raise ConnectionError("cut off")
        super().__call__(results, number)


def run(folder: Path, results: Any, batches: range, flush: bool = False) -> None:
    """Start, run batches, and stop."""
    plan = plan_of(QUERY, f"{folder}/skytide", WINDOWS, FixedSlack(0))
    try:
        engine = Engine(*plan, Sinks(results))
        for number in batches:
            engine.run_batch(InProcess(), DATA[number], number)
        if flush:
            engine.flush(InProcess())
    finally:
        plan.store.release()


def in_folder(folder: Path) -> list[Row]:
    return ds.dataset(folder, format="parquet").to_table().to_pylist()


def found(rows: list[Row]) -> list[tuple[int, tuple[int, int]]]:
    return sorted((micros(row["window_start"]), (row["total"], row["n"])) for row in rows)


@pytest.mark.parametrize("remedy", ["the old sink", "back"])
@pytest.mark.parametrize("other", ["function", "other path"])
@pytest.mark.parametrize("published", [False, True], ids=["staged", "published"])
def test_results_that_wait_in_a_folder_are_not_left_there(tmp_path: Path, published: bool, other: str, remedy: str) -> None:
    cut_off = CutOff(tmp_path / "out")
    cut_off.published = published
    with pytest.raises(ConnectionError):
        run(tmp_path, cut_off, range(CUT + 1))
    sink: Any = Collected() if other == "function" else Parquet(tmp_path / "other")
    for _ in range(2):  # a start that was refused has changed nothing
        with pytest.raises(InvalidInput, match=f"batch number {CUT} was cut off, .* in file://{tmp_path}/out") as refused:
            run(tmp_path, sink, range(0))
    first = CUT
    if remedy == "the old sink":
        assert 'start once more with the sink "parquet" and that path' in refused.value.remedy
        run(tmp_path, Parquet(tmp_path / "out"), range(CUT, CUT + 1))
        first = CUT + 1
    else:
        (command,) = re.findall("`skytide (.*)`", refused.value.remedy)
        assert main(command.split()) == 0
    run(tmp_path, sink, range(first, len(DATA)), flush=True)
    new = sink.rows() if isinstance(sink, Collected) else in_folder(tmp_path / "other")
    assert found(in_folder(tmp_path / "out") + new) == sorted(EXPECTED.items())


def test_a_folder_that_was_moved_has_its_results_with_it(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        run(tmp_path, CutOff(tmp_path / "out"), range(CUT + 1))
    (tmp_path / "out").rename(tmp_path / "moved")
    run(tmp_path, Parquet(tmp_path / "moved"), range(CUT, len(DATA)), flush=True)
    assert found(in_folder(tmp_path / "moved")) == sorted(EXPECTED.items())


def test_the_old_sink_is_the_one_of_the_latest_start(tmp_path: Path) -> None:
    run(tmp_path, Parquet(tmp_path / "out"), range(1))
    run(tmp_path, Parquet(tmp_path / "second"), range(1, CUT))
    with pytest.raises(ConnectionError):
        run(tmp_path, CutOff(tmp_path / "out"), range(CUT, CUT + 1))
    with pytest.raises(InvalidInput, match=f"in file://{tmp_path}/out\\b"):
        run(tmp_path, Parquet(tmp_path / "second"), range(0))


def test_a_folder_gets_what_a_function_did_not(tmp_path: Path) -> None:
    function = Refusing()
    with pytest.raises(ConnectionError):
        run(tmp_path, function, range(CUT + 1))
    run(tmp_path, Parquet(tmp_path / "out"), range(CUT, len(DATA)), flush=True)
    assert found(function.rows() + in_folder(tmp_path / "out")) == sorted(EXPECTED.items())
