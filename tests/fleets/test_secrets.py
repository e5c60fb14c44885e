"""Canaries: a secret in every option, searched in whatever a program prints, logs, shows, exports or writes, and in Spark's plans."""

import base64
import logging
import pickle
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from canary import CANARY, found_in
from places import redis_server
from pyspark.sql import SparkSession

import skytide
from skytide.errors import InvalidInput
from skytide.records.secret import Address, Secret
from skytide.spark.fleet.settings import Settings
from skytide.spark.sinks.files import Files
from skytide.spark.sinks.format import Format
from skytide.spark.sinks.table import Table

SCHEMA = "ts timestamp, x double"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that asks for the canary, with a stream."""
    with redis_server(tmp_path_factory.mktemp("redis"), "--requirepass", CANARY) as url:
        import redis

        server = redis.Redis.from_url(url, password=CANARY)
        for second in range(30):
            server.xadd("sensor:1", {"ts": f"2026-01-01T00:00:{second:02}", "x": second})
        yield url


def test_the_search_finds_what_it_should() -> None:
    for shift in range(3):
        assert found_in(base64.b64encode(b"x" * shift + CANARY.encode() + b"and more"))
    assert found_in(f"redis://:{CANARY}@host") and found_in(pickle.dumps(Secret(CANARY))) and not found_in(f"{Secret(CANARY)}")


@pytest.mark.parametrize(
    "written", [f":{CANARY}@{{}}", f"me:{CANARY}@{{}}", f"{{}}?password={CANARY}", f"{{}}?db=0&password={CANARY}"]
)
def test_a_password_is_recognised_wherever_it_stands(written: str) -> None:
    text = f"redis://{written.format('host:6379/0')}"
    address = Address.of(text)
    assert address.password is not None and address.password.reveal() == CANARY
    assert not found_in(repr(address)) and address.plain.partition("?")[0].endswith("host:6379/0")


@pytest.mark.parametrize(
    "wrong",
    [
        {"place": f"redis+tls://:{CANARY}@host/0"},
        {"place": f"redis://:{CANARY}@host/0"},  # without streams
        {"place": f"redis://:{CANARY}@127.0.0.1:1/0", "streams": "a", "format": "nonsense"},
        {"place": f"redis://host/0?ssl_password={CANARY}", "streams": "a"},
        {"place": f"kafka://me:{CANARY}@host:9092", "topics": "a"},
    ],
)
def test_no_error_shows_a_password(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        skytide.fleet(schema=SCHEMA, **wrong)
    assert not found_in(str(refused.value))


def test_a_place_with_a_password_is_no_option() -> None:
    with pytest.raises(InvalidInput, match="password") as refused:
        Settings.from_options({"path": f"redis://:{CANARY}@host/0", "schema": SCHEMA, "streams": "a"})
    assert not found_in(str(refused.value))
    remedied = Settings.from_options({"path": "redis://host/0", "schema": SCHEMA, "streams": "a", "password": CANARY})
    assert remedied.password == Secret(CANARY)
    assert not found_in(repr(remedied)) and not found_in(repr(remedied.options()))


def test_sinks_hide_their_options() -> None:
    files = Files("csv", "file:///data", {"x": CANARY})
    for sink in (Format("jdbc", None, {"url": CANARY}), Table("t", None, {"x": CANARY}), files):
        assert not found_in(repr(sink)) and not found_in(repr(vars(sink)))


class Seen:
    """What people, monitoring and disks got to see."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.texts = spark, dict[str, bytes | str]()
        self._before = {execution.executionId() for execution in self._executions()}

    def _executions(self) -> list[Any]:
        """Return what Spark's own pages show of what was executed: the latest thousand."""
        executions = self.spark._jsparkSession.sharedState().statusStore().executionsList()
        return [executions.apply(number) for number in range(executions.size())]

    def add(self, **texts: Any) -> None:
        self.texts |= {name: text if isinstance(text, bytes) else str(text) for name, text in texts.items()}

    def add_files(self, folder: Path) -> None:
        self.add(**{str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()})

    def add_plans(self) -> None:
        """Add what Spark's own pages show of what was executed since."""
        for one in self._executions():
            if (number := one.executionId()) not in self._before:
                self.add(**{f"execution {number}": one.physicalPlanDescription() + one.description() + one.details()})
        jobs = self.spark.sparkContext._jsc.sc().statusStore().jobsList(None)
        self.add(jobs="\n".join(jobs.apply(at).toString() + str(jobs.apply(at).description()) for at in range(jobs.size())))

    def add_page(self, page: Any) -> None:
        with urllib.request.urlopen(page.url.partition("#")[0] + "events", timeout=60) as answer:
            while not (line := answer.readline()).startswith(b"data: "):
                pass
        self.add(page=line, page_object=page)

    def betrayed(self) -> list[str]:
        return [name for name, text in self.texts.items() if found_in(text)]


def test_a_query_on_a_server_with_a_password_shows_it_nowhere(
    spark: SparkSession, tmp_path: Path, address: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, "skytide")
    seen = Seen(spark)
    fleet = skytide.fleet(address.replace("//", f"//:{CANARY}@"), schema=SCHEMA, streams="sensor:*")
    loaded = fleet.load(spark)
    seen.add(frame=loaded._jdf.queryExecution().toString(), explained=loaded._jdf.queryExecution().analyzed().treeString())
    options = dict.fromkeys(("password", "url", "anything"), CANARY)
    inside = skytide.stream(fleet, time="ts").window("10 seconds").aggregate("count(*) AS n")
    run = inside.start(
        "json", path=tmp_path / "out", options=options, checkpoint=tmp_path / "state", trigger="availableNow", flush=True
    )
    page, metrics = run.serve(port=0), run.metrics(port=0)
    try:
        run.await_termination()
        assert run.status().tuples == 30
        seen.add(run=run, fleet=fleet, settings=fleet.settings, html=run._repr_html_() + fleet._repr_html_(), status=fleet.status())
        seen.add(progress=run.query.recentProgress, explained_run=run.query._jsq.explainInternal(True))
        seen.add_page(page)
        seen.add(metrics=urllib.request.urlopen(metrics.url, timeout=60).read())
    finally:
        page.stop()
        metrics.stop()
    plain = (
        loaded.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "plain")).trigger(availableNow=True).start()
    )
    plain.awaitTermination()
    seen.add(plain=plain._jsq.explainInternal(True), plain_progress=plain.recentProgress)
    assert sum(progress["numInputRows"] for progress in plain.recentProgress) == 30
    seen.add_plans()
    seen.add_files(tmp_path)
    seen.add_files(Path(str(fleet.settings.channel)))
    printed = capfd.readouterr()
    seen.add(log=caplog.text, out=printed.out, err=printed.err)
    assert len(seen.texts) > 20 and any(name.startswith("execution") for name in seen.texts)
    assert seen.betrayed() == []


def test_no_error_of_a_running_source_shows_a_password(spark: SparkSession, address: str) -> None:
    wrong = f"{CANARY}, but wrong"
    fleet = skytide.fleet(address.replace("//", f"//:{wrong}@"), schema=SCHEMA, streams="sensor:*")
    with pytest.raises(InvalidInput, match="does not answer") as refused:
        fleet.load(spark)
    assert not found_in(str(refused.value))
