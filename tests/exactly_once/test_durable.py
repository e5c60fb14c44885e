"""What a power failure may not take: names are forced to the disk before anything counts on them. And what the driver need not read."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.engine import QUERIES, Collected, InProcess, plan_of, tuples

from skytide.lateness import FixedSlack
from skytide.spark.checkpoint import Files
from skytide.spark.engine.engine import Engine
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows

BATCHES = tuples([[[0, 150, 290]], [[310, 420]], [[510, 520, 10]]])


class Disk:
    """Records what the system is asked for: names that appear, and files and folders that are forced to the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.events: list[tuple[str, str]] = []
        fsync, replace, link = os.fsync, os.replace, os.link

        def on(what: str, path: Any) -> None:
            self.events.append((what, os.path.relpath(str(path), root)))

        def forced(number: int) -> None:
            fsync(number)
            on("forced", os.readlink(f"/proc/self/fd/{number}"))

        def named(do: Any) -> Any:
            def call(source: Any, target: Any) -> None:
                do(source, target)
                on("named", target)

            return call

        monkeypatch.setattr(os, "fsync", forced)
        monkeypatch.setattr(os, "replace", named(replace))
        monkeypatch.setattr(os, "link", named(link))

    def first(self, what: str, start: str) -> int:
        """Return when something first happened to a path that begins so."""
        return next(at for at, event in enumerate(self.events) if event[0] == what and event[1].startswith(start))

    def forced_between(self, path: str, after: int, before: int) -> bool:
        """Return whether a path was forced to the disk between two events."""
        return ("forced", path) in self.events[after + 1 : before]


def engine_of(folder: Path, sinks: Sinks) -> Engine:
    return Engine(*plan_of(QUERIES[0], str(folder), Windows(100, 100), FixedSlack(0)), sinks)


def test_results_and_the_note_that_they_are_out_survive_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(tmp_path / "state", Sinks(Parquet(tmp_path / "out")))
    engine.run_batch(InProcess(), BATCHES[0], 0)
    disk = Disk(monkeypatch, tmp_path)
    engine.run_batch(InProcess(), BATCHES[1], 1)
    staged, recorded = disk.first("named", "out/_skytide/"), disk.first("named", "state/manifests/")
    published, noted = disk.first("named", "out/batch=1/"), disk.first("named", "state/emitted")
    assert staged < recorded < published < noted
    assert disk.forced_between("out/_skytide", staged, recorded)
    assert disk.forced_between("out/batch=1", published, noted)
    assert any(event[0] == "forced" and event[1].startswith("state/.emitted") for event in disk.events[:noted])
    assert disk.forced_between("state", noted, len(disk.events))


class NotHere(InProcess):
    """Jobs whose frames stay elsewhere: a sink gets the names of the files."""

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> Any:
        return pa.table({"files": list(files)})


@pytest.mark.parametrize("kind", ["late", "invalid"])
def test_rows_for_a_function_are_not_read_on_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    aside = Collected()
    engine = engine_of(tmp_path, Sinks(Collected(), **{kind: aside}))
    read, whole = [], Files.read_table

    def noticed(files: Files, name: str) -> pa.Table:
        read.append(name)
        return whole(files, name)

    times = pa.array([510, None, 10], pa.timestamp("us", "UTC"))
    for number in (0, 1):
        engine.run_batch(InProcess(), BATCHES[number], number)
    monkeypatch.setattr(Files, "read_table", noticed)
    engine.run_batch(NotHere(), [BATCHES[2][0].set_column(0, "ts", times)], 2)
    assert [name.split("/")[0] for table in aside.batches.values() for name in table["files"].to_pylist()] == [kind]
    assert not [name for name in read if name.startswith(kind)]
