"""What a continuous query knows between two batches, as a value."""

from dataclasses import dataclass, field
from typing import Any

from skytide.batch.reports import Piece, Run
from skytide.keyed import KeyedState
from skytide.lateness import StreamClock
from skytide.records import WindowRow

FAR = 2**62
"""Beyond all panes."""


@dataclass(frozen=True)
class OpenPane:
    """A pane that has not been added to the memory: its tuples so far, and where its partial results lie."""

    tuples: int = 0
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Output:
    """The output of a batch, written down before any sink gets it: so it is the same again if the batch is repeated."""

    results: tuple[str, ...] = ()
    """Files with the rows of all windows."""
    rows: tuple[WindowRow, ...] = ()
    late: tuple[str, ...] = ()
    """Files with late tuples."""
    invalid: tuple[str, ...] = ()
    """Files with tuples that belong to no window."""
    suspects: tuple[str, ...] = ()
    odd_panes: tuple[int, ...] = ()
    """The suspects of these panes were too many, too far ahead."""

    def files(self) -> set[str]:
        """Return the names of all files that a sink reads."""
        return {*self.late, *self.invalid, *self.suspects, *self.results}


@dataclass(frozen=True)
class State:
    """Everything that a batch needs to know of those before it, and the output of the latest one."""

    batch: int = -1
    """The latest of Spark's batches that went in."""
    sequence: int = -1
    """The number of the latest output: that of the batch, plus one for each flush so far."""
    flushed: bool = False
    """Whether the stream had ended, and this output holds its last windows."""
    clock: StreamClock = field(default_factory=StreamClock)
    slack: dict[str, Any] = field(default_factory=dict)
    """The state of the slack, by method: another method starts anew."""
    router: dict[str, Any] = field(default_factory=dict)
    """The state of the router, by strategy: another strategy starts anew."""
    pane_slots: int | None = None
    open: dict[int, OpenPane] = field(default_factory=dict)
    suspects: tuple[str, ...] = ()
    """Files with copies of tuples ahead of the stream, of which it may get too many."""
    memory: tuple[Run, ...] = ()
    """What is remembered of closed panes, oldest first."""
    keyed: KeyedState | None = None
    """What is remembered of keys, for an operator on keys."""
    invalid: int = 0
    """Tuples so far that belonged to no window."""
    late_reported: int = 0
    windows_out: int = 0
    source_end: int = 0
    """Where the batch ended, for a source of skytide's own."""
    output: Output = field(default_factory=Output)
    identity: dict[str, str] = field(default_factory=dict)
    """The query that this is the state of."""

    @property
    def memory_rows(self) -> int:
        """How many rows are remembered of closed panes."""
        return sum(run.rows for run in self.memory)

    def files(self) -> set[str]:
        """Return the names of all files that a later batch may read."""
        panes = {piece.file for pane in self.open.values() for piece in pane.pieces}
        keyed = self.keyed.files() if self.keyed else set()
        return panes | set(self.suspects) | keyed | {file for run in self.memory for file in run.files}

    def output_files(self) -> set[str]:
        """Return the names of all files that a sink may still need."""
        return self.output.files()

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the name of a file, which many pieces share, appears once."""
        files = sorted({piece.file for pane in self.open.values() for piece in pane.pieces})
        numbers = {name: number for number, name in enumerate(files)}
        open_ = {
            pane: [open_pane.tuples, [_packed(piece, numbers[piece.file]) for piece in open_pane.pieces]]
            for pane, open_pane in self.open.items()
        }
        output = {**vars(self.output), "rows": [list(vars(row).values()) for row in self.output.rows]}
        keyed = self.keyed and self.keyed.to_json()
        memory = [run.to_json() for run in self.memory]
        written = {"clock": self.clock.to_json(), "files": files, "open": open_, "memory": memory, "keyed": keyed, "output": output}
        return {**vars(self), **written}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "State":
        """Return the state from what `to_json` returned."""
        fields = dict(values)
        files = fields.pop("files")
        rows = fields.pop("memory_rows", 0)
        fields["memory"] = _memory(fields["memory"], rows)
        fields["clock"] = StreamClock.from_json(fields["clock"])
        fields["suspects"] = tuple(fields["suspects"])
        fields["open"] = {
            int(pane): OpenPane(tuples, tuple(Piece(files[number], *piece) for number, *piece in pieces))
            for pane, (tuples, pieces) in fields["open"].items()
        }
        fields["keyed"] = fields["keyed"] and KeyedState.from_json(fields["keyed"])
        output: dict[str, Any] = fields["output"]
        window_rows = tuple(WindowRow(*row) for row in output["rows"])
        lists = {name: tuple(value) for name, value in output.items() if isinstance(value, list)}
        fields["output"] = Output(**{**output, **lists, "rows": window_rows})
        return State(**fields)


def _packed(piece: Piece, file: int) -> list[int]:
    values = [file, piece.at, piece.batches, piece.rows]
    return [*values, piece.tier] if piece.tier else values


def _memory(values: Any, rows: int) -> tuple[Run, ...]:
    """Return the runs of a manifest; up to format 4 it names one file, with panes of any number."""
    if values is None or isinstance(values, str):
        return (Run(-FAR, FAR, -1, (values,), rows),) if values else ()
    return tuple(map(Run.from_json, values))
