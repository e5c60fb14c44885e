"""Folders that demonstrations write to: what an earlier run left is replaced, anything else is left alone."""

import shutil
from pathlib import Path
from typing import Any

from skytide.errors import InvalidInput

MARK = ".made-by-skytide"
SOFTWARE = "skytide"
HEAD = 4_096  # bytes of a picture that say who made it


def make_room(folder: Path, picture: Path) -> None:
    """Make an empty folder with our mark, in place of an earlier one with the mark; refuse to replace anything else."""
    try:
        if folder.exists() and (strange := _strange(folder)):
            raise InvalidInput(
                value=f"--out {folder.parent}",
                reason=f"{strange} is not from an earlier run, and would be lost",
                remedy="move it away, or choose another folder",
            )
        if picture.exists() and not _is_ours(picture):
            raise InvalidInput(
                value=f"--out {folder.parent}",
                reason=f"{picture} is not from an earlier run, and would be lost",
                remedy="move it away, or choose another folder",
            )
        shutil.rmtree(folder, ignore_errors=not folder.exists())
        folder.mkdir(parents=True)
        (folder / MARK).touch()
        picture.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(value=f"--out {folder.parent}", reason=str(error), remedy="choose a folder to write to") from error


def save_picture(figure: Any, picture: Path) -> None:
    """Save a figure, with a word by which the next run knows its own pictures."""
    figure.savefig(picture, dpi=150, metadata={"Software": SOFTWARE})


def _is_ours(picture: Path) -> bool:
    with picture.open("rb") as file:
        return f"Software\0{SOFTWARE}".encode() in file.read(HEAD)


def _strange(folder: Path) -> Path | None:
    """Return what must not be lost: something in a folder without our mark."""
    entries = sorted(folder.iterdir())
    return next((entry for entry in entries), None) if folder / MARK not in entries else None
