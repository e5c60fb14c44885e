"""What tasks of the two levels report to the driver. Reports travel as texts, one per task."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from skytide.keyed.bits import between
from skytide.lateness import Arrivals, Crowd
from skytide.lateness.delays import BUCKETS
from skytide.routing import Frequencies, PackedFrequencies, SlotUse, unpacked


@dataclass(frozen=True)
class Piece:
    """A partial result of a pane, as it lies in a file: some of its record batches."""

    file: str
    at: int
    batches: int
    rows: int
    tier: int = 0
    """How often it was merged from others: 0 if a task of the pane level wrote it."""


@dataclass(frozen=True)
class Run:
    """What is remembered of consecutive panes that are closed: files that never change, one for each slot that wrote them."""

    first: int
    last: int
    """The panes, from the first to the last."""
    level: int
    """How often it was put together from others; -1 if an earlier version wrote it, whose files are written anew once."""
    files: tuple[str, ...] = ()
    rows: int = 0
    parts: tuple[int, ...] = ()
    """The parts of the state that each file has, a bit each; nothing if all may have all."""

    def files_of(self, parts: int) -> tuple[str, ...]:
        """Return the files that have some of these parts, or the first part: that one notes the panes of all.

        >>> run = Run(3, 5, 0, ("a", "b", "c"), 90, (0b0000110, 0b1110001, 0b0001000))
        >>> run.files_of(0b1000), run.files_of(0b1100), Run(3, 5, 0, ("a", "b")).files_of(1)
        (('b', 'c'), ('a', 'b', 'c'), ('a', 'b'))
        """
        if not self.parts:
            return self.files
        return tuple(name for name, mine in zip(self.files, self.parts, strict=True) if mine & (parts | 1))

    def to_json(self) -> list[Any]:
        """Return plain values."""
        return [*list(vars(self).values())[:-1], [f"{mine:x}" for mine in self.parts]]

    @staticmethod
    def from_json(values: list[Any]) -> "Run":
        """Return the run for a result of `to_json`; earlier versions noted the first part of each file, and the one after the last."""
        first, last, level, files, rows, *parts = values
        masks = (int(mine, 16) if isinstance(mine, str) else between(*mine) for mine in (parts[0] if parts else ()))
        return Run(first, last, level, tuple(files), rows, tuple(masks))


@dataclass(frozen=True)
class PanePart:
    """What a task made of the tuples of a pane that came to it."""

    pane: int
    tuples: int
    piece: Piece


@dataclass(frozen=True)
class PaneTaskReport:
    """What one task of the pane level saw and did."""

    slot: int
    arrivals: Arrivals = field(default_factory=Arrivals)
    parts: tuple[PanePart, ...] = ()
    busy_s: float = 0.0
    input_s: float = 0.0
    """The part of this time in which the task waited for its tuples, or made them."""
    partitions: tuple[tuple[int, int], ...] = ()
    """The partitions of the input that the tuples were sent from, each with how many; nothing if they were not sent."""
    invalid: int = 0
    """Tuples that belong to no window: without a time, or with values that the query refuses."""
    late_file: str | None = None
    invalid_file: str | None = None
    suspect_file: str | None = None
    """Copies of tuples ahead of the stream; the name is that of the file of panes, in another folder."""
    source_end: int = 0
    hold_us: int | None = None
    """The earliest time of tuples that have come, but that the source keeps waiting."""
    keys: PackedFrequencies = field(default_factory=PackedFrequencies)
    """How often keys came, if tuples are sent by their keys."""

    def to_text(self) -> str:
        """Return the report as it travels."""
        parts = [[part.pane, part.tuples, *vars(part.piece).values()] for part in self.parts]
        return json.dumps({**vars(self), "arrivals": arrivals_to_json(self.arrivals), "parts": parts})

    @staticmethod
    def from_text(text: str) -> "PaneTaskReport":
        """Return the report that a text holds."""
        fields = json.loads(text)
        fields["arrivals"] = arrivals_from_json(fields["arrivals"])
        fields["parts"] = tuple([PanePart(pane, tuples, Piece(*piece)) for pane, tuples, *piece in fields["parts"]])
        fields["keys"] = PackedFrequencies(*fields["keys"])
        fields["partitions"] = tuple([(partition, tuples) for partition, tuples in fields["partitions"]])
        return PaneTaskReport(**fields)


def arrivals_to_json(arrivals: Arrivals) -> dict[str, Any]:
    """Return plain values; of the histogram only where counts are not zero, and these counts."""
    crowds = [list(vars(crowd).values()) for crowd in arrivals.crowds]
    filled = [at for at, n in enumerate(arrivals.delays) if n]
    return {**vars(arrivals), "crowds": crowds, "delays": [filled, [arrivals.delays[at] for at in filled]]}


def arrivals_from_json(fields: dict[str, Any]) -> Arrivals:
    """Return arrivals from what `arrivals_to_json` returned."""
    delays = [0] * BUCKETS
    for at, n in zip(*fields["delays"], strict=True):
        delays[at] = n
    crowds = tuple(Crowd(*crowd) for crowd in fields["crowds"])
    return Arrivals(**{**fields, "crowds": crowds, "delays": tuple(delays), "far_delays_us": tuple(fields["far_delays_us"])})


@dataclass(frozen=True)
class PaneReport:
    """What all tasks of a batch reported together."""

    tasks: tuple[PaneTaskReport, ...] = ()

    @property
    def parts(self) -> Iterable[PanePart]:
        """All parts of all panes."""
        return (part for task in self.tasks for part in task.parts)

    @property
    def invalid(self) -> int:
        """How many tuples belong to no window."""
        return sum(task.invalid for task in self.tasks)

    @property
    def hold_us(self) -> int | None:
        """The earliest time of tuples that have come, but that the source keeps waiting."""
        return min((task.hold_us for task in self.tasks if task.hold_us is not None), default=None)

    def arrivals(self, leap_us: int) -> Arrivals:
        """Return what came in with the batch."""
        return Arrivals.of_tasks([task.arrivals for task in self.tasks], leap_us)

    def keys(self) -> Frequencies:
        """Return how often keys came with the batch."""
        return unpacked([task.keys for task in self.tasks])

    def files(self, output: str) -> tuple[str, ...]:
        """Return the files of an output: "late", "invalid" or "suspect"."""
        return tuple(name for task in self.tasks if (name := getattr(task, f"{output}_file")))

    def sent(self) -> dict[tuple[int, int], int]:
        """Return the tuples of each pane and slot."""
        tuples: dict[tuple[int, int], int] = {}
        for task in self.tasks:
            for part in task.parts:
                tuples[part.pane, task.slot] = tuples.get((part.pane, task.slot), 0) + part.tuples
        return tuples

    def partitions(self, *, sent: bool) -> list[int]:
        """Return the tuples of each partition of the input; if they were sent, by where they came from."""
        tuples: dict[int, int] = {}
        for task in self.tasks:
            for partition, count in task.partitions if sent else ((task.slot, task.arrivals.tuples),):
                tuples[partition] = tuples.get(partition, 0) + count
        return list(tuples.values())

    def uses(self, slots: Iterable[int]) -> list[SlotUse]:
        """Return what each slot did: in a batch all that was sent to a slot is done when it ends."""
        tuples: dict[int, int] = {}
        busy_s: dict[int, float] = {}
        for task in self.tasks:
            tuples[task.slot] = tuples.get(task.slot, 0) + sum(part.tuples for part in task.parts)
            busy_s[task.slot] = busy_s.get(task.slot, 0.0) + task.busy_s
        return [SlotUse(tuples.get(slot, 0), tuples.get(slot, 0), busy_s.get(slot, 0.0)) for slot in slots]


@dataclass(frozen=True)
class WindowFound:
    """A window that came out with tuples."""

    window: int
    tuples: int
    kept: int


@dataclass(frozen=True)
class WindowReport:
    """What the window level did, or a slot of it: the windows with tuples, the names of their results, and what is remembered now."""

    windows: tuple[WindowFound, ...]
    results: tuple[str, ...]
    run: Run | None
    """The run that was written, if anything is to be remembered."""
    busy_s: float
    of_parts: dict[int, float] = field(default_factory=dict)
    """How long each part took, where rows are many; the time of a slot is divided by rows."""
    others_s: float = 0.0
    """By how much all slots together took longer than the slowest of them."""

    @property
    def slowest_s(self) -> float:
        """How long the slowest slot took."""
        return self.busy_s - self.others_s

    @staticmethod
    def together(reports: "Sequence[WindowReport]") -> "WindowReport":
        """Return the report of all slots: each has a part of the rows of every window."""
        first, *others = reports
        if not others:
            return first
        windows = [
            WindowFound(found[0].window, found[0].tuples, sum(slot.kept for slot in found))
            for found in zip(*(report.windows for report in reports), strict=True)
        ]
        runs = [report.run for report in reports if report.run is not None]
        run = runs and Run(
            min(run.first for run in runs),
            max(run.last for run in runs),
            runs[0].level,
            tuple(file for run in runs for file in run.files),
            sum(run.rows for run in runs),
            tuple(parts for run in runs for parts in run.parts),
        )
        results = tuple(name for report in reports for name in report.results)
        of_parts = {part: busy_s for report in reports for part, busy_s in report.of_parts.items()}
        busy_s = sum(report.busy_s for report in reports)
        others_s = busy_s - max(report.slowest_s for report in reports)
        return WindowReport(tuple(windows), results, run or None, busy_s, of_parts, others_s)

    def to_text(self) -> str:
        """Return the report as it travels."""
        windows = [list(vars(window).values()) for window in self.windows]
        of_parts = [list(self.of_parts), [round(busy_s, 6) for busy_s in self.of_parts.values()]]
        return json.dumps({**vars(self), "windows": windows, "run": self.run and self.run.to_json(), "of_parts": of_parts})

    @staticmethod
    def from_text(text: str) -> "WindowReport":
        """Return the report that a text holds."""
        fields = json.loads(text)
        return WindowReport(
            tuple(WindowFound(*window) for window in fields["windows"]),
            tuple(fields["results"]),
            fields["run"] and Run.from_json(fields["run"]),
            fields["busy_s"],
            dict(zip(*fields["of_parts"], strict=True)),
            fields.get("others_s", 0.0),
        )


@dataclass(frozen=True)
class StepReport:
    """What a task that did a part of the window level's work found: the file with it, and its size."""

    file: str
    rows: int
    busy_s: float

    def to_text(self) -> str:
        """Return the report as it travels."""
        return json.dumps(vars(self))

    @staticmethod
    def from_text(text: str) -> "StepReport":
        """Return the report that a text holds."""
        return StepReport(**json.loads(text))
