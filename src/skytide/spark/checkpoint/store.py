"""The state of a continuous query: immutable files, and manifests that name those in force.

A manifest is created once, before a sink gets its output, and never changes: a repeated batch finds it and does the same again.
Some manifests stay (`retention`), with all their files, so that a query can go back to them.
"""

import hashlib
import json
import logging
import posixpath
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from skytide.batch import State
from skytide.errors import SkytideError
from skytide.spark.checkpoint.files import Files, sequence_of
from skytide.spark.checkpoint.manifest import Damaged, Manifest, OtherFormat, packed, unpacked
from skytide.spark.checkpoint.owner import Owner, taken_over
from skytide.spark.checkpoint.retention import KEPT, OLDER_BYTES, states_that_fit, states_to_keep
from skytide.spark.checkpoint.spark_logs import SparkLogs
from skytide.spark.clock import now_us

SWEEP_EVERY = 16  # commits at most; in between, only files that a manifest named are removed
FOLDERS = ("panes", "memory", "keys", "results", "verdicts", "late", "invalid", "suspects")
MANIFESTS, EMITTED, IDENTITY = "manifests", "emitted", "checkpoint.json"

_MANIFEST = re.compile(r"(\d{12})\.json")
_DRAFT = re.compile(r"\.(\d{12})\.json\.[0-9a-f]{32}")
_log = logging.getLogger(__name__)


class Kept(NamedTuple):
    """A manifest that is kept."""

    state: State
    written_us: int


