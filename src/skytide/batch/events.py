"""The events that a batch machine gets, and the instructions that it returns. All are values; time comes only with events."""

from dataclasses import dataclass, field
from typing import Any

from skytide.batch.merging import PiecesToMerge
from skytide.batch.reports import PaneReport, Piece, Run, WindowReport
from skytide.batch.spreading import Spreading
from skytide.batch.state import Output, State
from skytide.keyed import KeyedState, SlotReport
from skytide.routing import Owners


@dataclass(frozen=True)
class BatchStarted:
    """Tuples have come in: those of the batch that Spark gave this number."""

    batch: int
    before: State
    """What the batch starts from."""
    at_s: float
    recorded: State | None = None
    """What an earlier attempt at the batch decided."""
    emitted: int = -1
    """The sinks have everything up to this sequence number."""


@dataclass(frozen=True)
class PanesReported:
    """The pane level is done."""

    report: PaneReport
    at_s: float


@dataclass(frozen=True)
class PiecesMerged:
    """Pieces of open panes have become fewer."""

    pieces: tuple[Piece, ...]
    """One for each merge of the instruction, in order."""
    at_s: float


@dataclass(frozen=True)
class WindowsReported:
    """The window level is done."""

    report: WindowReport
    at_s: float


@dataclass(frozen=True)
class KeysReported:
    """The level of keys is done."""

    reports: tuple[SlotReport, ...]
    at_s: float


@dataclass(frozen=True)
class StreamEnded:
    """No more tuples will come."""

    latest: State
    at_s: float
    emitted: int = -1


@dataclass(frozen=True)
class Restarted:
    """A query goes on from where an earlier one stopped."""

    latest: State
    at_s: float
    emitted: int = -1


@dataclass(frozen=True)
class Committed:
    """An output has been emitted, and that is on record."""

    state: State
    at_s: float


BatchEvent = BatchStarted | PanesReported | PiecesMerged | WindowsReported | KeysReported | StreamEnded | Restarted | Committed


@dataclass(frozen=True)
class RunPanes:
    """Reduce the tuples of the batch, pane by pane."""

    sequence: int
    newest_us: int | None
    punctuation_us: int | None
    leap_us: int
    slots: int
    router: dict[str, Any] | None = field(default=None, repr=False)
    """What the router knew when the batch started."""
    owners: Owners | None = field(default=None, repr=False)
    """The slots to which tuples are sent, pane by pane; None if they stay where they are, or are sent by their keys."""
    reason: str = ""
    """Why tuples are sent, or are not."""
    out_us: tuple[tuple[int, int], ...] = ()
    """Times ahead of the stream whose windows have come out."""


@dataclass(frozen=True)
class ReadAgain:
    """Execute the input of a batch that was decided by an earlier try: state of its own, as of deduplication, goes on only by that."""


@dataclass(frozen=True)
class MergePieces:
    """Merge pieces of panes that stay open, so that there are few."""

    sequence: int
    merges: tuple[PiecesToMerge, ...]
    on_driver: bool
    """Whether that is so little that no job is needed."""


@dataclass(frozen=True)
class RunWindows:
    """Add closed panes to the memory, and answer the windows that ended."""

    sequence: int
    ended: range
    panes: dict[int, tuple[Piece, ...]]
    tuples: dict[int, int]
    """The tuples of each of these panes."""
    memory: tuple[Run, ...]
    replaced: int
    """How many of the latest runs of the memory the new one contains."""
    spreading: Spreading

    @property
    def level(self) -> int:
        """The level of the new run."""
        return max((run.level + 1 for run in self.memory[len(self.memory) - self.replaced :]), default=0)


@dataclass(frozen=True)
class RunKeys:
    """Let tuples in: each slot works on those of its keys."""

    sequence: int
    since_us: int | None
    until_us: int
    """Tuples before this are let in; those before `since_us` have been."""
    pieces: tuple[Piece, ...]
    keyed: KeyedState


@dataclass(frozen=True)
class Record:
    """Write the decision down, before anything leaves the system."""

    state: State


@dataclass(frozen=True)
class Emit:
    """Hand the output of a batch to the sinks."""

    sequence: int
    output: Output


@dataclass(frozen=True)
class Commit:
    """Note that the sinks have it."""

    state: State


Instruction = RunPanes | ReadAgain | MergePieces | RunWindows | RunKeys | Record | Emit | Commit
