"""How a query is doing after a batch, as people see it: its status, by pure functions."""

from collections.abc import Sequence
from dataclasses import replace

from skytide.batch.keying import names_of
from skytide.batch.reports import PaneReport
from skytide.batch.rules import BatchRules
from skytide.batch.state import State
from skytide.control.models.micro_batch import USED, level_utilisations
from skytide.keyed import SlotReport, slot_loads
from skytide.records import Status
from skytide.records.printing import LIVE_S
from skytide.routing import Router
from skytide.windows import shown

LONG_SLACK_WINDOWS = 10
"""A slack longer than this many windows is worth a notice: nothing comes out for that long."""


def with_state(status: Status, rules: BatchRules, state: State) -> Status:
    """Return the status with what the state after a batch tells."""
    slack_us = rules.slack_logic(state).slack_us
    return replace(
        status,
        batch=state.batch,
        open_panes=len(state.open),
        tuples=state.clock.tuples,
        late=state.clock.late,
        invalid=state.invalid,
        held=sum(open_pane.tuples for pane, open_pane in state.open.items() if state.clock.is_ahead(pane, rules.windows)),
        windows_out=state.windows_out,
        last_window=state.output.rows[-1] if state.output.rows else status.last_window,
        newest_us=state.clock.newest_us,
        slack_us=slack_us,
        notice=_long_slack(rules, slack_us),
    )


def with_load(
    status: Status,
    rules: BatchRules,
    report: PaneReport,
    router: Router,
    *,
    took_s: float,
    period_s: float,
    windows_s: float,
    at_s: float,
) -> Status:
    """Return the status with how busy a batch kept the query: it took `took_s`, and began `period_s` after the one before.

    Of that, the slowest slot of the window level worked for `windows_s`. Levels run one after the other, and share the interval; what
    counts is how long they take for what comes in one.
    """
    tuples = sum(task.arrivals.tuples for task in report.tasks)
    windows_s = min(windows_s, took_s)
    panes_s = min(max((use.busy_s for use in report.uses({task.slot for task in report.tasks})), default=0.0), took_s - windows_s)
    interval_s = rules.trigger_s or took_s / USED
    share = min(1.0, interval_s / period_s)  # a batch after a long one has more tuples than those of its interval
    later_s = took_s - (1 - share) * (panes_s + windows_s)
    levels = level_utilisations(panes_s * share, windows_s * share, later_s, interval_s)
    return replace(
        status,
        input_rate_hz=tuples / period_s,
        processing_rate_hz=tuples / took_s,
        trigger_share=took_s / (rules.trigger_s or took_s),
        backlog_s=_backlog_s(status.newest_us, at_s),
        pane_slots=len({task.slot for task in report.tasks}),
        pane_utilisation=levels[0],
        window_utilisation=levels[1],
        splitting_factor=router.latest_factor,
        threshold=router.threshold,
    )


def with_keys(status: Status, state: State, slots: int, reports: Sequence[SlotReport]) -> Status:
    """Return the status with what is known of keys, and of the slots that work on them."""
    if state.keyed is None:
        return status
    reports = sorted(reports, key=lambda report: report.slot)
    loads = slot_loads(reports)
    mean = sum(loads) / max(len(loads), 1)
    in_memory, read = sum(report.chunks_found for report in reports), sum(report.chunks_read for report in reports)
    names = names_of(reports)
    return replace(
        status,
        slots=slots,
        imbalance=max(loads) / mean if mean else 1.0,
        slot_tuples=tuple(report.tuples for report in reports),
        moved_groups=state.keyed.moved,
        own_groups=len(state.keyed.table.own),
        hot_keys=tuple(names.get(key, f"{key:016x}") for _, key in sorted(state.keyed.table.alone().items())),
        found_in_memory=in_memory / max(in_memory + read, 1),
    )


def _long_slack(rules: BatchRules, slack_us: int) -> str:
    """Return the notice about a slack that keeps windows waiting for many times their length; empty if it does not."""
    length_us = rules.windows.length_us
    if rules.keying is not None or slack_us <= LONG_SLACK_WINDOWS * length_us:
        return ""
    return (
        f"the slack has grown to {shown(slack_us)}, as tuples came that late, so windows of {shown(length_us)} wait that long; "
        f'to lose some tuples instead, pass slack=DropRatio(0.01), or a fixed one as FixedSlack("{shown(length_us)}")'
    )


def _backlog_s(newest_us: int | None, at_s: float) -> float | None:
    """Return how far the newest tuple lies behind the clock; None if there is none, or if the stream is a recording."""
    behind_s = LIVE_S if newest_us is None else at_s - newest_us / 1e6
    return max(0.0, behind_s) if behind_s < LIVE_S else None
