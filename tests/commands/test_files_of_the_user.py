"""Files that belong to the user are neither replaced nor deleted."""

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skytide.cli.submit import _file_name, _save
from skytide.errors import InvalidInput
from skytide.records import Allocation, Observation
from skytide.spark.scaling.history import History
from skytide.spark.scaling.json_store import JsonStore

SEEN = History([Observation(60, 10, Allocation(2), 900, 800, utilisation=1.1)])


@pytest.mark.parametrize("content", [{"database": "prod"}, {"guard": {}, "retries": 3}, [], "text"])
def test_a_store_replaces_no_file_of_somebody_else(tmp_path: Path, content: object) -> None:
    mine = tmp_path / "settings.json"
    mine.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match="something else"):
        JsonStore(mine)
    assert json.loads(mine.read_text()) == content and list(tmp_path.iterdir()) == [mine]


def test_a_store_replaces_no_device_and_no_link(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a plain file"):
        JsonStore("/dev/null")
    assert Path("/dev/null").is_char_device()
    target, link = tmp_path / "target.json", tmp_path / "state.json"
    target.write_text("{}")
    target.chmod(0o640)
    link.symlink_to(target)
    JsonStore(link).save({"guard": {}})
    assert link.is_symlink() and json.loads(target.read_text()) == {"guard": {}}
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_store_continues_with_its_own_file(tmp_path: Path) -> None:
    JsonStore(tmp_path / "state.json").save({"controllers": {"Mpc": {"level": 3.5}}, "guard": {}})
    assert JsonStore(tmp_path / "state.json").load() == {"controllers": {"Mpc": {"level": 3.5}}, "guard": {}}
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_history_replaces_earlier_ones_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = pa.table({"my": ["data"]})
    pq.write_table(mine, tmp_path / "quotes.parquet")
    scalers = {name: SimpleNamespace(history=lambda: SEEN) for name in ("quotes", "cabs")}
    for _ in range(2):
        _save(tmp_path, scalers)
    assert pq.read_table(tmp_path / "quotes.parquet") == mine
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cabs.parquet", "quotes-2.parquet", "quotes.parquet"]
    assert "quotes-2.parquet" in capsys.readouterr().err


def test_queries_with_different_names_have_different_files() -> None:
    names = ["a b", "a-b", "a/b", "../x", "..", "a%20b", "é", "x" * 400, "x" * 399 + "y"]
    files = [_file_name(SimpleNamespace(name=name)) for name in names]
    assert len(set(files)) == len(names)
    assert all("/" not in file and len(f"{file}.parquet") < 256 for file in files)
    assert _file_name(SimpleNamespace(name="quotes_2")) == "quotes_2"
