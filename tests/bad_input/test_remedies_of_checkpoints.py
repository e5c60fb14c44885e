"""The remedies of errors that a checkpoint or a sink ends a running query with, followed: every window comes out once, as an oracle says."""

import resource
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.engine import InProcess, Outputs, Plan, micros, plan_of
from support.remedies import WINDOWS, Row, by_window, found_in, goes_on, rows_of, stream, until_it_ends

from skytide.errors import SkytideError
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure
from skytide.spark.checkpoint import Store
from skytide.spark.checkpoint.back import go_back
from skytide.spark.engine.engine import Engine
from skytide.spark.sinks.function import Function
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks

QUERY = Aggregate((Measure.parse("sum(id) AS total"), Measure.parse("count(*) AS n")))
DATA = stream()


def plan_in(folder: Path) -> Plan:
    return plan_of(QUERY, f"{folder}/skytide", WINDOWS, FixedSlack(0))


def answer(rows: list[Row]) -> set[tuple[int, int]]:
    return {(sum(row["id"] for row in rows), len(rows))}


EXPECTED = by_window(rows_of(DATA), answer)


def run(folder: Path, out: Outputs, batches: range) -> Engine:
    engine = Engine(*plan_in(folder), out.sinks)
    for number in batches:
        engine.run_batch(InProcess(), DATA[number], number)
    return engine


class Failing:
    """A sink that raises until it is mended."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.fails_at = inner, 2

    def __call__(self, results: Any, number: int) -> None:
        if number >= self.fails_at:
            raise ConnectionError("the database is away")
        self.inner(results, number)


def test_a_sink_that_raises_is_mended(tmp_path: Path) -> None:
    out = Outputs()
    kept, out.sinks = out.sinks, replace(out.sinks, results=Function(Failing(out.results)))
    at = until_it_ends(plan_in(tmp_path), out, DATA, "the database is away", ConnectionError)
    out.sinks = kept
    goes_on(plan_in(tmp_path), out, DATA, at)
    assert found_in(out, "total", "n") == EXPECTED


@pytest.mark.parametrize("most_bytes", [0, 300, 900, 1_500])
def test_a_disk_without_space_is_given_some(tmp_path: Path, most_bytes: int) -> None:
    """No file may be longer: which one is too long depends on the limit."""
    out, ended = Outputs(), None
    engine, before = run(tmp_path, out, range(2)), resource.getrlimit(resource.RLIMIT_FSIZE)
    for number in range(2, len(DATA)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
        try:
            engine.run_batch(InProcess(), DATA[number], number)
        except OSError as error:
            ended = number, error
            break
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ended is not None
    goes_on(plan_in(tmp_path), out, DATA, ended[0])
    assert found_in(out, "total", "n") == EXPECTED


@pytest.mark.parametrize("remedy", ["restore", "back"])
@pytest.mark.parametrize("at", [0, 2])
def test_staged_results_that_are_gone(tmp_path: Path, remedy: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of the first batch, before which there is no state."""
    data = DATA if at else [[*DATA[0], *DATA[1]], *DATA[2:]]
    sink = Parquet(tmp_path / "out")
    sinks, plan = Sinks(sink), plan_in(tmp_path)
    engine = Engine(*plan, sinks)
    for number in range(at):
        engine.run_batch(InProcess(), data[number], number)
    with monkeypatch.context() as patch, pytest.raises(ConnectionError):
        patch.setattr(sink, "publish", lambda sequence, staged: Failing(None)(staged, sequence + 2))
        engine.run_batch(InProcess(), data[at], at)
    plan.store.release()
    (staged,) = plan.store.latest().output.results
    shutil.move(tmp_path / "out" / staged, tmp_path / "aside")
    plan = plan_in(tmp_path)
    says = rf"the unpublished results of batch number {at} are gone; restore them, or go back with `skytide checkpoint back`"
    with pytest.raises(SkytideError, match=says):
        Engine(*plan, sinks).run_batch(InProcess(), data[at], at)
    plan.store.release()
    if remedy == "restore":
        shutil.move(tmp_path / "aside", tmp_path / "out" / staged)
    else:
        go_back(tmp_path, at - 1)
    engine = Engine(*plan_in(tmp_path), sinks)
    for number in range(at, len(data)):
        engine.run_batch(InProcess(), data[number], number)
    engine.flush(InProcess())
    found = ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()
    assert sorted((micros(row["window_start"]), row["total"], row["n"]) for row in found) == sorted(
        (start, *each) for start, answers in EXPECTED.items() for each in answers
    )


