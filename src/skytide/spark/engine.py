"""What happens in a micro-batch of a continuous query: pane level, progress, window level, sink, commit."""

import re
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from skytide.errors import InvalidInput
from skytide.lateness import Slack
from skytide.queries import Query
from skytide.records import Status, WindowRow
from skytide.routing import EVEN, TB_RR, Router, Splitting, utilisation
from skytide.spark.checkpoint import SparkNotes, Store
from skytide.spark.jobs import Jobs
from skytide.spark.pane_level import PaneReport, PaneTask
from skytide.spark.parquet_sink import ParquetSink
from skytide.spark.sinks import Sink
from skytide.spark.spread import Spread
from skytide.spark.store import State
from skytide.spark.window_level import WindowTask, result_columns
from skytide.windows import Windows, shown

RECENT_WINDOWS = 1_000


@dataclass(frozen=True)
class Plan:
    """What a continuous query is: set at its start, the same for every batch."""

    query: Query
    windows: Windows
    slack: Slack
    time: str
    columns: pa.Schema
    """The columns of the tuples, as the query reads them."""
    helpers: tuple[str, ...]
    """Those that hold expressions, and do not go to the sink."""
    store: Store
    wording: str = ""
    """The query as it was asked, before expressions became columns."""
    splitting: Splitting = EVEN
    pane_slots: int = 2
    window_slots: int = 1

    def identity(self) -> dict[str, str]:
        """Give what must not change between two starts with one checkpoint, as texts."""
        return {
            "query": re.sub(r" at 0x[0-9a-f]+", "", self.wording or repr(self.query)),
            "windows": f"{shown(self.windows.length_us)} every {shown(self.windows.slide_us)}",
            "time": self.time,
            "columns": ", ".join(f"{field.name} {field.type}" for field in self.columns),
        }

    def check_store(self) -> None:
        """Refuse to go on with the state of another query."""
        before, now = self.store.latest().identity, self.identity()
        for what in now:
            if before.get(what, now[what]) != now[what]:
                raise InvalidInput(
                    value=f"{what}: {now[what]}",
                    reason=f"the checkpoint {self.store.folder} belongs to a query with {before[what]}",
                    remedy="start a changed query with another checkpoint folder",
                )

    def router(self, before: State) -> Router:
        """Give the router as a batch finds it that starts from a state."""
        router = self.splitting.build(before.pane_slots or self.pane_slots, before.router.get(self.splitting.name))
        router.renumber(before.pane_slots or self.pane_slots)
        return router

    def pane_task(self, before: State, sequence: int, late_wanted: bool) -> PaneTask:
        """Give the task of the pane level for a batch that starts from a state."""
        return PaneTask(
            query=self.query,
            columns=self.columns,
            time=self.time,
            windows=self.windows,
            newest_us=before.progress.newest_us,
            punctuation_us=before.progress.punctuation_us,
            store=self.store.files,
            sequence=sequence,
            late_wanted=late_wanted,
        )

    def window_task(self, state: State, panes: dict[int, tuple[str, ...]], ended: range, parquet: ParquetSink | None) -> WindowTask:
        """Give the task of the window level that lets the ended windows out."""
        return WindowTask(
            query=self.query,
            windows=self.windows,
            rows=self.columns,
            time_type=self.columns.field(self.time).type,
            store=self.store.files,
            sequence=state.sequence,
            memory=state.memory,
            panes=panes,
            ended=ended,
            helpers=self.helpers,
            parquet=parquet,
        )


@dataclass(frozen=True)
class Sinks:
    """Where things go: results, and if wanted the late tuples and a row for each window."""

    results: Sink
    late: Sink | None = None
    windows: Sink | None = None


