"""The sinks of a query by what they get: results, and if wanted, late and invalid tuples and a row per window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from skytide.errors import InvalidInput
from skytide.spark.checkpoint import Store
from skytide.spark.checkpoint.folder import OwnedFolder, check_all
from skytide.spark.checkpoint.sink_notes import SinkNote, noted_sinks
from skytide.spark.sinks.base import CheckpointIdentity, Sink, is_in_checkpoint


@dataclass(frozen=True)
class Sinks:
    """The sinks of a query: for results, and for what else is wanted."""

    results: Sink
    late: Sink | None = None
    windows: Sink | None = None
    invalid: Sink | None = None
    unread: OwnedFolder | None = None
    """Where the source itself writes what cannot be read."""

    def by_role(self) -> dict[str, Sink]:
        """Return the sinks that there are."""
        sinks = {"results": self.results, "late": self.late, "windows": self.windows, "invalid": self.invalid}
        return {role: sink for role, sink in sinks.items() if sink is not None}

    def mapped(self, change: Callable[[str, Sink], Sink]) -> Sinks:
        """Return the sinks with each one changed."""
        return Sinks(**{role: change(role, sink) for role, sink in self.by_role().items()}, unread=self.unread)

    def check(self, store: Store) -> None:
        """Refuse what cannot go on with this checkpoint, before anything is written."""
        check_all(self._folders(), store.identity(), store.checkpoint, store.latest().sequence)
        self._check_unsent(store)

    def open(self, schemas: Mapping[str, pa.Schema], identity: CheckpointIdentity) -> None:
        """Claim folders, outer ones first, as others may be inside them, and open all sinks."""
        for folder in self._folders():
            folder.claim(identity.id, identity.checkpoint, identity.latest)
        for role, sink in self.by_role().items():
            sink.opened(schemas[role], identity)

    def forget(self, sequence: int, identity: CheckpointIdentity) -> None:
        """Remove batches after this one, which the checkpoint does not know."""
        for sink in self.by_role().values():
            sink.forget(sequence)
        if self.unread is not None:
            self.unread.forget_after(sequence, identity.id, identity.checkpoint)

    def notes(self) -> list[SinkNote]:
        """Return what a checkpoint notes of the sinks that keep what they get."""
        notes = [note_of(role, sink) for role, sink in self.by_role().items() if sink.describe()]
        return [*notes, *([SinkNote("unread", "folder", self.unread.files.uri)] if self.unread is not None else [])]

    def _folders(self) -> list[OwnedFolder]:
        folders = [sink.owned for sink in self.by_role().values()] + [self.unread]
        return sorted((folder for folder in folders if folder is not None), key=lambda folder: len(folder.files.root))

    def _check_unsent(self, store: Store) -> None:
        """Refuse another sink after a batch that was cut off, if its results wait with the sink of before, where only that one finds them."""
        state, sink = store.latest(), self.results
        waiting = tuple(name for name in state.output.results if not is_in_checkpoint(name))
        if not waiting or state.sequence <= store.emitted() or sink.has(state.sequence, waiting):
            return
        before = [note for note in noted_sinks(store.files) or () if note.role == "results"]
        if sink.stages_itself and before[-1:] in ([], [note_of("results", sink)]):
            return  # the same sink: if what it staged is gone, it says so itself
        place = before[-1].uri or before[-1].kind if before else "the Parquet folder of before"
        again = 'the sink "parquet" and that path' if not before or before[-1].uri else "that sink"
        raise InvalidInput(
            value="another sink of results",
            reason=f"batch number {state.sequence} was cut off, and its results are still in {place}",
            remedy=f"start once more with {again}, which lets them out, and change the sink after that; "
            f"or have the batch done again for the new sink: `skytide checkpoint back {store.checkpoint} --to {state.sequence - 1}`",
        )


def note_of(role: str, sink: Sink) -> SinkNote:
    """Return what a checkpoint notes of a sink."""
    return SinkNote(role, "folder", sink.uri) if sink.owned is not None else SinkNote(role, sink.describe())
