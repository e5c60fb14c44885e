"""What runs, as metrics for Prometheus: pure functions of what was seen, and a small server that Prometheus reads from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from skytide.errors import InvalidInput, SkytideError
from skytide.errors.checks import whole, words
from skytide.errors.limits import MAX_PORT
from skytide.watch.looks import OVER, FleetLook, QueryLook, ScalerLook
from skytide.watch.query_view import is_live
from skytide.watch.watch import Watch, Watched

try:
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as missing:
    raise SkytideError(f"{missing.name} is not installed, but metrics need it; run `pip install 'skytide[metrics]'`") from missing


@dataclass(frozen=True)
class Value:
    """A metric of one value per subject."""

    name: str
    help: str
    of: Callable[[Any], float | None]
    """Returns its value in a look; None if it is not known."""

    @property
    def is_counter(self) -> bool:
        """Whether it only grows."""
        return self.name.endswith("_total")


QUERY: tuple[Value, ...] = (
    Value("skytide_query_running", "1 while the query runs.", lambda q: q.state not in OVER),
    Value("skytide_query_failed", "1 if the query has failed.", lambda q: q.state == "failed"),
    Value("skytide_query_batches_total", "Micro-batches that have ended.", lambda q: q.status.batch + 1),
    Value("skytide_query_tuples_total", "Tuples that came in.", lambda q: q.status.tuples),
    Value("skytide_query_late_tuples_total", "Tuples that came too late and were dropped.", lambda q: q.status.late),
    Value("skytide_query_invalid_tuples_total", "Tuples that belong to no window.", lambda q: q.status.invalid),
    Value("skytide_query_held_tuples", "Tuples so far ahead of the others that their time is not believed yet.", lambda q: q.status.held),
    Value("skytide_query_windows_total", "Windows that came out.", lambda q: q.status.windows_out),
    Value("skytide_query_utilisation_ratio", "Time of the latest batch over the interval of the trigger.", lambda q: q.status.utilisation if q.trigger_s else None),
    Value("skytide_query_pane_utilisation_ratio", "What came to the pane slots over what they could serve.", lambda q: q.status.pane_utilisation),
    Value("skytide_query_backlog_seconds", "How far the newest tuple is behind the clock.", lambda q: q.status.backlog_s if is_live(q.status) else None),
    Value("skytide_query_slack_seconds", "How long windows wait for late tuples.", lambda q: q.status.slack_us / 1e6),
    Value("skytide_query_open_panes", "Panes that are still open.", lambda q: q.status.open_panes),
    Value("skytide_query_result_rows", "Rows of the latest window.", lambda q: q.status.last_window and q.status.last_window.kept),
    Value("skytide_query_pane_slots", "Tasks of the pane level.", lambda q: q.status.pane_slots),
    Value("skytide_query_window_slots", "Tasks of the window level.", lambda q: q.status.window_slots),
    Value("skytide_query_splitting_factor", "Partitions of a pane on average.", lambda q: q.status.splitting_factor),
    Value("skytide_query_key_slots", "Slots of an operator on keys.", lambda q: q.status.slots or None),
    Value("skytide_query_key_imbalance_ratio", "Tuples of the most loaded slot of keys over the mean of all.", lambda q: q.status.imbalance if q.status.slots else None),
    Value("skytide_query_key_groups_moved_total", "Groups of keys that moved to another slot.", lambda q: q.status.moved_groups if q.status.slots else None),
)  # fmt: skip

SCALER: tuple[Value, ...] = (
    Value("skytide_scaler_running", "1 while the auto-scaler runs.", lambda s: s.status.running),
    Value("skytide_scaler_failing", "1 if its latest cycle failed, or if it ended before its query.", lambda s: bool(s.status.failure)),
    Value("skytide_scaler_paused", "1 while it is paused.", lambda s: s.status.paused),
    Value("skytide_scaler_acts", "0 if it only recommends.", lambda s: s.status.acts),
    Value("skytide_scaler_workers", "Workers that are there.", lambda s: s.status.workers),
    Value("skytide_scaler_wanted_workers", "Workers that are wanted, within the limits of the guard.", lambda s: s.status.wanted),
    Value("skytide_scaler_maximum_workers", "The highest number of workers allowed.", lambda s: s.about.maximum),
    Value("skytide_scaler_lead_seconds", "Time from asking for a worker to its first work.", lambda s: s.status.lead_s),
    Value("skytide_scaler_cycles_total", "Looks at the query, each with a decision.", lambda s: s.status.cycles),
    Value("skytide_scaler_changes_total", "How often the size was changed, or another one was asked for.", lambda s: s.status.changes),
    Value("skytide_scaler_limited_total", "How often the guard changed what the controller wanted.", lambda s: s.status.limited),
    Value("skytide_scaler_utilisation_ratio", "What came in over what could have been served.", lambda s: s.status.seen and s.status.seen.utilisation),
    Value("skytide_scaler_arrival_tuples_per_second", "Tuples that came in, over the latest interval.", lambda s: s.status.seen and s.status.seen.arrival_rate_hz),
    Value("skytide_scaler_backlog_tuples", "Tuples that wait.", lambda s: s.status.seen and s.status.seen.backlog),
    Value("skytide_scaler_forecast_tuples_per_second", "Tuples expected by the time a worker that is asked for now is at work.", lambda s: _expected(s, "mean_hz")),
    Value("skytide_scaler_forecast_high_tuples_per_second", "The upper end of the forecast's interval.", lambda s: _expected(s, "high_hz")),
)  # fmt: skip

FLEET: tuple[Value, ...] = (
    Value("skytide_fleet_splits", "Tasks that read a batch.", lambda f: f.status.splits),
    Value("skytide_fleet_tuples_total", "Tuples that were let in.", lambda f: f.status.tuples),
    Value("skytide_fleet_buffered_tuples", "Tuples that came but were not let in yet.", lambda f: f.status.buffered),
    Value("skytide_fleet_expected_tuples_per_second", "Tuples expected of all streams together.", lambda f: f.status.expected_hz),
    Value("skytide_fleet_split_capacity_tuples_per_second", "Tuples that one split can take.", lambda f: f.status.capacity_hz),
    Value("skytide_fleet_redirections_total", "Streams that were moved to another split.", lambda f: f.status.redirections),
    Value("skytide_fleet_invalid_records_total", "Records that could not be read.", lambda f: f.status.invalid),
    Value("skytide_fleet_planning_seconds", "Time for the latest look, plan and note.", lambda f: f.status.planning_s),
)  # fmt: skip

STEPS = ("pane level", "window level", "key level", "sink", "commit")


def families(watched: Sequence[Watched]) -> Iterator[Metric]:
    """Return all metrics of what was seen."""
    queries, scalers, fleets = (_seen(watched, kind) for kind in (QueryLook, ScalerLook, FleetLook))
    for values, seen, label in ((QUERY, queries, "query"), (SCALER, scalers, "query"), (FLEET, fleets, "fleet")):
        for value in values:
            kind = CounterMetricFamily if value.is_counter else GaugeMetricFamily
            family = kind(value.name, value.help, labels=[label])
            for each in seen:
                number = value.of(each.look)
                if number is not None:
                    family.add_metric([each.subject.name], float(number))
            if family.samples:
                yield family
    if queries:
        yield from _of_queries(queries)
    if fleets:
        yield from _of_fleets(fleets)


def _of_queries(queries: Sequence[Watched]) -> Iterable[Metric]:
    latency = HistogramMetricFamily(
        "skytide_query_window_latency_seconds",
        "Time from the end of a window to its result, since metrics are exported.",
        labels=["query"],
    )
    spent = CounterMetricFamily("skytide_query_step_seconds_total", "Where the time of batches went.", labels=["query", "step"])
    for each in queries:
        if is_live(each.look.status):
            latency.add_metric([each.subject.name], each.latencies.buckets(), each.latencies.sum_s)
        for step in STEPS:
            if step in each.look.seconds:
                spent.add_metric([each.subject.name, step.replace(" ", "_")], each.look.seconds[step])
    return [family for family in (latency, spent) if family.samples]


def _of_fleets(fleets: Sequence[Watched]) -> Iterable[Metric]:
    streams = GaugeMetricFamily("skytide_fleet_streams", "Streams, by what they do.", labels=["fleet", "state"])
    loads = GaugeMetricFamily(
        "skytide_fleet_split_load_ratio", "What comes to a split over what it can take.", labels=["fleet", "split"]
    )
    lost = CounterMetricFamily("skytide_fleet_lost_total", "How often something of a stream was lost.", labels=["fleet", "reason"])
    for each in fleets:
        name, status = each.subject.name, each.look.status
        talking = status.streams - status.silent
        for state, number in (
            ("talking", talking),
            ("silent", status.silent),
            ("suspended", status.suspended),
            ("missing", status.missing),
        ):
            streams.add_metric([name, state], number)
        for split in each.look.splits:
            if status.capacity_hz:
                loads.add_metric([name, str(split.split)], split.rate_hz / status.capacity_hz)
        for reason, number in sorted(status.skipped.items()):
            lost.add_metric([name, reason], number)
    return [family for family in (streams, loads, lost) if family.samples]


def _seen(watched: Sequence[Watched], kind: type) -> list[Watched]:
    """Return those of a kind; of several with the same name the latest, as their metrics could not be distinguished."""
    return list({each.subject.name: each for each in watched if isinstance(each.look, kind)}.values())


def _expected(look: ScalerLook, name: str) -> float | None:
    expected = look.cycles[-1].decided.expected if look.cycles else None
    return None if expected is None else float(getattr(expected, name))


class Exporter(Collector):
    """A small server that Prometheus reads from."""

    def __init__(self, watch: Watch, port: int, address: str = "127.0.0.1") -> None:
        """Start to listen."""
        whole("port", port, 0, MAX_PORT)
        words("address", address, "127.0.0.1")
        self._watch, registry = watch, CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except OSError as error:
            raise InvalidInput(
                value=f"{address}:{port}",
                reason=f"cannot listen there ({error.strerror or error})",
                remedy="choose an address of this machine and a free port",
            ) from None
        self.address, self.port = address, int(self._server.server_port)

    @property
    def url(self) -> str:
        """The address of the metrics."""
        return f"http://{self.address}:{self.port}/metrics"

    def describe(self) -> Iterable[Metric]:
        """Return nothing: which metrics there are depends on what runs."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of everything that is watched."""
        return families(self._watch.watched())

    @property
    def is_up(self) -> bool:
        """Whether it listens."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
