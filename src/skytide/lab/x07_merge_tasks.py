"""X7: idle window slots merge results that wait (P0 Fig. 12 and 13)."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.lab.scenarios import burst_stream
from skytide.routing import AS_PID, Merge, Policy
from skytide.sim import Costs, Result, WindowStage, known_costs, run_panes, run_windows
from skytide.sim.window_stage import with_empty_panes
from skytide.windows import Windows

WINDOWS, RATE_HZ, DISPERSION, LENGTH_S = Windows(1_000_000, 200_000), 30_000, 1_000.0, 150.0
INTERVAL_S, SETPOINT, MOST_SLOTS = 2.5, 0.9, 60
PANE_SLOTS, WINDOW_SLOTS = 4, 41  # P0 Tab. 4: 4.28 and 41.0 threads on average for this stream
NAMES: dict[Policy, str] = {"WIN_FB": "fb-default", "WIN_FB_MERGE": "fb-opt"}


class MergeTasks(Experiment):
    """Both variants, with slots that follow the utilisation."""

    id = "X7"
    title = "merging results that wait"
    source = "P0 Fig. 12, 13"

    def measure(self, tell: Progress) -> Findings:
        """Simulate the pane level once, and the window level with either variant."""
        stream = burst_stream(RATE_HZ, DISPERSION, WINDOWS, LENGTH_S, changing=False)
        costs = self._costs()
        _, panes = run_panes(stream, costs, AS_PID, PANE_SLOTS, period_s=0.25)
        costs = _scaled(costs, panes.results)
        rows: list[Row] = []
        merges = 0.0
        for policy, name in NAMES.items():
            stage, measured = play(panes.results, costs, policy)
            rows += [{"variant": name, **row} for row in measured]
            if policy == "WIN_FB_MERGE":
                merges = sum(isinstance(done.task, Merge) for done in stage.done) / len(stage.done)
            tell(f"{name}: {_mean(rows, name, 'slots'):.1f} slots, idle {_mean(rows, name, 'idle'):.0%}")
        idle_less = 1 - _mean(rows, "fb-opt", "idle") / _mean(rows, "fb-default", "idle")
        slots = [_mean(rows, name, "slots") for name in NAMES.values()]
        used = [_mean(rows, name, "utilisation") for name in NAMES.values()]
        return Findings(
            rows,
            [
                Claim("idle time 45 % lower on average", f"idle time {idle_less:.0%} lower", 0.30 <= idle_less <= 0.60),
                Claim("fewer workers", f"{slots[1]:.1f} slots in place of {slots[0]:.1f}", slots[1] < slots[0]),
                Claim("37 % of the tasks are MERGE", f"{merges:.0%} of the tasks are MERGE", abs(merges - 0.37) <= 0.12),
                Claim(
                    "both keep the utilisation near the setpoint",
                    f"mean utilisation {used[0]:.2f} and {used[1]:.2f}",
                    all(abs(value - SETPOINT) < 0.2 for value in used),
                ),
            ],
            "slots follow the utilisation by P0's fuzzy rules for one input: half as many at 0.5, half as many again at 1.3; "
            + costs.origin,
        )

    def _costs(self) -> Costs:
        measured = known_costs("bnl")
        size = int(RATE_HZ * WINDOWS.pane_us / 1e6 / PANE_SLOTS)
        load = measured.curves["independent"].busy_by_size[size] * PANE_SLOTS / (WINDOWS.pane_us / 1e6)
        return measured.faster(load / (PANE_SLOTS * SETPOINT), "scaled to P0 Tab. 4: 4 pane workers")

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw slots, utilisation and idle time by interval."""
        for axis, name in zip(figure.subplots(3, 1, sharex=True), ("slots", "utilisation", "idle"), strict=True):
            for variant in NAMES.values():
                mine = [row for row in rows if row["variant"] == variant]
                axis.plot([row["end_s"] for row in mine], [row[name] for row in mine], label=variant)
            axis.set(ylabel=name)
        figure.axes[0].legend(frameon=False)
        figure.axes[-1].set(xlabel="seconds")


def play(results: list[Result], costs: Costs, policy: Policy) -> tuple[WindowStage, list[Row]]:
    """Simulate the window level with slots that follow its utilisation, one row a control interval."""
    stage = WindowStage(costs, WINDOWS, 1, policy)
    rows: list[Row] = []
    ordered = with_empty_panes(results, WINDOWS)
    at = seen = 0
    for interval in range(1, int(LENGTH_S / INTERVAL_S) + 1):
        now = interval * INTERVAL_S
        while at < len(ordered) and ordered[at].at_s <= now:
            stage.on(ordered[at])
            at += 1
        stage.until(now)
        slots = len(stage.scheduler.slots)
        finished = stage.done[seen:]
        seen = len(stage.done)
        busy = sum(done.end_s - max(done.begin_s, now - INTERVAL_S) for done in finished) + stage.running_s(now, INTERVAL_S)
        task_s = sum(done.end_s - done.begin_s for done in finished) / max(len(finished), 1)
        utilisation = (busy + stage.scheduler.waiting() * task_s) / (slots * INTERVAL_S)
        rows.append({"end_s": now, "slots": slots, "utilisation": utilisation, "idle": max(0.0, 1 - busy / (slots * INTERVAL_S))})
        factor = 1 + max(-0.5, min(0.5, (utilisation - SETPOINT) / 0.4 * 0.5))
        stage.resize(max(1, min(MOST_SLOTS, round(slots * factor))), now)
    return stage, rows


def _scaled(costs: Costs, results: list[Result]) -> Costs:
    """Make a pair as dear as on P0's machine, where this stream keeps 41 window workers busy at the setpoint."""
    _, stage = run_windows(results, costs, WINDOWS, MOST_SLOTS, "WIN_FB_MERGE", LENGTH_S)
    load = sum(done.end_s - done.begin_s for done in stage.done) / LENGTH_S
    factor = load / (WINDOW_SLOTS * SETPOINT)
    return replace(costs, pair_s=costs.pair_s / factor, origin=f"{costs.origin}; a pair as dear as 41 window workers say")


def _mean(rows: Sequence[Row], variant: str, name: str) -> float:
    """Give the mean after the first 25 seconds, in which the level catches up with its single slot (P0 §5.2)."""
    values = [row[name] for row in rows if row["variant"] == variant and row["end_s"] > 25]
    return float(sum(values) / len(values))


EXPERIMENT = MergeTasks()
