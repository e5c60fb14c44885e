"""What runs, as metrics for Prometheus: pure functions of what was seen."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skytide.errors import SkytideError
from skytide.records import STEPS
from skytide.watch.query_view import is_live
from skytide.watch.snapshots import OVER, FleetSnapshot, QuerySnapshot, ScalerSnapshot
from skytide.watch.watch import Watched

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
except ModuleNotFoundError as missing:
    raise SkytideError(f"{missing.name} is not installed, but metrics need it; run `pip install 'skytide[metrics]'`") from missing


@dataclass(frozen=True)
class Value:
    """A metric of one value per subject."""

    name: str
    help: str
    of: Callable[[Any], float | None]
    """Returns its value in a snapshot; None if it is not known."""

    @property
    def is_counter(self) -> bool:
        """Whether it only grows."""
        return self.name.endswith("_total")


QUERY: tuple[Value, ...] = (
    Value("skytide_query_seen_timestamp_seconds", "When the other metrics of the query were seen.", lambda q: q.at_s),
    Value("skytide_query_running", "1 while the query runs.", lambda q: q.state not in OVER),
    Value("skytide_query_failed", "1 if the query has failed.", lambda q: q.state == "failed"),
    Value("skytide_query_batches_total", "Micro-batches that have ended.", lambda q: q.status.batch + 1),
    Value("skytide_query_tuples_total", "Tuples that came in.", lambda q: q.status.tuples),
    Value("skytide_query_late_tuples_total", "Tuples that came too late and were dropped.", lambda q: q.status.late),
    Value("skytide_query_invalid_tuples_total", "Tuples that belong to no window.", lambda q: q.status.invalid),
    Value("skytide_query_held_tuples", "Tuples so far ahead of the others that their time is not believed yet.", lambda q: q.status.held),
    Value("skytide_query_windows_total", "Windows that came out.", lambda q: q.status.windows_out),
    Value("skytide_query_utilisation_ratio", "Time of the latest batch over the interval of the trigger.", lambda q: q.status.trigger_share if q.trigger_s else None),
    Value("skytide_query_pane_utilisation_ratio", "What came to the pane slots over what they could serve.", lambda q: q.status.pane_utilisation),
    Value("skytide_query_backlog_seconds", "How far the newest tuple is behind the clock.", lambda q: q.status.backlog_s if is_live(q.status) else None),
    Value("skytide_query_slack_seconds", "How long windows wait for late tuples.", lambda q: q.status.slack_us / 1e6),
    Value("skytide_query_open_panes", "Panes that are still open.", lambda q: q.status.open_panes),
    Value("skytide_query_result_rows", "Rows of the latest window.", lambda q: q.status.last_window and q.status.last_window.kept),
    Value("skytide_query_pane_slots", "Tasks of the pane level.", lambda q: q.status.pane_slots),
    Value("skytide_query_window_slots", "The most tasks of the window level at once.", lambda q: q.status.window_slots),
    Value("skytide_query_splitting_factor", "Partitions of a pane on average.", lambda q: q.status.splitting_factor),
    Value("skytide_query_key_slots", "Slots of an operator on keys.", lambda q: q.status.slots or None),
    Value("skytide_query_key_imbalance_ratio", "Load of the most loaded slot of keys over the mean of all.", lambda q: q.status.imbalance if q.status.slots else None),
    Value("skytide_query_key_groups_moved_total", "Groups of keys that moved to another slot.", lambda q: q.status.moved_groups if q.status.slots else None),
)  # fmt: skip

SCALER: tuple[Value, ...] = (
    Value("skytide_scaler_seen_timestamp_seconds", "When the other metrics of the auto-scaler were seen.", lambda s: s.at_s),
    Value("skytide_scaler_running", "1 while the auto-scaler runs.", lambda s: s.status.running),
    Value("skytide_scaler_failing", "1 if its latest cycle failed, or if it ended before its query.", lambda s: bool(s.status.failure)),
    Value("skytide_scaler_paused", "1 while it is paused.", lambda s: s.status.paused),
    Value("skytide_scaler_acts", "0 if it only recommends.", lambda s: s.status.acts),
    Value("skytide_scaler_workers", "Workers that are there.", lambda s: s.status.workers),
    Value("skytide_scaler_wanted_workers", "Workers that are wanted, within the limits of the guard.", lambda s: s.status.wanted),
    Value("skytide_scaler_maximum_workers", "The highest number of workers allowed.", lambda s: s.about.maximum),
    Value("skytide_scaler_lead_seconds", "Time from asking for a worker to its first work.", lambda s: s.status.lead_s),
    Value("skytide_scaler_cycles_total", "Control cycles, each with a decision.", lambda s: s.status.cycles),
    Value("skytide_scaler_changes_total", "How often the size was changed, or another one was asked for.", lambda s: s.status.changes),
    Value("skytide_scaler_limited_total", "How often the guard changed what the controller wanted.", lambda s: s.status.limited),
    Value("skytide_scaler_utilisation_ratio", "What came in over what could have been served.", lambda s: s.status.seen and s.status.seen.utilisation),
    Value("skytide_scaler_arrival_tuples_per_second", "Tuples that came in, over the latest interval.", lambda s: s.status.seen and s.status.seen.arrival_rate_hz),
    Value("skytide_scaler_backlog_tuples", "Tuples that wait.", lambda s: s.status.seen and s.status.seen.backlog),
    Value("skytide_scaler_forecast_tuples_per_second", "Tuples expected by the time a worker that is asked for now is at work.", lambda s: _expected(s, "mean_hz")),
    Value("skytide_scaler_forecast_high_tuples_per_second", "The upper end of the forecast's interval.", lambda s: _expected(s, "high_hz")),
)  # fmt: skip

FLEET: tuple[Value, ...] = (
    Value("skytide_fleet_seen_timestamp_seconds", "When the fleet last discovered its streams, which all its other metrics are of.", lambda f: f.status.seen_s or None),
    Value("skytide_fleet_splits", "Tasks that read a batch.", lambda f: f.status.splits),
    Value("skytide_fleet_tuples_total", "Tuples that were let in.", lambda f: f.status.tuples),
    Value("skytide_fleet_buffered_tuples", "Tuples that came but were not let in yet.", lambda f: f.status.buffered),
    Value("skytide_fleet_expected_tuples_per_second", "Tuples expected of all streams together.", lambda f: f.status.expected_hz),
    Value("skytide_fleet_split_capacity_tuples_per_second", "Tuples that one split can take.", lambda f: f.status.capacity_hz),
    Value("skytide_fleet_redirections_total", "Streams that were moved to another split.", lambda f: f.status.redirections),
    Value("skytide_fleet_invalid_records_total", "Records that could not be read.", lambda f: f.status.invalid),
    Value("skytide_fleet_forgotten_streams_total", "Streams that lost their place after they had been missing for long.", lambda f: f.status.forgotten),
    Value("skytide_fleet_unknown_names", "Names that were suspended, resumed or declared, but no stream has them; at most 10 are counted.", lambda f: len(f.status.unknown)),
    Value("skytide_fleet_windows_wait", "1 while windows wait for a stream that is behind.", lambda f: bool(f.status.waits_for)),
    Value("skytide_fleet_windows_wait_seconds", "How far the stream that windows wait for is behind the newest tuple, if that is known.", lambda f: f.status.waits_s),
    Value("skytide_fleet_planning_seconds", "Time to discover all streams, assign them to splits and log the latest batch.", lambda f: f.status.planning_s),
)  # fmt: skip

_log = logging.getLogger(__name__)


def families(watched: Sequence[Watched]) -> Iterator[Metric]:
    """Return all metrics of what was seen; what cannot be told of one subject is left out for that subject only."""
    queries, scalers, fleets = (_seen(watched, snapshot_type) for snapshot_type in (QuerySnapshot, ScalerSnapshot, FleetSnapshot))
    for values, seen, label in ((QUERY, queries, "query"), (SCALER, scalers, "query"), (FLEET, fleets, "fleet")):
        for value in values:
            family_of = CounterMetricFamily if value.is_counter else GaugeMetricFamily
            family = family_of(value.name, value.help, labels=[label])
            for name, subject in seen.items():
                number = _number(value, subject)
                if number is not None:
                    family.add_metric([name], number)
            if family.samples:
                yield family
    if queries:
        yield from _of_queries(queries)
    if fleets:
        yield from _of_fleets(fleets)


def _number(value: Value, watched: Watched) -> float | None:
    try:
        number = value.of(watched.latest)
        return None if number is None else float(number)
    except Exception:
        _log.warning("%s of %r is not known now", value.name, watched.subject.name, exc_info=True)
        return None


def _of_queries(queries: Mapping[str, Watched]) -> Iterable[Metric]:
    latency = HistogramMetricFamily(
        "skytide_query_window_latency_seconds",
        "Time from the end of a window to its result, since metrics are exported.",
        labels=["query"],
    )
    spent = CounterMetricFamily("skytide_query_step_seconds_total", "Where the time of batches went.", labels=["query", "step"])
    for name, query in queries.items():
        if is_live(query.latest.status):
            latency.add_metric([name], query.latencies.buckets(), query.latencies.sum_s)
        for step in STEPS:
            if step in query.latest.seconds:
                spent.add_metric([name, step.replace(" ", "_")], query.latest.seconds[step])
    return [family for family in (latency, spent) if family.samples]


def _of_fleets(fleets: Mapping[str, Watched]) -> Iterable[Metric]:
    streams = GaugeMetricFamily("skytide_fleet_streams", "Streams, by what they do.", labels=["fleet", "state"])
    loads = GaugeMetricFamily(
        "skytide_fleet_split_load_ratio", "What comes to a split over what it can take.", labels=["fleet", "split"]
    )
    lost = CounterMetricFamily("skytide_fleet_lost_total", "How often something of a stream was lost.", labels=["fleet", "reason"])
    for name, fleet in fleets.items():
        status = fleet.latest.status
        talking = status.streams - status.silent
        for state, number in (
            ("talking", talking),
            ("silent", status.silent),
            ("suspended", status.suspended),
            ("missing", status.missing),
            ("unreadable", status.unreadable),
        ):
            streams.add_metric([name, state], number)
        for split in fleet.latest.splits:
            if status.capacity_hz:
                loads.add_metric([name, str(split.split)], split.rate_hz / status.capacity_hz)
        for reason, number in sorted(status.skipped.items()):
            lost.add_metric([name, reason], number)
    return [family for family in (streams, loads, lost) if family.samples]


def _seen(watched: Sequence[Watched], snapshot_type: type) -> dict[str, Watched]:
    """Return those of a kind by name; of several with the same name the latest, as their metrics could not be distinguished."""
    return {_label(one.subject.name): one for one in watched if isinstance(one.latest, snapshot_type)}


def _label(name: str) -> str:
    """Return a name as Prometheus reads it: the name of a folder need not be UTF-8."""
    return name.encode(errors="replace").decode()


def _expected(seen: ScalerSnapshot, name: str) -> float | None:
    expected = seen.cycles[-1].decided.expected if seen.cycles else None
    return None if expected is None else float(getattr(expected, name))
