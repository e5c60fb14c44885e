"""Going back to an earlier state of a checkpoint, while no query runs on it."""

import logging
import os
from typing import Any, NamedTuple

from skytide.batch import State
from skytide.errors import InvalidInput, SkytideError
from skytide.spark.checkpoint.files import Files
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.checkpoint.owner import IN_USE
from skytide.spark.checkpoint.sink_notes import SinkNote, noted_sinks
from skytide.spark.checkpoint.spark_logs import SparkLogs
from skytide.spark.checkpoint.store import MANIFESTS, Store, manifest_name

_log = logging.getLogger(__name__)


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
    reachable: bool
    """Whether `go_back` would go there: Spark's notes, or a fleet's, may not reach back that far."""


def states_of(checkpoint: str | os.PathLike[str]) -> list[Row]:
    """Return the states that are kept in a checkpoint folder, oldest first."""
    files, store = _opened(checkpoint)
    others = _Others(checkpoint)
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
            reachable=others.reach(state.batch),
        )
        for state, written_us in store.kept()
    ]


class WentBack(NamedTuple):
    """What became of later results in the sinks of a query that went back."""

    known: bool
    """Whether the checkpoint has notes on its sinks."""
    removed: tuple[SinkNote, ...] = ()
    """Folders that no longer have them."""
    left: tuple[SinkNote, ...] = ()
    """Sinks that still have them."""


def go_back(checkpoint: str | os.PathLike[str], sequence: int) -> WentBack:
    """Take Spark's notes, ours and the folders of results back to a state: a query that starts again repeats what came after it.

    Folders come last: if this is cut off, the next start removes from them what the checkpoint does not know.
    """
    files, store = _opened(checkpoint)
    held = _alone(files)
    try:
        state = _state_of(store, sequence)
        others = _Others(checkpoint)
        others.check(state.batch)
        others.spark.back_to(state.batch)
        store.forget_after(sequence)
        sinks = noted_sinks(files)
        removed = [sink for sink in sinks or () if _forgets(sink, sequence, store)]
        return WentBack(sinks is not None, tuple(removed), tuple(sink for sink in sinks or () if sink not in removed))
    finally:
        if held is not None:
            held.close()


def _alone(files: Files) -> Any:
    """Return what keeps queries off the checkpoint until it is closed; None if its file system has no locks."""
    try:
        held = files.lock(IN_USE, alone=True)
    except BlockingIOError:
        held = None
    if held is None and files.is_local:
        raise SkytideError(f"{files.uri}: a query runs on this checkpoint; stop it first")
    return held


def _state_of(store: Store, sequence: int) -> State:
    states = store.states()
    there = [State(), *states] if states[0].sequence == 0 else states  # all of it is kept: the beginning, too
    state = next((state for state in there if state.sequence == sequence), None)
    if state is None:
        kept = ", ".join(str(state.sequence) for state in there)
        raise InvalidInput(value=f"--to {sequence}", reason="that state is not kept", remedy=f"choose one of {kept}")
    return state


class _Others:
    """The notes beside ours, which have to reach as far back: Spark's, and those of a fleet."""

    def __init__(self, checkpoint: str | os.PathLike[str]) -> None:
        self.spark = SparkLogs(Files(f"{os.fspath(checkpoint)}/spark"))
        self._fleet = Files(f"{os.fspath(checkpoint)}/fleet")

    def reach(self, batch: int) -> bool:
        """Return whether both could continue after a batch."""
        try:
            self.check(batch)
        except SkytideError:
            return False
        return True

    def check(self, batch: int) -> None:
        """Refuse a batch after which one of them could not continue."""
        self.spark.check(batch)
        for name in (str(offset.get("note", "")) for offset in self.spark.offsets(batch)):
            if name.startswith("notes/") and not self._fleet.exists(name):  # otherwise the offset holds the note itself
                raise SkytideError(
                    f"{self._fleet.uri}/{name}: the fleet has removed its note since, as it keeps those of its latest batches only; go back to a later state"
                )


def _forgets(sink: SinkNote, sequence: int, store: Store) -> bool:
    """Remove later results from a sink, and return whether that was possible."""
    try:
        return bool(sink.uri) and OwnedFolder(sink.uri).forget_after(sequence, store.identity(), store.checkpoint)
    except (InvalidInput, OSError) as error:
        _log.warning("%s: %s", sink.uri, str(error).splitlines()[0])
        return False


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
