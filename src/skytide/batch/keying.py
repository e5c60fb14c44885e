"""What a batch does on the level of keys, in place of that of windows: slots work on the tuples that were let in, key by key.

    PanesReported ──► RunKeys
    KeysReported  ──► Record, Emit, Commit

Which slot has which keys is a table that holds for a whole batch. A new table takes effect with the next batch; as what is remembered of
keys lies where all slots can read it, no slot waits for another (SPEC E4).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from skytide.batch.events import RunKeys
from skytide.batch.state import State
from skytide.keyed import KeyedState, Rebalancer, RoutingTable, SlotReport, loads_of
from skytide.records import WindowRow
from skytide.windows import Windows


@dataclass(frozen=True)
class Keying:
    """How keys are spread over slots."""

    slots: int = 2
    rebalancer: Rebalancer = field(default_factory=Rebalancer)
    windows: Windows | None = None
    """The windows of each key, if they are windows of time."""
    seed: int = 0
    """The seed of the hashes of keys; 0 is none."""

    def begun(self, state: State) -> KeyedState:
        """Return what is known of keys when a batch starts."""
        return state.keyed or self._first(self.slots)

    def _first(self, slots: int) -> KeyedState:
        return KeyedState(RoutingTable.even(slots), seed=self.seed)

    def run(self, state: State, ended: range, windows: Windows) -> RunKeys | None:
        """Return what slots do with the panes that are closed, or None if there is nothing to do."""
        keyed, until_us = self.begun(state), windows.end_us(ended[-1])
        closed = {pane: open_pane for pane, open_pane in sorted(state.open.items()) if pane <= ended[-1]}
        if not closed and (keyed.due_us is None or keyed.due_us > until_us):
            return None
        return RunKeys(
            sequence=state.sequence,
            since_us=keyed.until_us,
            until_us=until_us,
            pieces=tuple(piece for open_pane in closed.values() for piece in open_pane.pieces),
            keyed=replace(keyed, rebalancer={}),  # no slot asks for it
        )

    def after(self, state: State, ended: range, reports: Sequence[SlotReport], windows: Windows, at_s: float) -> State:
        """Return the state after the slots have done their work."""
        until_us = windows.end_us(ended[-1])
        keyed = self.begun(state).after(reports, until_us) if reports else replace(self.begun(state), until_us=until_us)
        row = WindowRow(
            window_start_us=windows.start_us(ended[0]),
            window_end_us=until_us,
            tuples=sum(report.tuples for report in reports),
            kept=sum(report.kept for report in reports),
            late=state.clock.late - state.late_reported,
            latency_s=at_s - until_us / 1e6,
            windows=sum(report.windows for report in reports),
        )
        return replace(
            state,
            open={pane: open_pane for pane, open_pane in state.open.items() if pane > ended[-1]},
            keyed=keyed,
            clock=state.clock.emitted(ended),
            late_reported=state.clock.late,
            windows_out=state.windows_out + row.windows,
            output=replace(state.output, results=tuple(r.results for r in reports if r.results), rows=(row,)),
        )

    def rebalanced(self, state: State, reports: Sequence[SlotReport], slots: int, *, now: bool) -> tuple[State, str]:
        """Return the state with the table for the next batch, and why it is that one; `now`: somebody asked for it."""
        if state.keyed is None:
            return replace(state, keyed=self._first(slots)), ""
        before = state.keyed
        rebalancer = replace(self.rebalancer, threshold=self.rebalancer.target) if now else self.rebalancer
        logic = rebalancer.build(before.rebalancer or None)
        moves = logic.plan(before.table, slots, loads_of(reports, len(before.table.slots)) if reports else None)
        keyed = replace(before.routed(moves.table, len(moves.moved)), rebalancer=logic.snapshot())
        return replace(state, keyed=keyed), _named(moves.reason, names_of(reports))


def names_of(reports: Sequence[SlotReport]) -> dict[int, str]:
    """Return the names of keys that came often, by their hash."""
    return {key: name for report in reports for key, name in report.names.items()}


def _named(reason: str, names: dict[int, str]) -> str:
    """Return the reason of the rebalancer, which knows only hashes, with the names of keys."""
    for key, name in names.items():
        reason = reason.replace(f"key {key:016x}", f"key {name}")
    return reason
