"""Watching a query costs it nothing: what Spark tells of a batch comes in a few calls to Java."""

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener

from skytide.spark.compat import JsonListener, _AsJson, progress_since
from skytide.spark.scaling.metrics import ProgressListener

DEADLINE_S = 60


class Java:
    """An object of Java's that counts the calls to it, and to what they return."""

    def __init__(self, calls: list[str], **methods: Any) -> None:
        self._calls, self._methods = calls, methods

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            self._calls.append(name)
            return self._methods.get(name)

        return call


class Kept(JsonListener):
    """Keeps the progress of all queries."""

    def __init__(self, enough: int = 1) -> None:
        self.texts, self.all_came, self._enough = list[str](), threading.Event(), enough

    def onQueryStarted(self, event: Any) -> None:
        pass

    def progressed(self, text: str) -> None:
        self.texts.append(text)
        if len(self.texts) >= self._enough:
            self.all_came.set()

    def onQueryTerminated(self, event: Any) -> None:
        pass


def event(calls: list[str]) -> Java:
    return Java(calls, progress=Java(calls, json='{"id": "q", "batchId": 1}'))


def test_the_progress_of_a_batch_takes_two_calls() -> None:
    calls, kept = list[str](), Kept()
    _AsJson(kept).onQueryProgress(event(calls))
    assert (calls, kept.texts) == (["progress", "json"], ['{"id": "q", "batchId": 1}'])
    _AsJson(kept).onQueryIdle(event(calls))
    assert len(calls) == 2


def test_spark_takes_it_apart() -> None:
    """A guilty specimen: the listener that Spark makes of one in Python."""
    calls = list[str]()
    with pytest.raises(AttributeError):  # it would go on if these were real
        JStreamingQueryListener(Kept()).onQueryProgress(event(calls))
    assert calls[:2] == ["progress", "id"]


def test_progress_of_other_queries_is_not_passed_on() -> None:
    fed = list[Any]()
    listener = ProgressListener("q", fed.append, lambda: None)
    for query in ("other", "q"):
        listener.progressed(json.dumps({"id": query}))
    assert fed == [{"id": "q"}]


def test_a_look_asks_only_for_what_is_new() -> None:
    calls = list[str]()
    remembered = [Java(calls, batchId=number, json=json.dumps({"batchId": number})) for number in range(100)]
    query: Any = type("Query", (), {"_jsq": Java([], recentProgress=remembered)})
    assert progress_since(query, 97) == [{"batchId": 98}, {"batchId": 99}]
    assert calls == ["batchId", "json"] * 2 + ["batchId"]
    assert len(progress_since(query, -1)) == 100


@pytest.mark.slow
def test_on_spark_all_progress_comes_as_spark_shows_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        pq.write_table(pa.table({"x": [number]}), tmp_path / "in" / f"{number}.parquet")
    rows = spark.readStream.schema("x long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    kept = Kept(3)
    spark.streams.addListener(kept)
    try:
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        assert kept.all_came.wait(DEADLINE_S)
    finally:
        spark.streams.removeListener(kept)
    told = [json.loads(text) for text in kept.texts]
    assert told[:3] == [json.loads(progress.json) for progress in query.recentProgress][:3]
    assert progress_since(query, 0) == [json.loads(progress.json) for progress in query.recentProgress if progress.batchId > 0]
