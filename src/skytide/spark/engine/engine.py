"""Carries out on Spark what the machine of `skytide.batch` decides: pane level, window level, record, sinks, commit."""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from skytide.batch import (
    BatchEvent,
    BatchRules,
    BatchStarted,
    Commit,
    Committed,
    Emit,
    Instruction,
    KeysReported,
    Machine,
    MergePieces,
    Output,
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
from skytide.records import Slots, Status, Step, WindowRow
from skytide.spark.checkpoint import SparkLogs, Store
from skytide.spark.checkpoint.sink_notes import note_sinks
from skytide.spark.clock import Now, time_of_day
from skytide.spark.engine.emitting import Emitter
from skytide.spark.engine.jobs import Jobs
from skytide.spark.engine.keys import KeyTask
from skytide.spark.engine.panes import PaneTask
from skytide.spark.engine.pieces import MergeTask
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.engine.spread import merge_pieces, run_windows
from skytide.spark.engine.windows import WindowTask
from skytide.spark.sinks.base import CheckpointIdentity
from skytide.spark.sinks.roles import Sinks

RECENT_WINDOWS = 1_000

_log = logging.getLogger(__name__)


class Engine:
    """Runs batches, and knows how the query is doing."""

    def __init__(
        self,
        spec: QuerySpec,
        rules: BatchRules,
        store: Store,
        sinks: Sinks,
        logs: SparkLogs | None = None,
        clock: Now = time_of_day,
    ) -> None:
        """Continue from the state in a store; `logs` are Spark's own, which have to match it; `clock` dates events."""
        self.spec, self.rules, self.store, self.sinks, self._clock = spec.continued(store), rules, store, sinks, clock
        self._emitter, self._texts = Emitter(self.spec, sinks, store.files), self.spec.texts()
        self._open(logs)
        self._machine = Machine(rules, store.latest(), clock())
        self._lock = threading.Lock()
        self._recent: deque[WindowRow] = deque(maxlen=RECENT_WINDOWS)
        self.latest_output: tuple[int, Output] | None = None
        """The latest output that had results, and its number."""
        self._noticed = False
        self._worker: int | None = None
        self.seconds: dict[Step, float] = {}
        """Where the time of all batches went: by step, and within the tasks of the levels."""

    def _open(self, logs: SparkLogs | None) -> None:
        """Take the store over and open the sinks; refuse first what cannot go on, as then nothing has changed."""
        store, sinks = self.store, self.sinks
        sinks.check(store)
        store.take_over(logs)
        try:
            if logs is not None:
                logs.remove_drafts()
            identity = CheckpointIdentity.of(store)
            sinks.open(self._emitter.schemas, identity)
            note_sinks(store.files, sinks.notes())
            sinks.forget(identity.latest, identity)
        except BaseException:
            store.release()
            raise

    def run_batch(self, jobs: Jobs, batch: Any, batch_id: int) -> None:
        """Run one batch, or emit once more what an earlier attempt at it decided."""
        self._machine.cores(jobs.cores())
        recorded, before = self.store.recorded(batch_id), self.store.before(batch_id)
        self._drive(BatchStarted(batch_id, before, self._clock(), recorded, self.store.emitted()), jobs, batch)

    def flush(self, jobs: Jobs) -> None:
        """Emit the last windows, after the last batch of a stream that has ended."""
        self._drive(StreamEnded(self.store.latest(), self._clock(), self.store.emitted()), jobs)

    def finish_flush(self, jobs: Jobs) -> None:
        """Emit what a flush that was cut off still has to emit."""
        self._drive(Restarted(self.store.latest(), self._clock(), self.store.emitted()), jobs)

    def resize(self, pane_slots: int | None = None, window_slots: int | None = None, slots: int | None = None) -> None:
        """Change the number of slots, from the next batch on."""
        self._machine.resize(pane_slots, window_slots, slots)

    @property
    def slots(self) -> Slots:
        """The slots from the next batch on; the status has those of the latest batch."""
        machine = self._machine
        return Slots(machine.pane_slots, machine.spreader.slots, machine.key_slots if self.rules.keying else None)

    def rebalance(self) -> None:
        """Spread keys anew with the next batch, as evenly as possible."""
        self._machine.rebalance_now = True

    def status(self) -> Status:
        """Return the latest status."""
        return self._machine.status

    def recent_windows(self) -> list[WindowRow]:
        """Return the latest windows that came out."""
        with self._lock:
            return list(self._recent)

    def works_here(self) -> bool:
        """Return whether it is a sink that asks: the thread of the caller is in the middle of a batch or a flush."""
        return self._worker == threading.get_ident()

    def _drive(self, event: BatchEvent, jobs: Jobs, batch: Any = None) -> None:
        events = deque([event])
        self._worker = threading.get_ident()
        try:
            while events:
                for instruction in self._machine.on(events.popleft()):
                    events.extend(self._carry_out(instruction, jobs, batch))
        finally:
            self._worker = None
        if self._machine.status.notice and not self._noticed:
            self._noticed = True
            _log.warning("%s", self._machine.status.notice)

    def _carry_out(self, instruction: Instruction, jobs: Jobs, batch: Any) -> list[BatchEvent]:
        spec, files = self.spec, self.store.files
        match instruction:
            case RunPanes():
                with self._timed(Step.PANE_LEVEL):
                    report = jobs.panes(batch, PaneTask(spec, files, instruction), self.rules.delivery)
                self._spent(Step.PANE_TASKS, sum(task.busy_s for task in report.tasks))
                return [PanesReported(report, self._clock())]
            case ReadAgain():
                with self._timed(Step.PANE_LEVEL):
                    jobs.read(batch)
                return []
            case MergePieces():
                with self._timed(Step.WINDOW_LEVEL):
                    pieces = merge_pieces(jobs, MergeTask(spec, files, instruction))
                return [PiecesMerged(pieces, self._clock())]
            case RunWindows():
                with self._timed(Step.WINDOW_LEVEL):
                    done = run_windows(jobs, WindowTask(spec, files, instruction, self.sinks.results.in_tasks))
                self._spent(Step.WINDOW_TASK, done.busy_s)
                return [WindowsReported(done, self._clock())]
            case RunKeys():
                with self._timed(Step.KEY_LEVEL):
                    reports = jobs.keys(KeyTask(spec, files, instruction, self.sinks.results.in_tasks))
                self._spent(Step.KEY_TASKS, sum(report.busy_s for report in reports))
                return [KeysReported(reports, self._clock())]
            case Record(state):
                with self._timed(Step.COMMIT):
                    self.store.record(replace(state, identity=self._texts))
                return []
            case Emit(sequence, output):
                with self._timed(Step.SINK):
                    self._emitter.emit(jobs, output, sequence)
                return []
            case Commit(state):
                with self._timed(Step.COMMIT):
                    self.store.mark_emitted(state.sequence)
                with self._lock:
                    self._recent.extend(state.output.rows)
                if state.output.results:
                    self.latest_output = state.sequence, state.output
                return [Committed(state, self._clock())]

    @contextmanager
    def _timed(self, step: Step) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._spent(step, time.perf_counter() - began)

    def _spent(self, step: Step, seconds: float) -> None:
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds
