"""Metrics as Prometheus' conventions want them, read by a real Prometheus; the board and the alerts of the docs ask only for what there is."""

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from support.snapshots import TalkingFleet, TalkingQuery, TalkingScaler

from skytide.errors import InvalidInput
from skytide.watch.exporter import Exporter
from skytide.watch.watch import Watch

MONITORING = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
DEADLINE_S = 60
REMEDY = "install it (`apt-get install prometheus`) to run the tests of metrics"


class WatchedExporter(Exporter):
    """An exporter that knows when somebody reads from it."""

    def __init__(self, watch: Watch) -> None:
        self.read_from = threading.Event()
        super().__init__(watch, 0)

    def collect(self) -> Iterable[Metric]:
        found = list(super().collect())
        self.read_from.set()
        return found


class Running:
    """One of each, exported."""

    def __init__(self) -> None:
        self.watch, self.query, self.scaler, self.fleet = Watch(), TalkingQuery(), TalkingScaler(), TalkingFleet()
        for each in (self.query, self.scaler, self.fleet):
            self.watch.add(each.subject())
        self.exporter = WatchedExporter(self.watch)
        for _ in range(3):
            self.step()

    def step(self) -> None:
        self.query.batch(tuples=1_000, late=20, invalid=1)
        self.scaler.cycle(rate_hz=2_000, wanted=8, limited=4, utilisation=0.9, reason="forecast up to 3,000 tuples/s")
        self.fleet.look_again(redirections=1)
        self.watch.refresh()

    def read(self) -> str:
        with urllib.request.urlopen(self.exporter.url, timeout=30) as answer:
            return str(answer.read().decode())

    def samples(self) -> dict[str, dict[tuple[str, ...], float]]:
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(self.read()):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
        return found


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    yield made
    made.exporter.stop()


def keyed(query: TalkingQuery) -> None:
    """Make it one with an operator on keys."""
    from dataclasses import replace

    query.latest = replace(query.latest, status=replace(query.latest.status, slots=4, imbalance=1.4, moved_groups=7))


def test_the_numbers_are_those_of_the_records(running: Running) -> None:
    found = running.samples()
    assert found["skytide_query_tuples_total"] == {("prices",): 3_000}
    assert found["skytide_query_late_tuples_total"] == {("prices",): 60}
    assert found["skytide_query_utilisation_ratio"] == {("prices",): 0.4}
    assert found["skytide_query_slack_seconds"] == {("prices",): 0.4}
    assert found["skytide_query_window_latency_seconds_count"] == {("prices",): 3}
    assert found["skytide_query_window_latency_seconds_sum"] == {("prices",): 4.5}
    assert found["skytide_query_window_latency_seconds_bucket"]["1.0", "prices"] == 0
    assert found["skytide_query_window_latency_seconds_bucket"]["1.5", "prices"] == 3
    assert found["skytide_query_step_seconds_total"]["prices", "pane_level"] == pytest.approx(0.3)
    assert found["skytide_scaler_wanted_workers"] == {("prices",): 4}
    assert found["skytide_scaler_limited_total"] == {("prices",): 3}
    assert found["skytide_scaler_changes_total"] == {("prices",): 1}
    assert found["skytide_scaler_forecast_high_tuples_per_second"] == {("prices",): 3_000}
    assert found["skytide_fleet_streams"]["cabs", "missing"] == 1
    assert found["skytide_fleet_seen_timestamp_seconds"] == {("cabs",): running.fleet.latest.status.seen_s}
    assert found["skytide_fleet_split_load_ratio"]["cabs", "1"] == 0.45
    assert "skytide_query_key_slots" not in found


def test_a_query_that_ended_says_so(running: Running) -> None:
    running.query.set_state("failed", "why")
    running.watch.refresh()
    found = running.samples()
    assert found["skytide_query_running"] == {("prices",): 0}
    assert found["skytide_query_failed"] == {("prices",): 1}
    assert found["skytide_query_windows_total"] == {("prices",): 3}


