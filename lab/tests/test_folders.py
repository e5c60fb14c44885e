"""Demonstrations replace what they made themselves, and nothing else."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from skytide.errors import InvalidInput
from skytide_lab.demonstrations.folders import make_room, save_picture


def test_a_picture_of_the_user_is_not_deleted(tmp_path: Path) -> None:
    picture = tmp_path / "run.png"
    Figure().savefig(picture)
    before = picture.read_bytes()
    with pytest.raises(InvalidInput, match="would be lost"):
        make_room(tmp_path / "run", picture)
    assert picture.read_bytes() == before and not (tmp_path / "run").exists()
    picture.unlink()  # as the remedy says
    make_room(tmp_path / "run", picture)
    save_picture(Figure(), picture)
    make_room(tmp_path / "run", picture)
    assert not picture.exists()
