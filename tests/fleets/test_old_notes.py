"""A fleet that an earlier version read goes on where that one stopped."""

import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from fleet_model import Asked, write
from support.old_checkpoints import FLEETS, STREAMS

ARCHIVE = Path(__file__).parents[1] / "data" / "checkpoints-28fea2d.tar.xz"


def moved_to(inodes: dict[str, int], notes: Path) -> None:
    """Make notes name the copies of files: a copy has another number on the disk."""
    for path in notes.iterdir():
        table = pa.ipc.open_stream(path.read_bytes()).read_all()
        numbers = [inodes[f"{name}.jsonl"] for name in table["name"].to_pylist()]
        place = table.column_names.index("identity")
        table = table.set_column(place, "identity", pa.array(numbers, pa.int64()))
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)


@pytest.mark.parametrize("moment", FLEETS)
def test_every_record_comes_once_and_in_order(tmp_path: Path, moment: str) -> None:
    with tarfile.open(ARCHIVE) as stored:
        mine = [member for member in stored if member.name.startswith(f"./fleet/{moment}/")]
        stored.extractall(tmp_path, mine, filter="data")
    folder = tmp_path / "fleet" / moment
    known = json.loads((folder / "known.json").read_text())
    moved_to({path.name: path.stat().st_ino for path in (folder / "feeds").iterdir()}, folder / "notes" / "notes")
    asked = Asked(folder / "notes", place=str(folder / "feeds"), splits=3)
    asked.log, asked.committed, asked.given = known["log"], known["committed"], known["given"]
    asked.start()
    asked.batch()
    for stream in STREAMS:
        with (folder / "feeds" / f"{stream}.jsonl").open("ab") as file:
            file.write(known["torn"].encode())
        write(asked, stream, 15, 16)
    asked.all()
    assert asked.given == {stream: list(range(17)) for stream in STREAMS}