def test_a_port_that_is_taken_is_refused(running: Running) -> None:
    with pytest.raises(InvalidInput, match="cannot listen there"):
        Exporter(running.watch, running.exporter.port)


def expressions() -> list[tuple[str, str]]:
    """Return what the board and the alerts ask for."""
    board = json.loads((MONITORING / "grafana.json").read_text())
    asked = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", ())]
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    return asked + [(rule["alert"], rule["expr"]) for rule in rules]


def test_board_and_alerts_ask_for_metrics_that_exist(running: Running) -> None:
    keyed(running.query)
    running.watch.refresh()
    exist = set(running.samples())
    asked = {name for _, text in expressions() for name in re.findall(r"skytide_\w+", text)}
    assert len(asked) > 30
    assert asked <= exist


def test_every_metric_is_in_the_documentation(running: Running) -> None:
    keyed(running.query)
    running.watch.refresh()
    page = (MONITORING.parent / "operating.md").read_text()
    names = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in running.samples()}
    assert {name for name in names if f"`{name}`" not in page} == set()


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip(f"no promtool: {REMEDY}")
    return found


def test_names_and_units_are_as_prometheus_wants_them(running: Running, promtool: str) -> None:
    done = subprocess.run([promtool, "check", "metrics"], input=running.read(), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_alerts_are_rules_of_prometheus(promtool: str) -> None:
    done = subprocess.run([promtool, "check", "rules", MONITORING / "alerts.yml"], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A real one that reads from an exporter every second."""

    def __init__(self, folder: Path, target: WatchedExporter) -> None:
        found = shutil.which("prometheus")
        if found is None:
            pytest.skip(f"no Prometheus: {REMEDY}")
        shutil.copy(MONITORING / "alerts.yml", folder)
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [alerts.yml]\n"
            f"scrape_configs: [{{job_name: skytide, static_configs: [{{targets: ['127.0.0.1:{target.port}']}}]}}]\n"
        )
        self.target, self.log, self._written = target, "", threading.Condition()
        self.process = subprocess.Popen(
            [
                found,
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        with self._written:
            self._written.wait_for(lambda: self._address() or self.process.poll() is not None, DEADLINE_S)
        listening = self._address()
        assert listening, self.log
        self.port = int(listening[1])

    def _read_log(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                with self._written:
                    self.log += line
                    self._written.notify_all()

    def _address(self) -> re.Match[str] | None:
        return re.search(r"\"Listening on\" address=127\.0\.0\.1:(\d+)", self.log)

    def ask(self, expression: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{query}", timeout=30) as answer:
                return list(json.load(answer)["data"]["result"])
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 503:  # it starts
                return []
            raise AssertionError(f"{expression}: {error.read().decode()}") from error

    def until(self, expression: str, step: Callable[[], None] = lambda: None) -> None:
        """Ask after each time that it has read metrics, until there is an answer."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            self.target.read_from.clear()
            step()
            if self.ask(expression):
                return
            is_read = self.target.read_from.wait(max(deadline - time.monotonic(), 0))
            assert is_read and self.process.poll() is None and time.monotonic() < deadline, self.log[-2_000:]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._reader.join(30)


@pytest.mark.slow
def test_a_real_prometheus_reads_them_and_answers_every_panel(running: Running, tmp_path: Path) -> None:
    keyed(running.query)
    running.watch.refresh()
    prometheus = Prometheus(tmp_path, running.exporter)
    try:
        prometheus.until("rate(skytide_query_tuples_total[1m]) > 0", step=running.step)
        prometheus.until("count_over_time(skytide_query_running[1m]) >= 3", step=running.step)
        for title, text in expressions():
            filled = text.replace("$query", ".+").replace("$fleet", ".+")
            found = prometheus.ask(filled)
            assert found or title.startswith("Skytide"), f"{title}: {filled}"
        running.query.set_state("failed", "why")
        running.watch.refresh()
        prometheus.until('ALERTS{alertname="SkytideQueryFailed", alertstate="firing", query="prices"}')
    finally:
        prometheus.stop()
