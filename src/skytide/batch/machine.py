"""A micro-batch as a machine: events in, instructions out. Spark or the simulator carries the instructions out.

    BatchStarted  ──► RunPanes, or if an earlier try was recorded: Emit, Commit, ReadAgain if the input has state
    PanesReported ──► MergePieces if open panes have many, then, and after PiecesMerged:
                      RunWindows (for an operator on keys RunKeys), or nothing ended: Record, Emit, Commit
    WindowsReported, KeysReported ──────────────► Record, Emit, Commit

The output of a batch is recorded before it is emitted. A batch that was cut off after that is repeated from its record, whatever has
changed around it meanwhile; one that was cut off before has emitted nothing, and is decided anew.
"""

from collections import Counter
from dataclasses import dataclass, replace

from skytide.batch.delivery import InSource
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
    RunPanes,
    RunWindows,
    StreamEnded,
    WindowsReported,
)
from skytide.batch.merging import changes_to_replace, pieces_to_merge, runs_to_replace
from skytide.batch.open_panes import reached_us, rows_of, windows_ahead, with_merged, with_parts, within_bounds
from skytide.batch.reports import PaneReport, Run, WindowReport
from skytide.batch.rules import BatchRules, measured_panes
from skytide.batch.spreading import Spreader, rows_read
from skytide.batch.state import OpenPane, Output, State
from skytide.batch.status import with_keys, with_load, with_state
from skytide.batch.window_rows import window_rows
from skytide.keyed import SlotReport
from skytide.records import Status
from skytide.routing import Router
from skytide.windows import Windows

MIN_PERIOD_S, MIN_TOOK_S = 1e-3, 1e-9  # what rates are divided by


@dataclass(frozen=True)
class _Batch:
    """The batch at hand."""

    began_s: float
    period_s: float
    """Since the batch before began."""
    state: State
    """As it will be after the batch, as far as that is known."""
    ended: range = range(0)
    ahead: tuple[range, ...] = ()
    """Windows ahead of the stream that a flush lets out: the stream may still continue behind them."""
    report: PaneReport | None = None
    panes: RunPanes | None = None
    """What the pane level does, or did."""
    windows_s: float = 0.0
    """How long the slowest slot of the window level worked."""

    @property
    def span(self) -> range:
        """From the first window that comes out to the last."""
        some = [windows for windows in (self.ended, *self.ahead) if windows]
        return range(some[0].start, some[-1].stop) if some else range(0)


