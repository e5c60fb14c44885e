"""The state of a continuous query between two batches."""

from dataclasses import dataclass, field
from typing import Any

from skytide.lateness import Progress


@dataclass(frozen=True)
class State:
    """Everything that a batch needs to know of those before it."""

    batch: int = -1
    """The latest batch of Spark's that went in."""
    sequence: int = -1
    """The number of the latest output: that of the batch, and one more for each flush so far."""
    flushing: bool = False
    """The last windows are on their way out, under this sequence: that has to be finished before anything else."""
    flushed: bool = False
    progress: Progress = field(default_factory=Progress)
    slack: dict[str, Any] = field(default_factory=dict)
    """The state of the slack, by its method: another one starts anew."""
    router: dict[str, Any] = field(default_factory=dict)
    """The state of the router, by its strategy: another one starts anew."""
    pane_slots: int | None = None
    memory_rows: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    """The rows of each file of an open pane."""
    tuples: dict[int, int] = field(default_factory=dict)
    """Of each pane that a window to come still needs, the number of its tuples."""
    open: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Of each pane that has not been added to the memory, the files with its partial results."""
    memory: str | None = None
    """The file with what is remembered of closed panes."""
    late_reported: int = 0
    windows_out: int = 0
    identity: dict[str, str] = field(default_factory=dict)
    """What query this is the state of."""
    source_end: int = 0
    """For a source of skytide's own: where the batch ended."""

    def files(self) -> set[str]:
        """Give the names of all files the state rests on."""
        return {name for names in self.open.values() for name in names} | ({self.memory} if self.memory else set())

    def output_files(self) -> set[str]:
        """Give the names of all files with results that a sink may still have to be given."""
        return set()

    def to_json(self) -> dict[str, Any]:
        """Give plain values."""
        return {**vars(self), "progress": vars(self.progress)}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "State":
        """Read what `to_json` gave."""
        known = dict(values)
        known["progress"] = Progress(**known["progress"])
        known["tuples"] = {int(pane): count for pane, count in known["tuples"].items()}
        known["open"] = {int(pane): tuple(names) for pane, names in known["open"].items()}
        return State(**known)
