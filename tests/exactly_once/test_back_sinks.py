"""Going back: what becomes of later results, in folders and in sinks that keep what they have."""

import json
from pathlib import Path

import pytest
from support.back import BATCHES, Query

from skytide.cli import main
from skytide.spark.checkpoint import Store
from skytide.spark.checkpoint.back import go_back
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.sinks.format import Format
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks


def test_other_borders_of_batches_after_going_back_give_each_window_once(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(*BATCHES)
    rows = query.starts()
    assert len(rows) == len(set(rows)) > 4
    went = go_back(query.checkpoint, 4)
    assert max(query.numbers()) == 4
    assert [sink.role for sink in went.removed] == ["results", "late"] and [str(sink) for sink in went.left] == [
        "windows (function)"
    ]
    query.run([part for batch in BATCHES[5:] for part in batch])
    assert query.starts() == rows


def test_a_start_removes_what_its_checkpoint_does_not_know(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(*BATCHES)
    rows = query.starts()
    Store(f"{query.checkpoint}/skytide").forget_after(4)  # going back was cut off, or the checkpoint is a copy of yesterday's
    assert query.starts() == rows
    query.run()
    assert max(query.numbers()) == 4
    query.run([part for batch in BATCHES[5:] for part in batch])
    assert query.starts() == rows


def test_folders_of_others_and_other_names_are_left_alone(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(*BATCHES)
    (tmp_path / "out" / "batch=7.bak").mkdir()
    (tmp_path / "late" / "batch=9").mkdir()
    (tmp_path / "late" / "_skytide" / "owner.json").write_text(json.dumps({"identity": "another"}))
    went = go_back(query.checkpoint, 4)
    assert [sink.role for sink in went.removed] == ["results"]
    assert (tmp_path / "out" / "batch=7.bak").exists() and (tmp_path / "late" / "batch=9").exists()
    assert not OwnedFolder(tmp_path / "nowhere").forget_after(0, "x", "file:///ck") and not (tmp_path / "nowhere").exists()


def test_what_may_come_twice_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = Query(tmp_path)
    query.run(*BATCHES)
    (tmp_path / "late" / "_skytide" / "owner.json").unlink()
    assert main(["checkpoint", "back", str(query.checkpoint), "--to", "5"]) == 0
    said = capsys.readouterr().out
    assert f"Later results are removed from: results (file://{tmp_path}/out)." in said
    assert f"The next start removes them from: late (file://{tmp_path}/late)" in said
    assert "still have them, and may have them twice then: windows (function)." in said
    (query.checkpoint / "skytide" / "sinks.json").unlink()
    assert main(["checkpoint", "back", str(query.checkpoint), "--to", "5"]) == 0
    assert "its sinks are not known" in capsys.readouterr().out


def test_sinks_of_earlier_starts_stay_noted_and_options_are_not(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(*BATCHES[:2])
    query.results = Parquet(tmp_path / "moved")
    query.run(*BATCHES[2:])
    noted = json.loads((query.checkpoint / "skytide" / "sinks.json").read_text())
    assert [(sink["role"], Path(sink["uri"]).name) for sink in noted if sink["role"] == "results"] == [
        ("results", "out"),
        ("results", "moved"),
    ]
    kafka = Sinks(Format("kafka", "kafka://me:pw@host", {"kafka.sasl.jaas.config": "pw"}))
    assert [str(sink) for sink in kafka.notes()] == ["results (format kafka)"]


def test_transactions_after_going_back_are_others(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(*BATCHES)
    store = Store(f"{query.checkpoint}/skytide")
    identity, before = store.identity(), store.transactions()
    go_back(query.checkpoint, 5)
    once = store.transactions()
    go_back(query.checkpoint, 4)
    assert before == identity == store.identity() and len({before, once, store.transactions()}) == 3