class Machine:
    """Decides what happens in batch after batch."""

    def __init__(self, rules: BatchRules, latest: State, at_s: float) -> None:
        """Begin with the latest state of the query, if it ran before."""
        self.rules = rules
        self.pane_slots = rules.pane_slots
        self.spreader = Spreader(
            rules.window_slots, rules.can_spread, rules.spreading_pays_s, rules.driver_pays_s, rules.has_groups
        )
        self._follows = rules.slots_follow_cores
        self.window_plan = ""
        self._cores = 1
        self.key_slots = rules.keying.slots if rules.keying else 0
        self.rebalance_now = False
        self.status = Status()
        self._began_s = at_s
        self._batch: _Batch | None = None
        self._seen: tuple[PaneReport, Router] | None = None
        self._slots: tuple[SlotReport, ...] = ()

    def resize(self, pane_slots: int | None = None, window_slots: int | None = None, slots: int | None = None) -> None:
        """Use this many slots from the next batch on; `slots` are those of an operator on keys."""
        self.key_slots = slots or self.key_slots
        self.pane_slots = pane_slots or self.pane_slots
        self.spreader.slots = window_slots or self.spreader.slots
        self._follows = self._follows and window_slots is None

    def cores(self, count: int) -> None:
        """Note how many cores there are now: on a cluster, executors come and go."""
        self._cores = count
        if self._follows:
            self.spreader.slots = count

    def on(self, event: BatchEvent) -> list[Instruction]:
        """Return what has to be done now, in order; its outcome is the next event."""
        match event:
            case BatchStarted():
                return self._start(event)
            case PanesReported():
                return self._decide(event)
            case PiecesMerged():
                return self._with_merged(event)
            case WindowsReported():
                return self._finish(event.report, event.at_s)
            case KeysReported():
                return self._finish_keys(event.reports, event.at_s)
            case StreamEnded():
                return self._flush(event)
            case Restarted():
                # Spark repeats a batch that was not emitted; nobody repeats a flush.
                return _emission(event.latest) if event.latest.flushed and event.latest.sequence > event.emitted else []
            case Committed():
                self._note(event)
                return []

    def _start(self, event: BatchStarted) -> list[Instruction]:
        if event.recorded is not None:
            # After the sinks: what was decided has to come out even if the input can no longer be read.
            missing = _emission(event.recorded) if event.recorded.sequence > event.emitted else []
            is_read = self.rules.input_has_state and not isinstance(self.rules.delivery, InSource)
            return [*missing, ReadAgain()] if is_read else missing
        period_s = max(event.at_s - self._began_s, self.rules.trigger_s or 0.0, MIN_PERIOD_S)
        self._began_s = event.at_s
        state = replace(event.before, batch=event.batch, sequence=event.before.sequence + 1, flushed=False)
        panes = self.rules.run_panes(event.before)
        self._batch = _Batch(event.at_s, period_s, state, panes=panes)
        return [panes]

    def _decide(self, event: PanesReported) -> list[Instruction]:
        """Move the clock, and return what to do for the windows that have ended."""
        assert self._batch is not None
        rules, report, before = self.rules, event.report, self._batch.state
        slack = rules.slack_logic(before)
        arrivals = report.arrivals(before.clock.leap_us(rules.windows))
        clock = before.clock.advance(arrivals, rules.windows, slack, report.hold_us, rules.least_slack_us(before))
        state = replace(
            before,
            clock=clock,
            slack={repr(rules.slack): slack.snapshot()},
            open=with_parts(before.open, report),
            suspects=(*before.suspects, *report.files("suspect")),
            invalid=before.invalid + report.invalid,
            source_end=max([before.source_end, *(task.source_end for task in report.tasks)]),
            output=Output(late=report.files("late"), invalid=report.files("invalid")),
        )
        router = rules.router(before)
        self._learn(router, event, state)
        state = replace(state, pane_slots=self.pane_slots, router={rules.delivery.splitting.name: router.snapshot()})
        self._seen = report, router
        self._batch = replace(self._batch, state=state, report=report)
        merges = self._merges(state)
        return [merges] if merges else self._end_windows(event.at_s)

    def _merges(self, state: State) -> MergePieces | None:
        """Return which pieces to merge of panes that stay open; of those far ahead, copies are found by the files of their pieces."""
        assert self._batch is not None and self._batch.report is not None
        added = Counter(part.pane for part in self._batch.report.parts)
        clock, windows = state.clock, self.rules.windows
        ended = clock.begun(min(state.open, default=None), windows).ended(windows)
        closed = _closed(state, windows, ended)
        staying = (
            pane for pane in sorted(added) if pane in state.open and pane not in closed and not clock.is_ahead(pane, windows)
        )
        merges = tuple(merge for pane in staying for merge in pieces_to_merge(pane, state.open[pane], added[pane]))
        on_driver = self.spreader.on_driver(sum(merge.rows for merge in merges))
        return MergePieces(state.sequence, merges, on_driver) if merges else None

    def _with_merged(self, event: PiecesMerged) -> list[Instruction]:
        assert self._batch is not None
        merges = self._merges(self._batch.state)
        assert merges is not None
        state = replace(self._batch.state, open=with_merged(self._batch.state.open, merges.merges, event.pieces))
        self._batch = replace(self._batch, state=state)
        return self._end_windows(event.at_s)

    def _flush(self, event: StreamEnded) -> list[Instruction]:
        latest = event.latest
        if latest.sequence > event.emitted:
            return _emission(latest)
        if latest.flushed or (latest.clock.newest_us is None and not latest.open):
            return []
        keying, windows = self.rules.keying, self.rules.windows
        leap_us = latest.clock.leap_us(windows)
        reached = reached_us(latest, windows, leap_us, with_held=keying is not None)
        clock = latest.clock.flushed((keying and keying.windows) or windows, reached)
        state = replace(latest, sequence=latest.sequence + 1, flushed=True, clock=clock, output=Output())
        left = () if keying else windows_ahead((pane for pane in latest.open if clock.is_ahead(pane, windows)), windows, leap_us)
        ahead = tuple(part for some in left for part in clock.not_out(some))
        self._batch, self._seen = _Batch(event.at_s, 1.0, state, ahead=ahead), None
        return self._end_windows(event.at_s)

    def _end_windows(self, at_s: float) -> list[Instruction]:
        assert self._batch is not None
        windows, state = self.rules.windows, within_bounds(self._batch.state, self.rules.windows)
        state = replace(state, clock=state.clock.begun(min(state.open, default=None), windows))
        ended = state.clock.ended(windows)
        self._batch = replace(self._batch, state=state, ended=ended)
        if self.rules.keying is not None:
            run = self.rules.keying.run(state, ended, windows) if ended else None
            return [run] if run else self._finish_keys((), at_s)
        span = self._batch.span
        closed = dict(sorted(_closed(state, windows, span).items()))
        if not span or not (closed or state.memory):
            return self._finish(None, at_s)
        spreading = self.spreader.decide(rows_of(closed), self._rows_read(closed))
        self.window_plan = spreading.reason
        return [
            RunWindows(
                sequence=state.sequence,
                ended=span,
                panes={pane: open_pane.pieces for pane, open_pane in closed.items()},
                tuples={pane: open_pane.tuples for pane, open_pane in closed.items()},
                memory=state.memory,
                replaced=self._replaced(state, rows_of(closed)),
                spreading=spreading,
            )
        ]

    def _replaced(self, state: State, new_rows: int) -> int:
        """Return how many of the latest runs are written once more: all, if they are in another format."""
        if any(run.level < 0 for run in state.memory):
            return len(state.memory)
        return (changes_to_replace if self.rules.can_spread else runs_to_replace)(state.memory, new_rows)

    def _rows_read(self, closed: dict[int, OpenPane]) -> int:
        """Return how many remembered rows the window level reads: of a skyline, all."""
        assert self._batch is not None
        memory = self._batch.state.memory
        if self.rules.can_spread:
            return sum(run.rows for run in memory)
        return rows_read(closed, len(self._batch.span), memory, self._replaced(self._batch.state, rows_of(closed)))

    def _remembered(self, state: State, report: WindowReport) -> tuple[Run, ...]:
        """Return what is remembered after the window level, without what no later window holds."""
        assert self._batch is not None
        replaced = self._replaced(state, rows_of(_closed(state, self.rules.windows, self._batch.span)))
        kept = state.memory[: len(state.memory) - replaced]  # of the others, what is needed is in the new run, if anything is
        runs = kept if report.run is None else (*kept, report.run)
        needed = self.rules.windows.panes_of(self._batch.span.stop).start
        return tuple(run for run in runs if run.last >= needed)

    def _finish(self, report: WindowReport | None, at_s: float) -> list[Instruction]:
        assert self._batch is not None
        windows, state, ended, ahead = self.rules.windows, self._batch.state, self._batch.ended, self._batch.ahead
        if report:
            closed = _closed(state, windows, self._batch.span)
            self._batch = replace(self._batch, windows_s=report.slowest_s)
            self.spreader.measured(report.busy_s, rows_of(closed), self._rows_read(closed), report.of_parts)
            open_ = {pane: open_pane for pane, open_pane in state.open.items() if pane not in closed}
            state = replace(state, memory=self._remembered(state, report), open=open_)
        if self._batch.span:
            late = state.clock.late - state.late_reported
            out = [*state.clock.not_out(ended), *ahead]
            rows = window_rows(windows, out, report.windows if report else (), late, at_s)
            results = report.results if report else ()
            state = replace(
                state,
                clock=state.clock.emitted(ended, ahead),
                late_reported=state.clock.late if rows else state.late_reported,
                windows_out=state.windows_out + sum(map(len, out)),
                output=replace(state.output, results=results, rows=rows),
            )
        self._batch = replace(self._batch, state=state)
        return [Record(state), *_emission(state)]

    def _finish_keys(self, reports: tuple[SlotReport, ...], at_s: float) -> list[Instruction]:
        assert self._batch is not None and self.rules.keying is not None
        state, ended = self._batch.state, self._batch.ended
        if ended:
            state = self.rules.keying.after(state, ended, reports, self.rules.windows, at_s)
        now, self.rebalance_now = self.rebalance_now, False
        state, self.window_plan = self.rules.keying.rebalanced(state, reports, self.key_slots, now=now)
        self._batch = replace(self._batch, state=state)
        self._slots = reports or self._slots
        return [Record(state), *_emission(state)]

    def _learn(self, router: Router, event: PanesReported, state: State) -> None:
        """Tell the router what its slots did, and how busy the pane level was with the batch before: how long this one takes is not known yet."""
        assert self._batch is not None
        report, windows = event.report, self.rules.windows
        router.renumber(self.rules.delivery.slots_of(report, len(router.slots)))
        panes: Counter[int] = Counter()
        for (pane, slot), tuples in sorted(report.sent().items()):
            if not state.clock.is_ahead(pane, windows):  # a few tuples far ahead, which say nothing about the sizes of panes
                router.record(pane, slot, tuples)
                panes[pane] += tuples
        router.recent_panes.learn(panes)
        if router.chooser and self._batch.panes:
            took_s = event.at_s - self._batch.began_s
            router.chooser.learn(measured_panes(report, self.rules, self._batch.panes, took_s, self._cores))
        if state.clock.punctuation_us is not None:
            router.close(windows.pane_of(state.clock.punctuation_us))
        router.sample(self.status.pane_utilisation)
        if router.keys:
            router.keys.learn(report.keys(), event.at_s)
        router.renumber(self.pane_slots)

    def _note(self, event: Committed) -> None:
        """Bring the status up to date."""
        state = event.state
        status = replace(self.status, window_slots=self.spreader.slots, window_plan=self.window_plan)
        if self._batch is not None and self._batch.panes is not None:
            status = replace(status, pane_plan=self._batch.panes.reason)
        status = with_keys(with_state(status, self.rules, state), state, self.key_slots, self._slots)
        if self._batch is not None and self._batch.state is state and self._seen is not None:
            report, router = self._seen
            took_s = max(event.at_s - self._batch.began_s, MIN_TOOK_S)
            times = {"took_s": took_s, "period_s": self._batch.period_s, "windows_s": self._batch.windows_s}
            status = with_load(status, self.rules, report, router, at_s=event.at_s, **times)
        self.status, self._batch = status, None


def _closed(state: State, windows: Windows, out: range) -> dict[int, OpenPane]:
    """Return the open panes that no window after these can hold."""
    stop = windows.panes_of(out[-1]).stop if out else 0
    return {pane: open_pane for pane, open_pane in state.open.items() if out and pane < stop}


def _emission(state: State) -> list[Instruction]:
    """Return the instructions that emit the recorded output of a state."""
    return [Emit(state.sequence, state.output), Commit(state)]
