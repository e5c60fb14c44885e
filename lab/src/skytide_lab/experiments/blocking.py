"""Two blocking ways to move keys on the real engine, for comparison only: state is handed over from slot to slot (P2 §5.2.2).

The engine itself hands nothing over: the state of keys lies in files that any slot can read. Here, when the routing changes, each slot
that loses keys saves their state, and each slot that receives keys loads it before it does anything else: with R-BLK within its own task,
with S-BLK before any task of the batch begins, as the driver, which plays the splitter here, hands out each batch as a whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skytide.batch import BatchRules
from skytide.keyed import Chunk, Loads, Moves, Rebalancer, RebalancerLogic, RoutingTable, SlotReport, gathered
from skytide.keyed.chunk import all_keys
from skytide.keyed.state import ROWS, STATES
from skytide.spark.api.query import ContinuousQuery
from skytide.spark.engine.jobs import SparkJobs
from skytide.spark.engine.keys import KeyTask, chunks_of
from skytide.spark.engine.panes import REPORT
from skytide.spark.engine.spec import QuerySpec
from skytide.workloads.identity import derive

MP, R_BLK, S_BLK = "MP", "R-BLK", "S-BLK"
KINDS = (ROWS, STATES)
DONE = pa.RecordBatch.from_arrays([pa.array([""])], schema=REPORT)


@dataclass(frozen=True)
class Forced(Rebalancer):
    """Leaves keys where they are until the number of slots changes; then all groups move but a given share."""

    stay: float = 0.2
    seed: int = 0

    def build(self, resume: dict[str, Any] | None = None) -> RebalancerLogic:
        """Return the logic."""
        return _Forced(self, **(resume or {}))


class _Forced(RebalancerLogic):
    def plan(self, table: RoutingTable, slots: int, loads: Loads | None = None, *, divide: bool = True) -> Moves:
        if slots == table.count:
            return Moves(table, (), "nothing moves unless the number of slots changes")
        assert isinstance(self.config, Forced)
        before = np.array(table.slots)
        stays = (derive(self.config.seed, "forced").random(len(before)) < self.config.stay) & (before < slots)
        at, there = before.copy(), np.bincount(before[stays], minlength=slots)
        for group in np.flatnonzero(~stays).tolist():
            free = [slot for slot in range(slots) if slot != before[group]]
            at[group] = min(free, key=lambda slot: (there[slot], slot))
            there[at[group]] += 1
        moved = tuple(np.flatnonzero(at != before).tolist())
        return Moves(RoutingTable(tuple(at.tolist())), moved, f"{len(moved)} groups move")


@dataclass
class Handover:
    """The routing table of the latest batch."""

    table: RoutingTable | None = None


@dataclass(frozen=True)
class Handed(KeyTask):
    """Tasks of a batch whose routing table differs from that of the batch before."""

    before: RoutingTable = field(default_factory=lambda: RoutingTable.even(1))

    def save(self, slot: int) -> Iterator[pa.RecordBatch]:
        """Write the state of each group that a slot loses."""
        keyed, step = self.instruction.keyed, self.spec.step
        assert step is not None, "an operator on keys has a step"
        old = replace(self, instruction=replace(self.instruction, keyed=replace(keyed, table=self.before)))
        windows = step.windows
        for kind, columns, limit in (
            (ROWS, step.remembered, windows.limit if windows else None),
            (STATES, step.states, 1),
        ):
            chunks = chunks_of(old, slot, kind)
            keys = all_keys(chunks, step.key)
            keys = keys.only(keyed.table.slots_of(keys.hashes) != slot)
            groups = keyed.table.groups_of(keys.hashes)
            for group in np.unique(groups).tolist():
                chunk = gathered(chunks, keys.only(groups == group), step.key, columns, limit)
                self.files.write_table(self._file(kind, group), chunk.to_table(), durable=False)
        yield DONE

    def load(self, slot: int) -> Iterator[pa.RecordBatch]:
        """Load the state of each group that a slot receives."""
        now = self.instruction.keyed.table.slots
        for group, owner in enumerate(now):
            if owner == slot and self.before.slots[group] != slot:
                for kind in KINDS:
                    data = self.files.read_if_there(self._file(kind, group))
                    if data is not None:
                        Chunk.from_table(pa.ipc.open_file(data).read_all())
        yield DONE

    def _file(self, kind: str, group: int) -> str:
        return f"handover/{self.instruction.sequence}-{kind}-{group}"


@dataclass(frozen=True)
class _LoadsFirst(Handed):
    def run(self, slot: int) -> Iterator[pa.RecordBatch]:
        list(self.load(slot))
        yield from super().run(slot)


class BlockingJobs(SparkJobs):
    """Jobs that hand state over when the routing table has changed."""

    protocol: str
    handover: Handover

    def keys(self, task: KeyTask) -> tuple[SlotReport, ...]:
        """Save state, load it, work, and return the reports; which task waits for which depends on the protocol."""
        before, self.handover.table = self.handover.table, task.instruction.keyed.table
        if before is None or before == task.instruction.keyed.table:
            return super().keys(task)
        fields = {name: getattr(task, name) for name in ("spec", "files", "instruction", "sink")}
        handed = Handed(**fields, before=before)
        self.slot_tasks(before.count, handed.save)
        if self.protocol == S_BLK:
            self.slot_tasks(task.slots, handed.load)
            return super().keys(task)
        return super().keys(_LoadsFirst(**fields, before=before))


@dataclass(frozen=True)
class Compared(ContinuousQuery):
    """An operator on keys whose keys move by a given protocol, as many as `forced` says."""

    protocol: str = MP
    handover: Handover = field(default_factory=Handover)
    forced: Forced = field(default_factory=Forced)

    @staticmethod
    def of(asked: ContinuousQuery, protocol: str, seed: int) -> "Compared":
        """Return the same query with a given protocol."""
        return Compared(**vars(asked), protocol=protocol, forced=Forced(seed=seed))

    def _rules(self, spec: QuerySpec, **chosen: Any) -> BatchRules:
        rules = super()._rules(spec, **chosen)
        return replace(rules, keying=rules.keying and replace(rules.keying, rebalancer=self.forced))

    def _jobs(self, *given: Any) -> SparkJobs:
        if self.protocol == MP:
            return SparkJobs(*given)
        jobs = BlockingJobs(*given)
        jobs.protocol, jobs.handover = self.protocol, self.handover
        return jobs
