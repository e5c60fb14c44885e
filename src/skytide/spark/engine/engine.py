"""Carries out on Spark what the machine of `skytide.batch` decides: pane level, window level, record, sinks, commit."""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

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
    Output,
    PanesReported,
    ReadAgain,
    Record,
    Restarted,
    RunKeys,
    RunPanes,
    RunWindows,
    StreamEnded,
    WindowsReported,
)
from skytide.errors import InvalidInput
from skytide.keyed import KeyedStep
from skytide.queries import Identity, Query
from skytide.records import Status, Step, WindowRow
from skytide.spark.checkpoint import SparkNotes, Store
from skytide.spark.checkpoint.sink_notes import note_sinks
from skytide.spark.clock import Now, time_of_day
from skytide.spark.engine.identity import check_same, order_of, texts_of
from skytide.spark.engine.jobs import Jobs
from skytide.spark.engine.key_level import KeyTask, state_versions
from skytide.spark.engine.pane_level import PaneTask
from skytide.spark.engine.spread import run_windows
from skytide.spark.engine.window_level import WindowTask, result_columns
from skytide.spark.sinks.outlets import Outlet, Sinks, check_unsent
from skytide.spark.sinks.parquet import ParquetSink
from skytide.spark.sinks.sinks import Appending

RECENT_WINDOWS = 1_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """What a continuous query is: set at its start, the same for every batch."""

    query: Query
    rules: BatchRules
    time: str
    columns: pa.Schema
    """The columns of the tuples, as the query reads them."""
    helpers: tuple[str, ...]
    """Columns that hold expressions, and do not go to the sink."""
    store: Store
    known_as: Identity | None = None
    """The query as it was written, before expressions became columns."""
    late_wanted: bool = False
    invalid_wanted: bool = False
    step: KeyedStep | None = None
    """What is done with the tuples of each key, if this is an operator on keys."""

    @property
    def results(self) -> pa.Schema:
        """The columns of the results."""
        time = self.columns.field(self.time).type
        return self.step.results if self.step else result_columns(self.query, self.columns, time, self.helpers)

    @cached_property
    def _known_as(self) -> Identity:
        return self.known_as or self.query.identity()

    def identity(self) -> dict[str, str]:
        """Return what must not change between two starts with one checkpoint, as texts."""
        return texts_of(self._known_as, self.rules.windows, self.step, self.time, self.columns, self.results)

    def continued(self) -> "Plan":
        """Return the plan with aggregates in the order in which its store has them; refuse the state of another query."""
        before, now = self.store.latest().identity, self.identity()
        upgrades = bool(self.step and self.step.operator and hasattr(self.step.operator.own, "upgrade"))
        check_same(before, now, self.store.folder, upgrades=upgrades)
        self._check_versions()
        order = order_of(before, now)
        return self if order is None else replace(self, query=self.query.arranged(order), known_as=self._known_as.arranged(order))

    def _check_versions(self) -> None:
        """Refuse an operator on keys that cannot read states of other versions, before it writes its own beside them."""
        operator, keyed = self.step.operator if self.step else None, self.store.latest().keyed
        if operator is None or keyed is None or hasattr(operator.own, "upgrade"):
            return
        for version in sorted(state_versions(self.store.files, keyed) - {operator.version}):
            raise InvalidInput(
                value=f"{operator.name} of version {operator.version}",
                reason=f"the checkpoint {self.store.folder} has states that its version {version} wrote",
                remedy="add a method upgrade(state, version), go back to that version, or start with another checkpoint folder",
            )

    def pane_task(self, work: RunPanes) -> PaneTask:
        """Return the task of the pane level for a batch."""
        return PaneTask(
            query=self.query,
            columns=self.columns,
            time=self.time,
            windows=self.rules.windows,
            store=self.store.files,
            plan=work,
            late_wanted=self.late_wanted,
            invalid_wanted=self.invalid_wanted,
        )

    def window_task(self, work: RunWindows, parquet: ParquetSink | None) -> WindowTask:
        """Return the task of the window level that answers the windows that ended."""
        return WindowTask(
            query=self.query,
            windows=self.rules.windows,
            rows=self.columns,
            time_type=self.columns.field(self.time).type,
            store=self.store.files,
            work=work,
            helpers=self.helpers,
            parquet=parquet,
        )

    def key_task(self, work: RunKeys, parquet: ParquetSink | None) -> KeyTask:
        """Return the task of a slot of an operator on keys."""
        assert self.step is not None
        return KeyTask(self.step, self.store.files, work, parquet)

    def outlet(self, sinks: Sinks) -> Outlet:
        """Return what hands the sinks their parts."""
        rows = pa.schema([field for field in self.columns if field.name not in self.helpers])
        return Outlet(sinks, self.store.files, rows, self.results, self.time, self.rules.windows)


