"""A micro-batch as a machine: events in, instructions out. Spark carries the instructions out, or the simulator.

    BatchStarted  ──► RunPanes
    PanesReported ──► RunWindows (for an operator on keys RunKeys), or nothing ended: Record, Emit, Commit
    WindowsReported, KeysReported ──────────────► Record, Emit, Commit

What a batch lets out is recorded before it is emitted. A batch that was cut off after that is repeated by its record, whatever has
changed around it meanwhile; one that was cut off before has let nothing out, and is decided anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skytide.batch.events import (
    BatchStarted,
    Commit,
    Committed,
    Emit,
    Event,
    Instruction,
    KeysReported,
    PanesReported,
    Record,
    Restarted,
    RunPanes,
    RunWindows,
    StreamEnded,
    WindowsReported,
)
from skytide.batch.keying import Keying, names_of
from skytide.batch.reports import PaneReport, WindowFound, WindowReport
from skytide.batch.spreading import DRIVER_S, WORTH_S, Spreader
from skytide.batch.state import OpenPane, Output, State
from skytide.batch.ways import InPlace, InSource, Way
from skytide.keyed import SlotReport
from skytide.lateness import Slack, SlackLogic
from skytide.records import Status, WindowRow
from skytide.records.printing import LIVE_S
from skytide.routing import Router, utilisation
from skytide.windows import Windows, shown

MAX_EMPTY_ROWS = 1_000
"""Longer runs of empty windows come out as one row."""
LONG_SLACK_WINDOWS = 10
"""A slack of more windows than this is worth a word: nothing comes out for so long."""


@dataclass(frozen=True)
class Rules:
    """What a continuous query decides by: set at its start, the same for every batch."""

    windows: Windows
    slack: Slack
    way: Way = field(default_factory=InPlace)
    pane_slots: int = 2
    window_slots: int = 1
    can_spread: bool = False
    """The window level of the query can be divided into several tasks."""
    spreading_pays_s: float = WORTH_S
    driver_pays_s: float = DRIVER_S
    """Up to so much work of the window level is done on the driver."""
    trigger_s: float | None = None
    keying: Keying | None = None
    """How keys are spread, if this is an operator on keys."""

    def router(self, before: State) -> Router:
        """Return the router as a batch finds it that starts from a state."""
        strategy, slots = self.way.splitting, before.pane_slots or self.pane_slots
        router = strategy.build(slots, before.router.get(strategy.name))
        router.renumber(slots)
        return router

    def slack_logic(self, before: State) -> SlackLogic:
        """Return the slack as a batch finds it."""
        return self.slack.build(before.slack.get(repr(self.slack)))

    def least_slack_us(self, before: State) -> int:
        """Return how long to wait at least: a window where delays are learned, but nothing has come to measure the first batch against."""
        unknown = self.slack.is_learned and before.clock.newest_us is None and not isinstance(self.way, InSource)
        return self.windows.length_us if unknown else 0

    def run_panes(self, before: State) -> RunPanes:
        """Return what the pane level does in a batch that starts from a state; also a source of our own asks this."""
        return RunPanes(
            sequence=before.sequence + 1,
            newest_us=before.clock.newest_us,
            punctuation_us=before.clock.punctuation_us,
            leap_us=before.clock.leap_us(self.windows),
            slots=before.pane_slots or self.pane_slots,
            router=before.router.get(self.way.splitting.name),
        )


@dataclass(frozen=True)
class _Batch:
    """The batch at hand."""

    began_s: float
    period_s: float
    """Since the batch before began."""
    state: State
    """As it will be after the batch, as far as that is known."""
    ended: range = range(0)
    report: PaneReport | None = None


class Machine:
    """Decides what happens in batch after batch."""

    def __init__(self, rules: Rules, latest: State, at_s: float) -> None:
        """Begin with the latest state of the query, if it ran before."""
        self.rules = rules
        self.pane_slots = latest.pane_slots or rules.pane_slots
        self.spreader = Spreader(rules.window_slots, rules.can_spread, rules.spreading_pays_s, rules.driver_pays_s)
        self.window_plan = ""
        self.key_slots = rules.keying.slots if rules.keying else 0
        self.rebalance_now = False
        self.status = Status()
        self._began_s = at_s
        self._batch: _Batch | None = None
        self._seen: tuple[PaneReport, Router, float | None] | None = None
        self._slots: tuple[SlotReport, ...] = ()

    def resize(self, pane_slots: int | None = None, window_slots: int | None = None, slots: int | None = None) -> None:
        """Have so many slots from the next batch on; `slots` are those of an operator on keys."""
        self.key_slots = slots or self.key_slots
        self.pane_slots = pane_slots or self.pane_slots
        self.spreader.slots = window_slots or self.spreader.slots

    def on(self, event: Event) -> list[Instruction]:
        """Return what is to be done now, in this order; what it comes to is the next event."""
        match event:
            case BatchStarted():
                return self._start(event)
            case PanesReported():
                return self._decide(event)
            case WindowsReported():
                return self._finish(event.report, event.at_s)
            case KeysReported():
                return self._finish_keys(event.reports, event.at_s)
            case StreamEnded():
                return self._flush(event)
            case Restarted():
                # What a batch still owes is let out when Spark repeats it; a flush nobody repeats.
                return _again(event.latest) if event.latest.flushed and event.latest.sequence > event.emitted else []
            case Committed():
                self._note(event)
                return []

    def _start(self, event: BatchStarted) -> list[Instruction]:
        if event.recorded is not None:
            return _again(event.recorded) if event.recorded.sequence > event.emitted else []
        period_s = max(event.at_s - self._began_s, self.rules.trigger_s or 0.0, 1e-3)
        self._began_s = event.at_s
        state = replace(event.before, batch=event.batch, sequence=event.before.sequence + 1, flushed=False)
        self._batch = _Batch(event.at_s, period_s, state)
        return [self.rules.run_panes(event.before)]

    def _decide(self, event: PanesReported) -> list[Instruction]:
        """Move the clock, put aside what has a wrong time, and find the windows that have ended."""
        assert self._batch is not None
        rules, report, before = self.rules, event.report, self._batch.state
        slack = rules.slack_logic(before)
        arrivals = report.arrivals(before.clock.leap_us(rules.windows))
        clock = before.clock.advance(arrivals, rules.windows, slack, report.hold_us, rules.least_slack_us(before))
        state = replace(
            before,
            clock=clock,
            slack={repr(rules.slack): slack.snapshot()},
            open=_with_parts(before.open, report),
            suspects=(*before.suspects, *report.files("suspect")),
            invalid=before.invalid + report.invalid,
            source_end=max([before.source_end, *(task.source_end for task in report.tasks)]),
            output=Output(late=report.files("late"), invalid=report.files("invalid")),
        )
        router = rules.router(before)
        measured = self._learn(router, event, state)
        state = replace(state, pane_slots=self.pane_slots, router={rules.way.splitting.name: router.snapshot()})
        self._seen = report, router, measured
        self._batch = replace(self._batch, state=state, report=report)
        return self._end_windows(event.at_s)

    def _flush(self, event: StreamEnded) -> list[Instruction]:
        latest = event.latest
        if latest.sequence > event.emitted:
            return _again(latest)
        if latest.flushed or (latest.clock.newest_us is None and not latest.clock.held):
            return []
        keying = self.rules.keying
        clock = latest.clock.flushed((keying and keying.windows) or self.rules.windows)
        state = replace(latest, sequence=latest.sequence + 1, flushed=True, clock=clock, output=Output())
        self._batch, self._seen = _Batch(event.at_s, 1.0, state), None
        return self._end_windows(event.at_s)

    def _end_windows(self, at_s: float) -> list[Instruction]:
        assert self._batch is not None
        windows, state = self.rules.windows, _without_odd(self._batch.state, self.rules.windows)
        state = replace(state, clock=state.clock.begun(min(state.open, default=None), windows))
        ended = state.clock.ended(windows)
        self._batch = replace(self._batch, state=state, ended=ended)
        if self.rules.keying is not None:
            run = self.rules.keying.run(state, ended, windows) if ended else None
            return [run] if run else self._finish_keys((), at_s)
        stop = windows.panes_of(ended[-1]).stop if ended else 0
        closed = {pane: known for pane, known in sorted(state.open.items()) if ended and pane < stop}
        if not ended or not (closed or state.memory):
            return self._finish(None, at_s)
        spreading = self.spreader.decide(_rows(closed), state.memory_rows)
        self.window_plan = spreading.reason
        return [
            RunWindows(
                sequence=state.sequence,
                ended=ended,
                panes={pane: known.pieces for pane, known in closed.items()},
                tuples={pane: known.tuples for pane, known in closed.items()},
                memory=state.memory,
                spreading=spreading,
            )
        ]

    def _finish(self, report: WindowReport | None, at_s: float) -> list[Instruction]:
        assert self._batch is not None
        windows, state, ended = self.rules.windows, self._batch.state, self._batch.ended
        if report:
            stop = windows.panes_of(ended[-1]).stop
            closed = {pane: known for pane, known in state.open.items() if pane < stop}
            self.spreader.measured(report.busy_s, _rows(closed), state.memory_rows)
            open_ = {pane: known for pane, known in state.open.items() if pane not in closed}
            state = replace(state, memory=report.memory, memory_rows=report.memory_rows, open=open_)
        if ended:
            late = state.clock.late - state.late_reported
            rows = window_rows(windows, ended, report.windows if report else (), late, at_s)
            results = (report.results,) if report else ()
            state = replace(
                state,
                clock=state.clock.emitted(ended),
                late_reported=state.clock.late,
                windows_out=state.windows_out + len(ended),
                output=replace(state.output, results=results, rows=rows),
            )
        self._batch = replace(self._batch, state=state)
        return [Record(state), *_again(state)]

    def _finish_keys(self, reports: tuple[SlotReport, ...], at_s: float) -> list[Instruction]:
        assert self._batch is not None and self.rules.keying is not None
        state, ended = self._batch.state, self._batch.ended
        if ended:
            state = self.rules.keying.after(state, ended, reports, self.rules.windows, at_s)
        now, self.rebalance_now = self.rebalance_now, False
        state, self.window_plan = self.rules.keying.rebalanced(state, reports, self.key_slots, now=now)
        self._batch = replace(self._batch, state=state)
        self._slots = reports or self._slots
        return [Record(state), *_again(state)]

    def _learn(self, router: Router, event: PanesReported, state: State) -> float | None:
        """Tell the router what its slots did, and return their utilisation."""
        assert self._batch is not None
        report, windows = event.report, self.rules.windows
        router.renumber(self.rules.way.slots_of(report, len(router.slots)))
        for (pane, slot), tuples in sorted(report.sent().items()):
            router.record(pane, slot, tuples)
        if state.clock.punctuation_us is not None:
            router.close(windows.pane_of(state.clock.punctuation_us))
        measured = utilisation(report.uses(router.slots), self._batch.period_s)
        router.sample(measured)
        if router.keys:
            router.keys.learn(report.keys(), event.at_s)
        router.renumber(self.pane_slots)
        return measured

    def _note(self, event: Committed) -> None:
        state, clock = event.state, event.state.clock
        slack_us = self.rules.slack_logic(state).slack_us
        known = replace(
            self.status,
            batch=state.batch,
            open_panes=len(state.open),
            tuples=clock.tuples,
            late=clock.late,
            invalid=state.invalid,
            held=sum(crowd.tuples for crowd in clock.held),
            windows_out=state.windows_out,
            last_window=state.output.rows[-1] if state.output.rows else self.status.last_window,
            newest_us=clock.newest_us,
            slack_us=slack_us,
            notice=self._long_slack(slack_us),
            window_slots=self.spreader.slots,
            window_plan=self.window_plan,
            **self._of_keys(state),
        )
        if self._batch is not None and self._batch.state is state and self._seen is not None:
            report, router, measured = self._seen
            took_s, tuples = max(event.at_s - self._batch.began_s, 1e-9), sum(task.arrivals.tuples for task in report.tasks)
            known = replace(
                known,
                input_rate_hz=tuples / self._batch.period_s,
                processing_rate_hz=tuples / took_s,
                utilisation=took_s / (self.rules.trigger_s or took_s),
                backlog_s=_backlog_s(clock.newest_us, event.at_s),
                pane_slots=len({task.slot for task in report.tasks}),
                pane_utilisation=measured,
                splitting_factor=router.splitting_factor,
                threshold=router.threshold,
            )
        self.status = known
        self._batch = None

    def _long_slack(self, slack_us: int) -> str:
        """Return what to say of a slack that keeps windows waiting for many times their length."""
        length_us = self.rules.windows.length_us
        if self.rules.keying is not None or slack_us <= LONG_SLACK_WINDOWS * length_us:
            return ""
        return (
            f"the slack has grown to {shown(slack_us)}, as tuples came that late, so windows of {shown(length_us)} wait that long; "
            f'to lose some tuples instead, pass slack=DropRatio(0.01), or a fixed one as FixedSlack("{shown(length_us)}")'
        )

    def _of_keys(self, state: State) -> dict[str, Any]:
        """Return what a status says of slots and keys."""
        if state.keyed is None:
            return {}
        busiest, found = max((slot.tuples for slot in self._slots), default=0), sum(slot.chunks_found for slot in self._slots)
        mean = sum(slot.tuples for slot in self._slots) / max(len(self._slots), 1)
        alone, names = state.keyed.table.alone(), names_of(self._slots)
        return {
            "slots": self.key_slots,
            "imbalance": busiest / mean if mean else 1.0,
            "slot_tuples": tuple(slot.tuples for slot in sorted(self._slots, key=lambda slot: slot.slot)),
            "moved_groups": state.keyed.moved,
            "own_groups": len(state.keyed.table.own),
            "hot_keys": tuple(names.get(key, f"{key:016x}") for _, key in sorted(alone.items())),
            "found_in_memory": found / max(found + sum(slot.chunks_read for slot in self._slots), 1),
        }


def _backlog_s(newest_us: int | None, at_s: float) -> float | None:
    """Return how far the newest tuple lies behind the clock; None if there is none, or if it is a recording that is played."""
    behind_s = LIVE_S if newest_us is None else at_s - newest_us / 1e6
    return max(0.0, behind_s) if behind_s < LIVE_S else None


def _again(state: State) -> list[Instruction]:
    """Return what lets out what a state has on record."""
    return [Emit(state.sequence, state.output), Commit(state)]


def _with_parts(open_: dict[int, OpenPane], report: PaneReport) -> dict[int, OpenPane]:
    known = dict(open_)
    for part in report.parts:
        before = known.get(part.pane, OpenPane())
        known[part.pane] = OpenPane(before.tuples + part.tuples, (*before.pieces, part.piece))
    return known


def _without_odd(state: State, windows: Windows) -> State:
    """Return a state whose open panes hold no tuple with a wrong time: those are let out as invalid."""
    odd = state.clock.odd_panes(list(state.open), windows)
    output = replace(state.output, suspects=state.suspects, odd_panes=tuple(sorted(odd))) if odd else state.output
    return replace(
        state,
        open={pane: known for pane, known in state.open.items() if pane not in odd},
        invalid=state.invalid + sum(state.open[pane].tuples for pane in odd),
        suspects=state.suspects if state.clock.held else (),
        output=output,
    )


def _rows(panes: dict[int, OpenPane]) -> int:
    return sum(piece.rows for known in panes.values() for piece in known.pieces)


def window_rows(windows: Windows, ended: range, found: Sequence[WindowFound], late: int, at_s: float) -> tuple[WindowRow, ...]:
    """Return a row for each window that ended, and one for each long run of empty ones."""
    rows: list[WindowRow] = []

    def add(first: int, count: int, tuples: int = 0, kept: int = 0) -> None:
        end_us = windows.end_us(first + count - 1)
        lost = 0 if rows else late
        rows.append(WindowRow(windows.start_us(first), end_us, tuples, kept, lost, at_s - end_us / 1e6, count))

    def add_empty(first: int, stop: int) -> None:
        if stop - first > MAX_EMPTY_ROWS:
            add(first, stop - first)
        else:
            for window in range(first, stop):
                add(window, 1)

    next_window = ended.start
    for each in found:
        add_empty(next_window, each.window)
        add(each.window, 1, each.tuples, each.kept)
        next_window = each.window + 1
    add_empty(next_window, ended.stop)
    return tuple(rows)
