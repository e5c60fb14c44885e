"""Going back to an earlier state of a checkpoint, while no query runs on it."""

import os
from typing import NamedTuple

from skytide.errors import InvalidInput, SkytideError
from skytide.spark.checkpoint.files import Files
from skytide.spark.checkpoint.owner import IN_USE
from skytide.spark.checkpoint.spark_notes import SparkNotes
from skytide.spark.checkpoint.store import MANIFESTS, Store, manifest_name


class Row(NamedTuple):
    """A state that a query can go back to."""

    sequence: int
    batch: int
    written_us: int
    windows_out: int
    newest_us: int | None
    """The newest event time."""
    size: int
    """The bytes of its manifest and of all files that it needs; states share files."""


def states_of(checkpoint: str | os.PathLike[str]) -> list[Row]:
    """Return the states that are kept in a checkpoint folder, oldest first."""
    files, store = _opened(checkpoint)
    folders = {name.partition("/")[0] for state in store.states() for name in state.files()} | {MANIFESTS}
    sizes = {f"{folder}/{entry.name}": entry.size for folder in folders for entry in files.entries(folder)}
    return [
        Row(
            sequence=state.sequence,
            batch=state.batch,
            written_us=written_us,
            windows_out=state.windows_out,
            newest_us=state.clock.newest_us,
            size=sum(sizes.get(name, 0) for name in (*state.files(), manifest_name(state.sequence))),
        )
        for state, written_us in store.kept()
    ]


def go_back(checkpoint: str | os.PathLike[str], sequence: int) -> None:
    """Take Spark's notes and ours back to a state: a query that starts again repeats what came after it, with the same numbers."""
    files, store = _opened(checkpoint)
    state = next((state for state in store.states() if state.sequence == sequence), None)
    if state is None:
        kept = ", ".join(str(state.sequence) for state in store.states())
        raise InvalidInput(value=f"--to {sequence}", reason="that state is not kept", remedy=f"choose one of {kept}")
    held = files.lock(IN_USE, alone=True)
    if held is None and files.is_local:
        raise SkytideError(f"{files.uri}: a query runs on this checkpoint; stop it first")
    try:
        SparkNotes(Files(f"{os.fspath(checkpoint)}/spark")).back_to(state.batch)
        store.forget_after(sequence)
    finally:
        if held is not None:
            held.close()


def _opened(checkpoint: str | os.PathLike[str]) -> tuple[Files, Store]:
    files = Files(f"{os.fspath(checkpoint)}/skytide")
    store = Store(files)
    if not store.states():
        raise InvalidInput(
            value=os.fspath(checkpoint),
            reason="no state of a query is there",
            remedy="name the folder that the query was given as checkpoint=",
        )
    return files, store
