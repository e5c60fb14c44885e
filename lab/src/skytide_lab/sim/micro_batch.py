"""Spark's micro-batches in virtual time: the machine of `skytide.batch`, whose instructions cost time instead of running tasks."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skytide.batch import (
    BatchEvent,
    BatchRules,
    BatchStarted,
    Commit,
    Committed,
    Emit,
    InSource,
    Instruction,
    Keying,
    KeysReported,
    Machine,
    MergePieces,
    OnDriver,
    PanePart,
    PaneReport,
    PanesReported,
    PaneTaskReport,
    Parts,
    Piece,
    PiecesMerged,
    PiecesToMerge,
    ReadAgain,
    Record,
    Run,
    RunKeys,
    RunPanes,
    RunWindows,
    State,
    WindowFound,
    WindowReport,
    WindowsReported,
)
from skytide.batch.state import FAR
from skytide.errors import InvalidInput
from skytide.lateness import FixedSlack, observe
from skytide.routing import Splitting
from skytide.windows import Windows
from skytide.workloads.arrivals import SECOND_US
from skytide.workloads.workload import Workload
from skytide_lab.sim.key_level import Hashes, KeyLevel, Numbers, ZipfKeys
from skytide_lab.sim.partitions import Partitions
from skytide_lab.sim.pipelining import Levels, makespan
from skytide_lab.sim.window_level import WindowLevel

MERGE_TASKS = 64
"""In so many tasks at most, Spark merges pieces of open panes."""


@dataclass(frozen=True)
class BatchCosts:
    """The costs of a batch on a machine, measured on the real engine at some loads."""

    origin: str
    batch_s: float
    """Time of a batch without work: Spark's own."""
    tuple_s: float
    """Time to create and reduce a tuple, in a task of the pane level."""
    task_s: float
    """Time of a task of the pane level without tuples."""
    window_s: float
    """Time per slide of the windows, in the task of the window level, without load."""
    window_tuple_s: float
    """Additional time per tuple of the slide."""
    driver_task_s: float = 0.0
    """Time of the driver to launch a task and to read its report: one task after the other."""
    job_s: float = 0.0
    """Time of a job of the window level beside its tasks."""
    key_tuple_s: float = 0.0
    """Time per tuple in a task of the level of keys, which without tuples takes as long as one of the pane level."""


@dataclass(frozen=True)
class BatchOutcome:
    """The performance of a micro-batch query over a whole stream."""

    batches: int
    utilisation: float
    """The time of all batches, relative to the length of the stream."""
    pane_utilisation: float
    window_utilisation: float
    """The means of those of all batches."""
    overruns: float
    """The share of batches that took longer than the trigger's interval."""
    latency_mean_s: float
    latency_p99_s: float
    """From the end of a window to its result."""
    moved_groups: int = 0
    """How many groups of keys went to another slot, if this is an operator on keys."""


