"""The batch machine: events in, instructions out, compared as values."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.batch import (
    BatchRules,
    BatchStarted,
    Commit,
    Committed,
    Emit,
    InPlace,
    Machine,
    OnDriver,
    PanePart,
    PaneReport,
    PanesReported,
    PaneTaskReport,
    Piece,
    ReadAgain,
    Record,
    Restarted,
    Run,
    RunPanes,
    RunWindows,
    Sent,
    State,
    StreamEnded,
    WindowFound,
    WindowReport,
    WindowsReported,
)
from skytide.batch.state import FAR
from skytide.batch.window_rows import MAX_EMPTY_ROWS, window_rows
from skytide.lateness import FixedSlack, Slack, observe
from skytide.routing import AS
from skytide.windows import Windows

WINDOWS = Windows(1_000, 200)
RULES = BatchRules(WINDOWS, FixedSlack(0))
LEAP_US = 60_000_000


def reported(times: list[int], before: State, rules: BatchRules = RULES, **more: object) -> PaneReport:
    """What one task says of tuples, all of which it keeps."""
    plan = rules.run_panes(before)
    arrivals = observe(np.array(times, np.int64), plan.newest_us, plan.punctuation_us, plan.leap_us)
    in_time = [time for time in times if plan.punctuation_us is None or time >= plan.punctuation_us]
    panes = sorted({WINDOWS.pane_of(time) for time in in_time})
    tuples = [sum(WINDOWS.pane_of(time) == pane for time in in_time) for pane in panes]
    parts = [
        PanePart(pane, n, Piece(f"panes/{plan.sequence}", at, 1, n)) for at, (pane, n) in enumerate(zip(panes, tuples, strict=True))
    ]
    return PaneReport((PaneTaskReport(0, arrivals, tuple(parts), busy_s=0.1, **more),))  # type: ignore[arg-type]


def found(work: RunWindows) -> WindowReport:
    windows = sorted(
        {w for pane in work.panes for w in range(WINDOWS.first_of_pane(pane), WINDOWS.last_of_pane(pane) + 1) if w in work.ended}
    )
    return WindowReport(
        tuple(WindowFound(window, 1, 1) for window in windows), (f"results/{work.sequence}",), remembered(work.sequence), 0.1
    )


def remembered(sequence: int) -> Run:
    return Run(-FAR, FAR, 0, (f"memory/{sequence}",), 1)


def play(machine: Machine, batch: int, times: list[int], before: State, **more: object) -> State:
    """Run a batch to its end, and return its state."""
    machine.on(BatchStarted(batch, before, at_s=float(batch)))
    instructions = machine.on(PanesReported(reported(times, before, machine.rules, **more), at_s=batch + 0.2))
    if isinstance(instructions[0], RunWindows):
        instructions = machine.on(WindowsReported(found(instructions[0]), at_s=batch + 0.3))
    record, emit, commit = instructions
    assert isinstance(record, Record) and isinstance(emit, Emit) and isinstance(commit, Commit)
    assert (emit.output, emit.sequence) == (record.state.output, record.state.sequence)
    assert commit.state == record.state
    assert machine.on(Committed(record.state, at_s=batch + 0.4)) == []
    return record.state


def test_a_batch_reads_as_a_story() -> None:
    machine = Machine(RULES, State(), at_s=0.0)
    assert machine.on(BatchStarted(0, State(), at_s=1.0)) == [
        RunPanes(0, None, None, LEAP_US, slots=2, router=None, reason="in place, as asked")
    ]
    [run] = machine.on(PanesReported(reported([0, 100, 300, 1_200], State()), at_s=1.1))
    assert run == RunWindows(
        sequence=0,
        ended=range(-4, 2),
        panes={0: (Piece("panes/0", 0, 1, 2),), 1: (Piece("panes/0", 1, 1, 1),)},
        tuples={0: 2, 1: 1},
        memory=(),
        replaced=0,
        spreading=OnDriver(1, "on the driver: 0.00 s of work"),
    )
    record, emit, commit = machine.on(WindowsReported(found(run), at_s=1.2))
    assert isinstance(record, Record) and isinstance(emit, Emit)
    assert (record.state.batch, record.state.sequence, record.state.windows_out) == (0, 0, 6)
    assert list(record.state.open) == [6]
    assert emit.output.results == ("results/0",)
    assert [row.window_start_us for row in emit.output.rows] == [-800, -600, -400, -200, 0, 200]
    assert commit == Commit(record.state)


def test_nothing_that_ended_is_nothing_to_run() -> None:
    machine = Machine(RULES, State(), at_s=0.0)
    machine.on(BatchStarted(0, State(), at_s=1.0))
    record, emit, _ = machine.on(PanesReported(reported([0, 1], State()), at_s=1.1))
    assert isinstance(record, Record) and isinstance(emit, Emit)
    assert record.state.clock.newest_us is None  # two tuples are not enough to believe them
    assert emit.output.rows == ()


@pytest.mark.parametrize(
    "rules", [RULES, BatchRules(Windows(1_000, 200), FixedSlack("1 s"), Sent(AS), pane_slots=7)], ids=["same", "changed"]
)
def test_a_recorded_batch_is_let_out_as_it_was_recorded(rules: BatchRules) -> None:
    state = play(Machine(RULES, State(), at_s=0.0), 0, [0, 100, 300, 1_200], State())
    machine = Machine(rules, state, at_s=5.0)
    again = machine.on(BatchStarted(0, State(), 5.0, recorded=state, emitted=-1))
    assert again == [Emit(0, state.output), Commit(state), ReadAgain()]
    assert machine.on(BatchStarted(0, State(), 6.0, recorded=state, emitted=0)) == [ReadAgain()]
    stateless = Machine(replace(rules, input_has_state=False), state, at_s=5.0)
    assert stateless.on(BatchStarted(0, State(), 5.0, recorded=state, emitted=-1)) == [Emit(0, state.output), Commit(state)]


def test_a_flush_that_was_cut_off_is_finished_at_the_next_start() -> None:
    machine = Machine(RULES, State(), at_s=0.0)
    state = play(machine, 0, [0, 100, 300, 1_200], State())
    [run] = machine.on(StreamEnded(state, 2.0, emitted=0))
    assert isinstance(run, RunWindows)
    record, *_ = machine.on(WindowsReported(found(run), at_s=2.1))
    assert isinstance(record, Record)
    flushed = record.state
    assert (flushed.sequence, flushed.batch, flushed.flushed, flushed.open) == (1, 0, True, {})
    for emitted, owed in ((0, [Emit(1, flushed.output), Commit(flushed)]), (1, [])):
        assert Machine(RULES, flushed, at_s=3.0).on(Restarted(flushed, 3.0, emitted)) == owed
    assert machine.on(StreamEnded(flushed, 3.0, emitted=1)) == []
    assert machine.on(Restarted(state, 3.0, emitted=-1)) == []  # Spark repeats a batch by itself


def test_a_tuple_far_ahead_is_held_and_the_query_goes_on() -> None:
    machine = Machine(RULES, State(), at_s=0.0)
    century_us = 36_524 * 86_400_000_000
    state = play(machine, 0, [0, 100, 300, 400, century_us], State(), suspect_file="suspects/0")
    assert (machine.status.held, machine.status.invalid, state.suspects) == (1, 0, ("suspects/0",))
    state = play(machine, 1, [500, 600, 700, 800, 2_900], state, suspect_file="suspects/1")
    assert (machine.status.held, machine.status.invalid, state.suspects) == (1, 0, ("suspects/0",))
    assert (state.clock.newest_us, max(state.open)) == (2_900, century_us // 200)


@given(
    st.lists(st.integers(0, 40), max_size=8, unique=True),
    st.integers(0, 40),
    st.integers(0, 5_000),
)
def test_rows_of_windows_are_in_order_without_gaps(with_tuples: list[int], first: int, length: int) -> None:
    ended = range(first, first + length)
    some = [WindowFound(window, 2, 1) for window in sorted(with_tuples) if window in ended]
    rows = window_rows(WINDOWS, [ended], some, late=5, at_s=0.0)
    assert sum(row.windows for row in rows) == length
    assert sum(row.late for row in rows) == (5 if length else 0)
    starts = [row.window_start_us // 200 + n for row in rows for n in range(row.windows)]
    assert starts == list(ended)
    assert [row.window_start_us // 200 for row in rows if row.tuples] == [each.window for each in some]
    assert len(rows) <= 2 * len(some) + 1 + MAX_EMPTY_ROWS


@given(
    st.lists(st.lists(st.integers(0, 5_000) | st.just(10**16), max_size=12), max_size=5),
    st.sampled_from([FixedSlack(0), FixedSlack("300 us")]),
)
def test_a_state_survives_its_file(batches: list[list[int]], slack: Slack) -> None:
    machine, state = Machine(replace(RULES, slack=slack, delivery=InPlace()), State(), at_s=0.0), State()
    for number, times in enumerate(batches):
        state = play(machine, number, times, state)
        read = State.from_json(json.loads(json.dumps(state.to_json())))
        assert replace(read, router={}) == replace(state, router={})  # the router reads its own numbers back
