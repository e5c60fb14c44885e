"""A checkpoint that was copied leaves the folders of the original alone; one that was moved goes on."""

import json
import re
import shutil
from pathlib import Path

import pytest
from support.back import BATCHES, Query

from skytide.errors import InvalidInput
from skytide.spark.checkpoint.back import go_back


def original_and_copy(folder: Path) -> tuple[Query, Query]:
    """A query, and one with a copy of its checkpoint from before its last batches, and the same folders of results."""
    original, copy = Query(folder), Query(folder)
    original.run(*BATCHES[:5])
    copy.checkpoint = folder / "copy"
    shutil.copytree(original.checkpoint, copy.checkpoint)
    original.run(*BATCHES[5:])
    return original, copy


def test_a_copy_is_refused_where_the_original_writes(tmp_path: Path) -> None:
    original, copy = original_and_copy(tmp_path)
    rows, numbers = original.starts(), original.numbers()
    with pytest.raises(InvalidInput, match=f"its query has the checkpoint file://{tmp_path}/ck, .*copy.* choose another folder"):
        copy.run(*BATCHES[5:])
    assert original.starts() == rows and original.numbers() == numbers
    copy.write_to(tmp_path / "other")
    copy.run(*BATCHES[5:])
    assert set(rows) == {*original.starts()} and copy.starts() == rows[-len(copy.starts()) :] != []


def test_a_copy_that_goes_back_leaves_the_folders_of_the_original_alone(tmp_path: Path) -> None:
    original, copy = original_and_copy(tmp_path)
    numbers = original.numbers()
    assert go_back(copy.checkpoint, 2).removed == () and original.numbers() == numbers


def test_a_checkpoint_that_was_moved_goes_on_as_it_is_told(tmp_path: Path) -> None:
    whole, query = Query(tmp_path / "whole"), Query(tmp_path)
    whole.run(*BATCHES)
    query.run(*BATCHES[:5])
    query.checkpoint = (tmp_path / "ck").rename(tmp_path / "moved")
    with pytest.raises(InvalidInput) as refused:
        query.run(*BATCHES[5:])
    assert f'if it was moved, write "file://{tmp_path}/moved" as "checkpoint" into' in refused.value.remedy
    notes = [Path(note) for note in re.findall(r"file://(\S+/owner\.json)", refused.value.remedy)]
    assert sorted(notes) == [tmp_path / folder / "_skytide" / "owner.json" for folder in ("late", "out")]  # all at once
    for note in notes:
        note.write_text(json.dumps({**json.loads(note.read_text()), "checkpoint": f"file://{tmp_path}/moved"}))
    query.run(*BATCHES[5:])
    assert query.starts() == whole.starts()


def test_another_name_of_the_same_folder_is_no_copy(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.run(*BATCHES[:5])
    (tmp_path / "link").symlink_to(tmp_path / "ck")
    query.checkpoint = tmp_path / "link"
    query.run(*BATCHES[5:])
    go_back(tmp_path / "ck", 5)
    assert max(query.numbers()) == 5