class BatchPlant:
    """Carries out what a `Machine` decides about a stream, with the given costs."""

    def __init__(
        self,
        workload: Workload,
        costs: BatchCosts,
        rules: BatchRules,
        cores: int,
        keys: ZipfKeys | None = None,
        windows: WindowLevel | None = None,
        partitions: Partitions | None = None,
    ) -> None:
        """Start at time 0 without tuples; with `keys`, the query is an operator on keys, with `windows` it has groups, and slots for their parts.

        With `partitions` the tuples come from elsewhere, and lie there.
        """
        if (keys is None) != (rules.keying is None):
            raise InvalidInput(
                value=f"keys={keys!r}",
                reason=f"the rules are those of {'windows' if rules.keying is None else 'an operator on keys'}",
                remedy="give keys with rules that say how to spread them, or neither",
            )
        self._workload, self._costs, self._rules, self.cores = workload, costs, rules, cores
        self._level = None if keys is None else KeyLevel(keys, costs.task_s, costs.key_tuple_s)
        self.windows, self._partitions = windows, partitions
        self.machine = Machine(rules, State(), 0.0)
        self._ticks = range(0)
        self.state = State()
        self.now_s = 0.0
        self.latencies_s: list[float] = []
        self.level_utilisations: list[tuple[float, float]] = []
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Where the time of all batches went: "panes", "merging", "windows" or "keys"."""
        self.levels: list[Levels] = []
        """What the levels of each batch that ended windows took."""
        self._pane_tasks_s: list[float] = []

    def run_batch(self, ticks: range) -> float:
        """Play a batch with all tuples of some ticks, and return how long it took."""
        began_s, self._ticks = self.now_s, ticks
        self.machine.cores(self.cores)
        self.now_s += self._costs.batch_s
        events: deque[BatchEvent] = deque([BatchStarted(self.state.batch + 1, self.state, began_s)])
        while events:
            for instruction in self.machine.on(events.popleft()):
                events.extend(self._carry_out(instruction))
        status = self.machine.status
        self.level_utilisations.append((status.pane_utilisation or 0.0, status.window_utilisation or 0.0))
        return self.now_s - began_s

    def _carry_out(self, instruction: Instruction) -> list[BatchEvent]:
        match instruction:
            case RunPanes():
                report = self._panes(instruction)
                self._pane_tasks_s = [task.busy_s for task in report.tasks]
                self._spend("panes", self._pane_tasks_s)
                return [PanesReported(report, self.now_s)]
            case MergePieces():
                merged, tasks_s = self._merges(instruction)
                self._spend("merging", tasks_s, on_driver=instruction.on_driver)
                return [PiecesMerged(tuple(merged), self.now_s)]
            case RunWindows():
                if self.windows and (gathering_s := self.windows.gather(instruction)):
                    self._spend("merging", gathering_s)
                windows, slots_s = self._windows(instruction)
                self._spend("windows", slots_s, on_driver=isinstance(instruction.spreading, OnDriver))
                costs = self._costs
                self.levels.append(Levels(costs.batch_s, 0.0, self._pane_tasks_s, costs.job_s, slots_s, costs.driver_task_s))
                return [WindowsReported(windows, self.now_s)]
            case ReadAgain():
                return []  # nothing is cut off here
            case RunKeys():
                assert self._level is not None
                reports = self._level.run(instruction)
                self._spend("keys", [report.busy_s for report in reports])
                return [KeysReported(reports, self.now_s)]
            case Record(state):
                self.state = state
                if self._level:
                    self._level.forget(_open_files(state))
                if self.windows:
                    self.windows.forget(_open_files(state))
                return []
            case Emit(_, output):
                self.latencies_s += [self.now_s - row.window_end_us / SECOND_US for row in output.rows]
                return []
            case Commit(state):
                return [Committed(state, self.now_s)]

    def _spend(self, step: str, tasks_s: Sequence[float], *, on_driver: bool = False) -> None:
        """Let a job with these tasks pass, or the same work on the driver."""
        job_s = (
            0.0 if step in ("panes", "sending", "keys") else self._costs.job_s
        )  # the time of a batch without work has that of one job
        took_s = sum(tasks_s) if on_driver else job_s + makespan(tasks_s, self.cores, self._costs.driver_task_s)
        self.seconds[step] += took_s
        self.now_s += took_s

    def _panes(self, plan: RunPanes) -> PaneReport:
        if self._partitions is not None:
            return self._of_partitions(plan, self._partitions)
        workload, windows, splitting = self._workload, self._rules.windows, self._rules.delivery.splitting
        router = splitting.build(plan.slots, plan.router)
        router.renumber(plan.slots)
        counts = workload.counts(self._ticks.start, self._ticks.stop).tolist()
        runs = [(windows.pane_of(tick * workload.tick_us), n) for tick, n in zip(self._ticks, counts, strict=True)]
        ticks: dict[int, list[tuple[int, int]]] = {}
        for tick, n, slot in zip(self._ticks, counts, splitting.plan(router, runs), strict=True):
            ticks.setdefault(slot, []).append((tick, n))
        return PaneReport(tuple(self._task(plan, slot, mine) for slot, mine in sorted(ticks.items())))

    def _of_partitions(self, plan: RunPanes, partitions: Partitions) -> PaneReport:
        """Return the report on tuples that lie in partitions, after they were sent to slots if that is the plan."""
        counts = self._workload.counts(self._ticks.start, self._ticks.stop).tolist()
        lying = partitions.tuples(self._workload, self._ticks.start, counts)
        if plan.owners is None:
            return PaneReport(tuple(self._task(plan, number, [], times) for number, times in enumerate(lying)))
        self._spend("sending", [partitions.stage_s / len(lying) + partitions.send_s * len(times) for times in lying])
        sent = partitions.sent(lying, plan.owners, self._rules.windows, self._workload.seed)
        return PaneReport(
            tuple(
                replace(self._task(plan, slot, [], times), partitions=tuple(enumerate(origins)))
                for slot, (times, origins) in enumerate(sent)
            )
        )

    def _task(self, plan: RunPanes, slot: int, ticks: list[tuple[int, int]], given: Numbers | None = None) -> PaneTaskReport:
        """Return the report of a task of the pane level on the tuples of some ticks, each tick and how many it has, or of given times."""
        times = np.concatenate([self._workload.times_us(tick, n)[0] for tick, n in ticks]) if given is None else given
        is_in_time = np.ones(len(times), np.bool_) if plan.punctuation_us is None else times >= plan.punctuation_us
        of_tuples = self._rules.windows.pane_of(times[is_in_time])
        panes, tuples = np.unique(of_tuples, return_counts=True)
        file = f"{plan.sequence}-{slot}"
        parts = [
            PanePart(pane, n, self.windows.piece(file, at, n) if self.windows else Piece(file, at, 1, n))
            for at, (pane, n) in enumerate(zip(panes.tolist(), tuples.tolist(), strict=True))
        ]
        if self._level:
            hashes = np.concatenate([self._level.keys.hashes(tick, n) for tick, n in ticks])[is_in_time]
            self._level.keep(file, _by_pane(hashes, of_tuples, tuples))
        arrivals = observe(times, plan.newest_us, plan.punctuation_us, plan.leap_us)
        busy_s = self._costs.task_s + len(times) * self._costs.tuple_s
        if self.windows:
            busy_s += sum(part.piece.rows for part in parts) * self.windows.costs.kept_s
        return PaneTaskReport(slot, arrivals, tuple(parts), busy_s)

    def _windows(self, work: RunWindows) -> tuple[WindowReport, list[float]]:
        """Return the report of the window level, and the time of each of its tasks."""
        if self.windows:
            return self.windows.run(work, self._rules.windows)
        tuples = sum(work.tuples.values())
        ended = tuple(WindowFound(window, 1, 1) for window in work.ended)
        busy_s = len(work.ended) * self._costs.window_s + tuples * self._costs.window_tuple_s
        slots = len(work.spreading.of_slots) if isinstance(work.spreading, Parts) else 1
        run, others_s = Run(-FAR, FAR, 0, ("memory",), 1), busy_s * (1 - 1 / slots)
        return WindowReport(ended, ("results",), run, busy_s, others_s=others_s), [busy_s / slots] * slots

    def _merges(self, work: MergePieces) -> tuple[list[Piece], list[float]]:
        """Return the merged pieces, and the time of each task that merges some."""
        if self.windows:
            return self.windows.merge(work, MERGE_TASKS)
        merged = [self._merged(merge, f"{work.sequence}-merged-{number}") for number, merge in enumerate(work.merges)]
        return merged, [merge.rows * self._costs.window_tuple_s for merge in work.merges]

    def _merged(self, merge: PiecesToMerge, file: str) -> Piece:
        if self._level:
            self._level.keep(file, [self._level.let_in(merge.pieces)])
        return Piece(file, 0, 1, merge.rows, 1 + max(piece.tier for piece in merge.pieces))


def run_batches(
    workload: Workload,
    windows: Windows,
    costs: BatchCosts,
    strategy: Splitting,
    *,
    slots: int,
    cores: int,
    trigger_s: float,
    length_s: float,
    keys: ZipfKeys | None = None,
    keying: Keying | None = None,
) -> BatchOutcome:
    """Play a stream, and return its outcome; a batch takes all that came since the one before, and starts at a trigger or when that is done.

    With keys, it is an operator on them, which `keying` spreads over slots; the windows are then the ticks in which tuples are let in.
    """
    rules = BatchRules(windows, FixedSlack(0), InSource(strategy), pane_slots=slots, trigger_s=trigger_s, keying=keying)
    plant = BatchPlant(workload, costs, rules, cores, keys)
    tick_s = workload.tick_us / SECOND_US
    ticks, taken = int(length_s / tick_s), 0
    took: list[float] = []
    while taken < ticks:
        next_trigger_s = (int(plant.now_s / trigger_s + 1e-9) + 1) * trigger_s
        come = min(ticks, int(plant.now_s / tick_s))
        if come > taken:
            took.append(plant.run_batch(range(taken, come)))
            taken = come
        plant.now_s = max(plant.now_s, next_trigger_s)
    latencies = sorted(plant.latencies_s)
    return BatchOutcome(
        batches=len(took),
        utilisation=sum(took) / length_s,
        pane_utilisation=sum(panes for panes, _ in plant.level_utilisations) / max(len(took), 1),
        window_utilisation=sum(windows for _, windows in plant.level_utilisations) / max(len(took), 1),
        overruns=sum(batch_s > trigger_s for batch_s in took) / max(len(took), 1),
        latency_mean_s=sum(latencies) / max(len(latencies), 1),
        latency_p99_s=latencies[int(0.99 * (len(latencies) - 1))] if latencies else 0.0,
        moved_groups=plant.state.keyed.moved if plant.state.keyed else 0,
    )


def _by_pane(hashes: Hashes, panes: Numbers, counts: Numbers) -> list[Hashes]:
    """Return the hashes of the tuples of each pane; `panes` are those of the tuples, `counts` say how many of each there are."""
    return np.split(hashes[np.argsort(panes, kind="stable")], np.cumsum(counts)[:-1])


def _open_files(state: State) -> set[str]:
    """Return the files with pieces of open panes."""
    return {piece.file for pane in state.open.values() for piece in pane.pieces}
