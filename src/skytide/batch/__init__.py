"""One micro-batch of a continuous query as a pure machine, which Spark and the simulator carry out."""

from skytide.batch.delivery import Delivery, InPlace, InSource, InSplits, Sent
from skytide.batch.events import (
    BatchEvent,
    BatchStarted,
    Commit,
    Committed,
    Emit,
    Instruction,
    KeysReported,
    MergePieces,
    PanesReported,
    PiecesMerged,
    ReadAgain,
    Record,
    Restarted,
    RunKeys,
    RunPanes,
    RunWindows,
    StreamEnded,
    WindowsReported,
)
from skytide.batch.keying import Keying
from skytide.batch.machine import Machine
from skytide.batch.merging import PiecesToMerge
from skytide.batch.pacing import POLL_US, Pace
from skytide.batch.reports import PanePart, PaneReport, PaneTaskReport, Piece, Run, StepReport, WindowFound, WindowReport
from skytide.batch.rules import BatchRules
from skytide.batch.spreading import DRIVER_S, OnDriver, OneTask, Parts
from skytide.batch.state import OpenPane, Output, State

__all__ = [
    "DRIVER_S",
    "POLL_US",
    "BatchEvent",
    "BatchRules",
    "BatchStarted",
    "Commit",
    "Committed",
    "Delivery",
    "Emit",
    "InPlace",
    "InSource",
    "InSplits",
    "Instruction",
    "Keying",
    "KeysReported",
    "Machine",
    "MergePieces",
    "OnDriver",
    "OneTask",
    "OpenPane",
    "Output",
    "Pace",
    "PanePart",
    "PaneReport",
    "PaneTaskReport",
    "PanesReported",
    "Parts",
    "Piece",
    "PiecesMerged",
    "PiecesToMerge",
    "ReadAgain",
    "Record",
    "Restarted",
    "Run",
    "RunKeys",
    "RunPanes",
    "RunWindows",
    "Sent",
    "State",
    "StepReport",
    "StreamEnded",
    "WindowFound",
    "WindowReport",
    "WindowsReported",
]
