"""A folder that a query writes to: one folder per batch number inside, and an owner, so that no other query writes there."""

import json
import os
import posixpath
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from skytide.errors import InvalidInput
from skytide.spark.checkpoint.files import Files, real_uri

OWN = "_skytide"
OWNER = f"{OWN}/owner.json"
_NUMBERED = re.compile(r"batch=(\d+)")
_RECORDS = re.compile(r"\d{12}-\d+\.jsonl")
"""What a fleet could not read, as earlier versions wrote it."""


def folder_of(number: int) -> str:
    """Return the folder of a batch; readers take its name for a column `batch`."""
    return f"batch={number}"


class OwnedFolder:
    """A folder that belongs to one query, identified by its checkpoint."""

    def __init__(self, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        """Write below a path; options are those of Arrow's file system."""
        self.path, self._options = os.fspath(path), options

    @cached_property
    def files(self) -> Files:
        """The files below the path; no file system is asked before they are needed."""
        return Files(self.path, self._options)

    def clear(self, number: int) -> None:
        """Remove what an earlier attempt wrote, as now there is nothing to write."""
        self.files.delete_folder(folder_of(number))

    def forget_after(self, number: int, identity: str, checkpoint: str) -> bool:
        """Remove batches with a later number, latest first, if the folder belongs to this checkpoint, and return whether it does.

        A query records a batch before it is written here: one that it does not know is from before its checkpoint went back.
        """
        owner = _note(self.files.read_if_there(OWNER) or b"")
        if owner.get("identity") != identity or _is_copy(owner, checkpoint):
            return False
        numbers = [int(match[1]) for entry in self.files.entries() if (match := _NUMBERED.fullmatch(entry.name))]
        for later in sorted((number_there for number_there in numbers if number_there > number), reverse=True):
            self.clear(later)
        return True

    def claim(self, identity: str, checkpoint: str, latest: int = -1) -> None:
        """Make the folder belong to one query; refuse if it is not empty, or belongs to another; `latest` as in `check`."""
        self.check(identity, checkpoint, latest)
        note = {"identity": identity, "checkpoint": checkpoint, "host": socket.gethostname()}
        try:
            if not self.files.create(OWNER, json.dumps(note).encode()):
                self.check(identity, checkpoint)  # another query was faster, or it is ours already
        except OSError as error:
            raise InvalidInput(value=f"path {self.path}", reason=str(error), remedy="choose a folder to write to") from None

    def check(self, identity: str, checkpoint: str, latest: int = -1) -> None:
        """Refuse a folder that belongs to another query or to the original of a copied checkpoint, or that holds anything no query of ours wrote.

        Folders of other formats than Parquet had no owner once: batches up to `latest`, the last one that the query has done, are taken for its own.
        """
        owner = self.files.read_if_there(OWNER)
        remedy = "choose another folder, or move this one away"
        if owner is not None:
            note = _note(owner)
            if note.get("identity") != identity:
                whose = note.get("checkpoint", "(unknown)")
                raise InvalidInput(
                    value=f"path {self.path}",
                    reason=f"it belongs to another query, with the checkpoint {whose}",
                    remedy=f"{remedy}; to continue that query, start it with its checkpoint",
                )
            _refuse_copies([self], identity, checkpoint)
        elif strange := [entry.name for entry in self.files.entries() if entry.name != OWN and not _done(entry.name, latest)]:
            raise InvalidInput(
                value=f"path {self.path}",
                reason=f"it is not empty and not a folder of a query ({posixpath.join(self.path, strange[0])} is there)",
                remedy=remedy,
            )


def check_all(folders: Sequence[OwnedFolder], identity: str, checkpoint: str, latest: int = -1) -> None:
    """Refuse folders as `OwnedFolder.check` does, before any of them is claimed."""
    _refuse_copies(folders, identity, checkpoint)
    for folder in folders:
        folder.check(identity, checkpoint, latest)


def _refuse_copies(folders: Iterable[OwnedFolder], identity: str, checkpoint: str) -> None:
    """Refuse the folders of a checkpoint of which this one is a copy, all at once."""
    owners = {folder: _note(folder.files.read_if_there(OWNER) or b"") for folder in folders}
    originals = {
        folder: owner["checkpoint"]
        for folder, owner in owners.items()
        if owner.get("identity") == identity and _is_copy(owner, checkpoint)
    }
    if originals:
        notes = " and ".join(f"{folder.files.uri}/{OWNER}" for folder in originals)
        raise InvalidInput(
            value=f"path {', '.join(folder.path for folder in originals)}",
            reason=f"its query has the checkpoint {next(iter(originals.values()))}, of which {checkpoint} is a copy, unless it was moved",
            remedy=f'choose another folder for a copy; if it was moved, write "{checkpoint}" as "checkpoint" into {notes}',
        )


def _is_copy(owner: Mapping[str, Any], checkpoint: str) -> bool:
    """Return whether the owner's identity came with a copy of its checkpoint to another place."""
    return real_uri(str(owner.get("checkpoint", checkpoint))) != real_uri(checkpoint)


def _done(name: str, latest: int) -> bool:
    if _RECORDS.fullmatch(name):
        return latest >= 0
    match = _NUMBERED.fullmatch(name)
    return match is not None and int(match[1]) <= latest


def _note(data: bytes) -> dict[str, Any]:
    try:
        note = json.loads(data)
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}