def test_a_checkpoint_that_another_query_took_over(tmp_path: Path) -> None:
    """The second one goes on; the first one is given a checkpoint of its own, and has everything, too."""
    first, second, own = Outputs(), Outputs(), Outputs()
    one = run(tmp_path, first, range(2))
    second.results.batches.update(first.results.batches)
    other = run(tmp_path, second, range(2, 3))
    with pytest.raises(SkytideError, match=r"took this checkpoint over, .* start a second one with a checkpoint of its own"):
        one.run_batch(InProcess(), DATA[2], 2)
    for number in range(3, len(DATA)):
        other.run_batch(InProcess(), DATA[number], number)
    other.flush(InProcess())
    goes_on(plan_in(tmp_path / "own"), own, DATA, 0)
    assert found_in(second, "total", "n") == found_in(own, "total", "n") == EXPECTED


@pytest.mark.parametrize(("batch", "back"), [(2, 1), (4, None)], ids=["Spark is behind", "the store is behind"])
def test_notes_of_spark_that_do_not_match(tmp_path: Path, batch: int, back: int | None) -> None:
    """Spark's own notes have lost a batch, or ours have: they came from copies of different ages."""
    out = Outputs()
    out.sinks = Sinks(out.results)  # how late a window was is another number if its batch is done again
    if back is None:
        run(tmp_path, out, range(3)).store.release()
        shutil.copytree(tmp_path / "skytide", tmp_path / "copy")
        run(tmp_path, out, range(3, 4)).store.release()
        shutil.copytree(tmp_path / "skytide", tmp_path / "whole")
        shutil.rmtree(tmp_path / "skytide")
        shutil.move(tmp_path / "copy", tmp_path / "skytide")
    else:
        run(tmp_path, out, range(4)).store.release()
    plan = plan_in(tmp_path)
    with pytest.raises(SkytideError, match=f"but Spark continues with batch {batch}; .*restore the whole .* take both back"):
        Engine(*plan, out.sinks).run_batch(InProcess(), DATA[batch], batch)
    plan.store.release()
    if back is None:
        shutil.rmtree(tmp_path / "skytide")
        shutil.move(tmp_path / "whole", tmp_path / "skytide")
    else:
        go_back(tmp_path, back)
    goes_on(plan_in(tmp_path), out, DATA, batch)
    assert found_in(out, "total", "n") == EXPECTED


@pytest.mark.parametrize("damage", ["all damaged", "another version"])
def test_manifests_that_cannot_be_read(tmp_path: Path, damage: str) -> None:
    out = Outputs()
    run(tmp_path, out, range(3)).store.release()
    Store(f"{tmp_path}/skytide").files.delete(f"manifests/{0:012}.json")  # as if there had been more batches than are kept
    shutil.copytree(tmp_path / "skytide", tmp_path / "copy")
    for manifest in (tmp_path / "skytide" / "manifests").glob("*.json"):
        manifest.write_text('{"format": 99}\n' if damage == "another version" else "garbage")
    says = "restore the checkpoint folder from a copy" if damage == "all damaged" else "continue with that version"
    with pytest.raises(SkytideError, match=says):
        Engine(*plan_in(tmp_path), out.sinks)
    shutil.rmtree(tmp_path / "skytide")
    shutil.move(tmp_path / "copy", tmp_path / "skytide")
    goes_on(plan_in(tmp_path), out, DATA, 3)
    assert found_in(out, "total", "n") == EXPECTED