class Engine:
    """Runs batches, and says how it is doing meanwhile."""

    def __init__(
        self, plan: Plan, sinks: Sinks, trigger_s: float | None = None, routes: bool = False, notes: SparkNotes | None = None
    ) -> None:
        """Go on from where the plan's store stands; `routes`: tuples reach their slots by a shuffle, not as they lie."""
        plan.check_store()
        plan.store.take_over(notes)
        self.plan, self.sinks = plan, sinks
        self._trigger_s, self._routes = trigger_s, routes
        self._pane_slots = plan.store.latest().pane_slots or plan.pane_slots
        self._spread = Spread(plan.window_slots)
        self._lock = threading.Lock()
        self._recent: deque[WindowRow] = deque(maxlen=RECENT_WINDOWS)
        self._began = time.time()
        self._status = Status(-1, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, None)
        self.seconds: dict[str, float] = {}
        """Where the time went over all batches: of the steps, and within the tasks of the two levels."""

    def run_batch(self, jobs: Jobs, batch: Any, batch_id: int) -> None:
        """Run one batch. State and results depend only on the state before and the batch, so it may be run again."""
        began = time.time()
        before = self.plan.store.before(batch_id)
        sequence = before.sequence + 1
        router = self.plan.router(before)
        task = self.plan.pane_task(before, sequence, self.sinks.late is not None)
        reports = jobs.panes_routed(batch, task, router) if self._routes else jobs.panes(batch, task)
        report = PaneReport.read(reports)
        kind = repr(self.plan.slack)
        slack = self.plan.slack.build(before.slack.get(kind))
        progress = before.progress.advance(report.arrivals, list(report.files), self.plan.windows, slack)
        state = replace(
            before,
            batch=batch_id,
            sequence=sequence,
            flushed=False,
            progress=progress,
            slack={kind: slack.snapshot()},
            open={p: (*before.open.get(p, ()), *report.files.get(p, ())) for p in {*before.open, *report.files}},
            tuples={p: before.tuples.get(p, 0) + report.tuples.get(p, 0) for p in {*before.tuples, *report.tuples}},
            kept={**before.kept, **report.kept},
            source_end=max(before.source_end, report.source_end),
        )
        self._spent("pane level", began)
        self.seconds["pane tasks"] = self.seconds.get("pane tasks", 0.0) + sum(report.busy_s.values())
        if self.sinks.late and report.late_files:
            self.sinks.late(jobs.stored(self.plan.store.files, report.late_files, self.plan.columns), sequence)
        else:
            _clear(self.sinks.late, sequence)
        state = self._let_out(jobs, state)
        measured = self._learn(router, report, state, began)
        state = replace(state, pane_slots=self._pane_slots, router={self.plan.splitting.name: router.snapshot()})
        self._commit(state)
        self._note(state, report, slack.slack_us, began, router, measured)

    def flush(self, jobs: Jobs) -> None:
        """Let the last windows out, after the last batch of a stream that has ended.

        That it began is noted first: after a crash it is finished before anything else, as its number may have gone to a sink.
        """
        before = self.plan.store.latest()
        if before.flushed or before.progress.newest_us is None:
            return
        if not before.flushing:
            before = replace(before, sequence=before.sequence + 1, flushing=True)
            self._commit(before)
        progress = before.progress.flushed(self.plan.windows)
        state = self._let_out(jobs, replace(before, flushing=False, flushed=True, progress=progress))
        self._commit(state)
        with self._lock:
            last = self._recent[-1] if self._recent else None
            self._status = replace(self._status, open_panes=len(state.open), windows_out=state.windows_out, last_window=last)

    def finish_flush(self, jobs: Jobs) -> None:
        """Let out what a flush that was cut off still owes."""
        if self.plan.store.latest().flushing:
            self.flush(jobs)

    def resize(self, pane_slots: int | None = None, window_slots: int | None = None) -> None:
        """Change the number of slots, from the next batch on."""
        for name, slots in (("pane_slots", pane_slots), ("window_slots", window_slots)):
            if slots is not None and slots < 1:
                raise InvalidInput(value=f"{name}={slots}", reason="work must go somewhere", remedy="give at least 1")
        self._pane_slots = pane_slots or self._pane_slots
        self._spread.slots = window_slots or self._spread.slots

    def status(self) -> Status:
        """Give the latest status."""
        with self._lock:
            return self._status

    def recent_windows(self) -> list[WindowRow]:
        """Give the latest windows that came out."""
        with self._lock:
            return list(self._recent)

    def _let_out(self, jobs: Jobs, state: State) -> State:
        """Give the state after all ended windows came out."""
        windows = self.plan.windows
        parquet = self.sinks.results if isinstance(self.sinks.results, ParquetSink) else None
        ended = state.progress.ended(windows)
        if not ended:
            _clear(self.sinks.results, state.sequence)
            _clear(self.sinks.windows, state.sequence)
            return state
        began = time.time()
        closed = {pane: files for pane, files in state.open.items() if pane < windows.panes_of(ended[-1]).stop}
        kept: dict[int, int] = {}
        if closed or state.memory:
            task = self.plan.window_task(state, closed, ended, parquet)
            *reports, whole = self._spread.run(jobs, task, state)
            kept = {row["window"]: row["kept"] for row in reports}
            self.seconds["window task"] = self.seconds.get("window task", 0.0) + whole["busy_s"]
            state = replace(state, memory=whole["file"], memory_rows=whole["kept"])
            began = self._spent("window level", began)
            if parquet:
                parquet.publish(whole["results"], state.sequence)
            else:
                columns = result_columns(self.plan.query, self.plan.columns, task.time_type, self.plan.helpers)
                self.sinks.results(jobs.stored(self.plan.store.files, (whole["results"],), columns), state.sequence)
        else:
            _clear(self.sinks.results, state.sequence)
        rows = self._rows(ended, kept, state)
        if self.sinks.windows:
            table = _table(rows, self.plan.columns.field(self.plan.time).type)
            if isinstance(self.sinks.windows, ParquetSink):
                self.sinks.windows.write(table, state.sequence)
            else:
                self.sinks.windows(jobs.rows(table), state.sequence)
        self._spent("sink", began)
        with self._lock:
            self._recent.extend(rows)
        first_needed = windows.panes_of(ended.stop).start
        return replace(
            state,
            progress=state.progress.emitted(ended),
            open={pane: files for pane, files in state.open.items() if pane not in closed},
            kept={
                file: rows
                for pane, files in state.open.items()
                if pane not in closed
                for file in files
                for rows in [state.kept[file]]
            },
            tuples={pane: count for pane, count in state.tuples.items() if pane >= first_needed},
            late_reported=state.progress.late,
            windows_out=state.windows_out + len(ended),
        )

    def _learn(self, router: Router, report: PaneReport, state: State, began: float) -> float | None:
        """Tell the router what its slots did, and give their utilisation."""
        if not self._routes and self.plan.splitting.name == TB_RR.name:
            router.renumber(max(report.busy_s, default=0) + 1)  # as many as the batch had partitions
        for (pane, slot), tuples in sorted(report.partitions.items()):
            router.record(pane, slot, tuples)
        if state.progress.next_window is not None:
            router.close(self.plan.windows.panes_of(state.progress.next_window).stop - self.plan.windows.panes_per_slide)
        period_s = max(began - self._began, self._trigger_s or 0.0, 1e-3)
        measured = utilisation(report.uses(router.slots), period_s)
        router.sample(measured)
        router.renumber(self._pane_slots)
        return measured

    def _rows(self, ended: range, kept: dict[int, int], state: State) -> list[WindowRow]:
        now = time.time()
        windows = self.plan.windows
        return [
            WindowRow(
                window_start_us=windows.start_us(window),
                window_end_us=windows.end_us(window),
                tuples=sum(state.tuples.get(pane, 0) for pane in windows.panes_of(window)) if state.tuples else 0,
                kept=kept.get(window, 0),
                late=state.progress.late - state.late_reported if window == ended[0] else 0,
                latency_s=now - windows.end_us(window) / 1e6,
            )
            for window in ended
        ]

    def _commit(self, state: State) -> None:
        began = time.time()
        self.plan.store.commit(replace(state, identity=self.plan.identity()))
        for sink in (self.sinks.results, self.sinks.late, self.sinks.windows):
            if isinstance(sink, ParquetSink):
                sink.clean(state.sequence)
        self._spent("commit", began)

    def _spent(self, what: str, since: float) -> float:
        now = time.time()
        self.seconds[what] = self.seconds.get(what, 0.0) + now - since
        return now

    def _note(self, state: State, report: PaneReport, slack_us: int, began: float, router: Router, measured: float | None) -> None:
        now = time.time()
        interval = max(began - self._began, self._trigger_s or 0.0, 1e-9)
        newest = state.progress.newest_us
        with self._lock:
            self._status = Status(
                batch=state.batch,
                input_rate_hz=report.arrivals.tuples / interval,
                processing_rate_hz=report.arrivals.tuples / max(now - began, 1e-9),
                utilisation=(now - began) / (self._trigger_s or now - began),
                backlog_s=0.0 if newest is None else max(0.0, now - newest / 1e6),
                open_panes=len(state.open),
                slack_us=slack_us,
                tuples=state.progress.tuples,
                late=state.progress.late,
                windows_out=state.windows_out,
                last_window=self._recent[-1] if self._recent else None,
                pane_slots=len(report.busy_s),
                pane_utilisation=measured,
                splitting_factor=router.splitting_factor,
                threshold=router.threshold,
                window_slots=self._spread.slots,
                window_plan=self._spread.said,
            )
        self._began = began


def _clear(sink: Sink | None, number: int) -> None:
    """Remove what an earlier try of a batch wrote that now has nothing to write."""
    if isinstance(sink, ParquetSink):
        sink.clear(number)


def _table(rows: list[WindowRow], time_type: pa.DataType) -> pa.Table:
    bounds = {name: pa.array([getattr(row, f"{name}_us") for row in rows], time_type) for name in ("window_start", "window_end")}
    return pa.table({**bounds, **{name: [getattr(row, name) for row in rows] for name in ("tuples", "kept", "late", "latency_s")}})