class Engine:
    """Runs batches, and knows how the query is doing."""

    def __init__(self, plan: Plan, sinks: Sinks, notes: SparkNotes | None = None, clock: Now = time_of_day) -> None:
        """Continue from the state in the plan's store; `notes` are Spark's own, which have to match it; `clock` dates events."""
        plan = plan.continued()
        check_unsent(sinks, plan.store)
        plan.store.take_over(notes)
        if notes is not None:
            notes.remove_drafts()
        if isinstance(sinks.results, Appending):
            sinks.results.identity = plan.store.transactions()
        note_sinks(plan.store.files, sinks.notes())
        for folder in sinks.folders:
            folder.forget_after(plan.store.latest().sequence, plan.store.identity(), plan.store.checkpoint)
        self.plan, self.sinks, self._clock = plan, sinks, clock
        self._outlet, self._identity = plan.outlet(sinks), plan.identity()
        self._machine = Machine(plan.rules, plan.store.latest(), clock())
        self._lock = threading.Lock()
        self._recent: deque[WindowRow] = deque(maxlen=RECENT_WINDOWS)
        self.latest_output: tuple[int, Output] | None = None
        """The latest output that had results, and its number."""
        self._noticed = False
        self._worker: int | None = None
        self.seconds: dict[Step, float] = {}
        """Where the time of all batches went: by step, and within the tasks of the levels."""

    def run_batch(self, jobs: Jobs, batch: Any, batch_id: int) -> None:
        """Run one batch, or emit once more what an earlier attempt at it decided."""
        store = self.plan.store
        recorded = store.recorded(batch_id)
        before = store.before(batch_id)
        self._drive(BatchStarted(batch_id, before, self._clock(), recorded, store.emitted()), jobs, batch)

    def flush(self, jobs: Jobs) -> None:
        """Emit the last windows, after the last batch of a stream that has ended."""
        self._drive(StreamEnded(self.plan.store.latest(), self._clock(), self.plan.store.emitted()), jobs)

    def finish_flush(self, jobs: Jobs) -> None:
        """Emit what a flush that was cut off still has to emit."""
        self._drive(Restarted(self.plan.store.latest(), self._clock(), self.plan.store.emitted()), jobs)

    def resize(self, pane_slots: int | None = None, window_slots: int | None = None, slots: int | None = None) -> None:
        """Change the number of slots, from the next batch on."""
        self._machine.resize(pane_slots, window_slots, slots)

    @property
    def slots(self) -> tuple[int, int, int]:
        """The slots of the pane level, the window level and an operator on keys, from the next batch on; the status has those of the latest batch."""
        return self._machine.pane_slots, self._machine.spreader.slots, self._machine.key_slots

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
        store, rules = self.plan.store, self.plan.rules
        match instruction:
            case RunPanes():
                with self._timed(Step.PANE_LEVEL):
                    report = jobs.panes(batch, self.plan.pane_task(instruction), rules.delivery)
                self._spent(Step.PANE_TASKS, sum(task.busy_s for task in report.tasks))
                return [PanesReported(report, self._clock())]
            case ReadAgain():
                with self._timed(Step.PANE_LEVEL):
                    jobs.read(batch)
                return []
            case RunWindows():
                with self._timed(Step.WINDOW_LEVEL):
                    found = run_windows(jobs, self.plan.window_task(instruction, self.sinks.parquet))
                self._spent(Step.WINDOW_TASK, found.busy_s)
                return [WindowsReported(found, self._clock())]
            case RunKeys():
                with self._timed(Step.KEY_LEVEL):
                    reports = jobs.keys(self.plan.key_task(instruction, self.sinks.parquet))
                self._spent(Step.KEY_TASKS, sum(report.busy_s for report in reports))
                return [KeysReported(reports, self._clock())]
            case Record(state):
                with self._timed(Step.COMMIT):
                    store.record(replace(state, identity=self._identity))
                return []
            case Emit(sequence, output):
                with self._timed(Step.SINK):
                    self._outlet.emit(jobs, output, sequence)
                return []
            case Commit(state):
                with self._timed(Step.COMMIT):
                    store.mark_emitted(state.sequence)
                    for folder in self.sinks.folders:
                        folder.clean(state.sequence)
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