class Store:
    """The manifests below a folder, and the files they name.

    The driver of a query takes the store over and knows the states from then on; anybody else reads them each time.
    """

    def __init__(self, files: Files | str) -> None:
        """Use a folder, which is created with its first file."""
        self.files = files if isinstance(files, Files) else Files(files)
        self._owner: Owner | None = None
        self._kept: dict[int, Kept] = {}
        self._uses: Counter[str] = Counter()
        """How many kept states need a file, so that a record costs the same however many are kept."""
        self._unsent: dict[int, set[str]] = {}
        """The outputs of states that the sinks may not have; they are counted, too."""
        self._emitted = -1
        self._records = 0
        self._swept = -1
        """The newest state beyond the latest five when sizes were last added up."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the folder: a copy is not the owner."""
        return Store, (self.files,)

    @property
    def folder(self) -> str:
        """The folder of the files."""
        return self.files.uri

    @property
    def checkpoint(self) -> str:
        """The folder that the user named, which has Spark's notes, too."""
        return self.files.uri.removesuffix("/skytide")

    def take_over(self, logs: SparkLogs | None = None) -> None:
        """Become the one that records, and shut out whoever did before.

        Manifests that cannot be read are put aside, and Spark's notes go back to the state before them.
        """
        self.release()
        self._owner = Owner(self.files)
        damaged: dict[int, Damaged] = {}
        self._kept = self._read_all(damaged)
        self._emitted = min(self._read_emitted(), max(self._kept, default=-1))
        if damaged:
            self._fall_back(damaged, logs)
        self._uses, self._unsent = Counter(), {}
        for kept in self._kept.values():
            self._use(kept.state)
        self._records, self._swept = 0, -1

    def release(self) -> None:
        """Allow others to go back to an earlier state from now on."""
        if self._owner is not None:
            self._owner.release()

    def identity(self) -> str:
        """Return what distinguishes this checkpoint from all others, even from later ones in the same folder."""
        return str(self._identity()["id"])

    def transactions(self) -> str:
        """Return the identity for sinks that ignore a number they have had: it is another one after going back, on purpose or by more than one damaged manifest, as other results have that number then."""
        identity = self._identity()
        return f"{identity['id']}-{identity['back']}" if "back" in identity else str(identity["id"])

    def key_seed(self) -> int:
        """Return the seed of the hashes of keys, of its own for each checkpoint; 0, which is none, if an earlier version began it."""
        latest = self.latest()
        if latest.sequence >= 0:
            return latest.keyed.seed if latest.keyed else 0
        return int.from_bytes(hashlib.blake2b(self.identity().encode(), digest_size=8).digest(), "big") or 1

    def record(self, state: State) -> None:
        """Record a state before its output goes to a sink. The same state may be recorded again, but no other under its number."""
        self._check_owner()
        body, name = json.dumps(state.to_json()), manifest_name(state.sequence)
        self.files.settle(
            folder for folder in FOLDERS if any(file.startswith(f"{folder}/") for file in _all_files(state) - self._uses.keys())
        )
        if not self.files.create(name, packed(body, now_us())) and self._body(name) != body:
            raise taken_over(self.files)
        self._note(body)

    def emitted(self) -> int:
        """Return the sequence up to which the sinks are known to have everything; they may have the latest one, too."""
        stored, latest = self._emitted if self._owner else self._read_emitted(), self.latest().sequence
        return min(max(stored, latest - 1), latest)

    def mark_emitted(self, sequence: int) -> None:
        """Note that the sinks have everything up to a sequence."""
        self.files.put(EMITTED, str(sequence).encode())
        self.files.settle([""])
        self._emitted = sequence

    def recorded(self, batch: int) -> State | None:
        """Return what was recorded of one of Spark's batches, if anything was: then the batch is repeated as recorded."""
        recorded = [state for state in self.states() if state.batch == batch and not state.flushed]
        return recorded[-1] if recorded else None

    def before(self, batch: int) -> State:
        """Return the state that a batch starts from: the latest one that does not contain it."""
        states = [State(), *self.states()]
        fitting = [state for state in states if state.batch == batch - 1]
        if not fitting or states[-1].batch > batch:
            raise SkytideError(
                f"{self.folder}: holds the state after batch {states[-1].batch}, but Spark continues with batch {batch}; "
                "the notes of Spark and skytide belong together: restore the whole checkpoint folder, start with another one, "
                "or take both back to a batch that both know, with `skytide checkpoint back`"
            )
        return fitting[-1]

    def latest(self) -> State:
        """Return the latest state."""
        if self._owner is not None:
            return self._kept[max(self._kept)].state if self._kept else State()
        return next(self._newest_first(), State())

    def latest_before_source(self, position: int) -> State:
        """Return the state from which a batch starts that begins at a position of skytide's own source."""
        return next((state for state in self._newest_first() if state.source_end <= position), State())

    def states(self) -> list[State]:
        """Return the states that are kept, oldest first."""
        return [kept.state for kept in self.kept()]

    def kept(self) -> list[Kept]:
        """Return the manifests that can be read, oldest first."""
        if self._owner is None:
            self._kept = self._read_all({})
        return [self._kept[sequence] for sequence in sorted(self._kept)]

    def forget_after(self, sequence: int) -> None:
        """Remove later manifests; the sinks will get what comes after once more."""
        self._change_transactions()
        self.mark_emitted(
            min(self._read_emitted(), sequence)
        )  # first: what is cut off here must not count as emitted when it comes again
        for name in reversed(self.files.names(MANIFESTS)):
            number = manifest_sequence(name)
            if number is not None and number > sequence:
                self.files.delete(name)

    def _newest_first(self) -> Iterator[State]:
        """Read the manifests; rarely more than one is read, as every batch asks for the latest, in another process."""
        for name in reversed(self.files.names(MANIFESTS)):
            manifest = self._read(name, {})
            if manifest is not None:
                yield manifest.state

    def _identity(self) -> dict[str, Any]:
        self.files.create(IDENTITY, json.dumps({"id": uuid.uuid4().hex}).encode())
        return dict(json.loads(self.files.read(IDENTITY)))

    def _change_transactions(self) -> None:
        identity = self._identity()
        self.files.put(IDENTITY, json.dumps({**identity, "back": identity.get("back", 0) + 1}).encode())

    def _check_owner(self) -> None:
        if self._owner is None:
            raise SkytideError(f"{self.folder}: only the one that took the checkpoint over may record; call take_over() first")
        self._owner.check()

    def _note(self, body: str) -> None:
        """Keep a state as it will be read after a restart, and remove what is no longer needed."""
        state = State.from_json(json.loads(body))
        if state.sequence not in self._kept:
            self._use(state)
        self._kept[state.sequence] = Kept(state, now_us())
        latest = max(self._kept)
        for sequence in [unsent for unsent in self._unsent if unsent <= self._emitted and unsent != latest]:
            self._disuse(self._unsent.pop(sequence))
        self._keep_only(states_to_keep({sequence: kept.written_us for sequence, kept in self._kept.items()}))
        older = max(sorted(self._kept)[:-KEPT], default=-1)
        if self._records % SWEEP_EVERY == 0 or older > self._swept:  # one state of each minute becomes an older one
            self._sweep(latest)
            self._swept = older
        self._records += 1

    def _keep_only(self, sequences: set[int]) -> None:
        """Remove all other states, and the files that only they need."""
        for sequence in sorted(self._kept.keys() - sequences):
            self.files.delete(manifest_name(sequence))  # before its files: one can go back to any manifest that is there
            self._disuse([*self._kept.pop(sequence).state.files(), *self._unsent.pop(sequence, ())])

    def _use(self, state: State) -> None:
        self._unsent[state.sequence] = _outputs(state)
        self._uses.update([*state.files(), *self._unsent[state.sequence]])

    def _disuse(self, names: Iterable[str]) -> None:
        for name in names:
            self._uses[name] -= 1
            if not self._uses[name]:
                del self._uses[name]
                self.files.delete(name)

    def _sweep(self, latest: int) -> None:
        """Remove what attempts left that were never recorded; files that are not ours stay."""
        sizes = {}
        for folder in FOLDERS:
            for entry in self.files.entries(folder):
                name, sequence = f"{folder}/{entry.name}", sequence_of(entry.name)
                sizes[name] = entry.size
                if sequence is not None and sequence < latest and name not in self._uses:
                    self.files.delete(name)
        for entry in self.files.entries(MANIFESTS):
            draft, sequence = _DRAFT.fullmatch(entry.name), manifest_sequence(entry.name)
            if (draft and int(draft[1]) < latest) or (sequence is not None and sequence < latest and sequence not in self._kept):
                self.files.delete(f"{MANIFESTS}/{entry.name}")
            elif sequence is not None:
                sizes[manifest_name(sequence)] = entry.size
        needed = {sequence: [*kept.state.files(), manifest_name(sequence)] for sequence, kept in self._kept.items()}
        self._keep_only(states_that_fit(needed, sizes, OLDER_BYTES))

    def _read_all(self, damaged: dict[int, Damaged]) -> dict[int, Kept]:
        """Return all manifests that can be read; those that are damaged go into `damaged`."""
        manifests = {name: self._read(name, damaged) for name in self.files.names(MANIFESTS)}
        return {kept.state.sequence: kept for kept in manifests.values() if kept is not None}

    def _read(self, name: str, damaged: dict[int, Damaged]) -> Kept | None:
        """Return a manifest, or None if the file is not one, is damaged, or was removed by the owner meanwhile."""
        sequence = manifest_sequence(name)
        if sequence is None:
            return None
        try:
            manifest = self._load(name)
        except Damaged as error:
            damaged[sequence] = error
            return None
        except FileNotFoundError:
            return None
        return Kept(State.from_json(json.loads(manifest.body)), manifest.written_us)

    def _load(self, name: str) -> Manifest:
        try:
            return unpacked(self.files.read(name))
        except OtherFormat as error:
            raise SkytideError(
                f"{self.folder}/{name}: {error}; continue with that version, or start with another checkpoint folder"
            ) from None

    def _body(self, name: str) -> str | None:
        try:
            return self._load(name).body
        except Damaged:
            return None

    def _read_emitted(self) -> int:
        text = self.files.read_if_there(EMITTED) or b""
        return int(text) if re.fullmatch(rb"-?\d+", text) else -1

    def _fall_back(self, damaged: dict[int, Damaged], logs: SparkLogs | None) -> None:
        """Put damaged manifests aside, and continue from the state before them if they were the latest."""
        latest = max(self._kept, default=-1)
        later = sorted(sequence for sequence in damaged if sequence > latest)
        if later and later[0] != latest + 1:
            older = f"go back with `skytide checkpoint back` to sequence {latest}, " if self._kept else ""
            raise SkytideError(
                f"{self.folder}: no manifest can be read ({damaged[later[0]]}), and what came right before is no longer kept; "
                f"{older}restore the checkpoint folder from a copy, or start with another one"
            )
        for sequence, error in sorted(damaged.items()):
            outcome = f"falls back to the state before it, of sequence {latest}" if sequence > latest else "does not need it"
            _log.warning("%s/%s: %s; skytide %s", self.folder, manifest_name(sequence), error, outcome)
        if len(later) > 1:  # Spark has noted what is in the first one of these batches, but may give the others other borders
            self._change_transactions()
        if later:
            if logs is not None:
                logs.back_to(self._kept[latest].state.batch if self._kept else -1)
            self.mark_emitted(self._emitted)
        for sequence in sorted(damaged, reverse=True):  # latest first: if this is cut off, the next start does the rest
            self.files.move(manifest_name(sequence), f"{manifest_name(sequence)}.damaged")


def manifest_name(sequence: int) -> str:
    """Return the name of a manifest."""
    return f"{MANIFESTS}/{sequence:012}.json"


def manifest_sequence(name: str) -> int | None:
    """Return the sequence of a manifest, or None if the file is not one."""
    match = _MANIFEST.fullmatch(posixpath.basename(name))
    return int(match[1]) if match else None


def _outputs(state: State) -> set[str]:
    """Return the files of an output that are in the store: sinks may have staged others, which are theirs."""
    return {name for name in state.output_files() if name.partition("/")[0] in FOLDERS}


def _all_files(state: State) -> set[str]:
    return set(state.files()) | _outputs(state)
