"""Three queries with unequal triggers under one auto-scaler on a real cluster, run as `python application_job.py FOLDER`; then priorities.

As in `autoscale_job`, work is modelled by waiting, so it scales with executors although they share the few cores of one machine.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import skytide
from skytide.control import Guard, Mpc
from skytide.records.application import ApplicationObservation
from skytide.spark.compat import pool_weight
from skytide.spark.scaling import Scaler
from skytide.spark.session.cluster import LocalCluster
from skytide.spark.session.local import local_session
from support.autoscale_job import SOURCES, TESTS, Site, ask_service, reported
from support.classes import archive

MAX_EXECUTORS = 5
TRIGGERS_S = {"four": 4, "six": 6, "nine": 9}
HZ, ROW_S, PARTS = 100, 0.004, 10
"""Each query needs 0.4 executors on average; a batch of the longest trigger has 3.6 s of tasks."""
WATCHED = 12  # intervals after it has settled


def start(spark: SparkSession, name: str, trigger_s: int, row_s: float = ROW_S, hz: int = HZ) -> StreamingQuery:
    rows = spark.readStream.format("rate").option("rowsPerSecond", hz).option("numPartitions", PARTS).load()
    answers = rows.selectExpr("value AS id").mapInArrow(ask_service(row_s), "id bigint, answer bigint")
    return answers.writeStream.format("noop").queryName(name).trigger(processingTime=f"{trigger_s} seconds").start()


def batches(query: StreamingQuery) -> int:
    return -1 if query.lastProgress is None else int(query.lastProgress.batchId)


def unequal(site: Site) -> dict[str, Any]:
    """Scale three queries, of which the last comes later and one ends before the others."""
    queries = {name: start(site.spark, name, trigger_s) for name, trigger_s in list(TRIGGERS_S.items())[:2]}
    guard = Guard(scale_down_after="20 s", notice_no_help=False)
    scaler = skytide.autoscale(
        site.spark, Mpc(headroom=0.2), (1, MAX_EXECUTORS), interval="6 s", guard=guard, priorities={"four": 3}, on_event=site.note
    )
    queries["nine"] = start(site.spark, "nine", TRIGGERS_S["nine"])
    site.until(lambda: seen_all(scaler, set(TRIGGERS_S)), "all three are known")
    site.until(lambda: len(scaler.cycles()) > 10, "it has settled")
    first, watched_s = len(scaler.cycles()), scaler.clock()
    numbers = {name: batches(query) for name, query in queries.items()}
    shares = list[float]()
    for cycle in range(first, first + WATCHED):
        site.until(lambda: len(scaler.cycles()) > cycle, "it has been watched")  # noqa: B023
        shares.append(attributed(scaler))
    took = {
        name: [
            progress.durationMs["triggerExecution"] / 1e3 for progress in query.recentProgress if progress.batchId > numbers[name]
        ]
        for name, query in queries.items()
    }
    cycles = scaler.cycles()[first:]
    changes = [event.text for event in scaler.events() if event.at_s > watched_s]
    queries["nine"].stop()
    site.until(lambda: reported(scaler, "query nine has ended"), "it is noticed that a query has ended")
    weights = {name: pool_weight(site.spark, f"skytide-{query.id}") for name, query in queries.items()}
    scaler.stop()
    for query in queries.values():
        query.stop()
    return {
        "took": took, "sizes": [cycle.limited.allocation.workers for cycle in cycles], "reasons": [cycle.decided.reason for cycle in cycles],
        "shares": shares, "changes": changes, "weights": weights, "events": [str(event) for event in scaler.events()],
    }  # fmt: skip


def attributed(scaler: Scaler) -> float:
    """Return what queries did, each alone, over what executors were busy with."""
    alone: dict[str, Any] = scaler._plant._latest  # type: ignore[attr-defined]
    demands = [one.arrival_rate_hz * one.batch.work_s / one.batch.rows for one in alone.values() if one.batch]
    return sum(demands) / sum(load for _, load in scaler.history()[-1].loads)


def seen_all(scaler: Scaler, names: set[str]) -> bool:
    return any(
        isinstance(seen, ApplicationObservation) and names <= {name for name, one in seen.queries.items() if one}
        for seen in scaler.history()
    )


def priorities(site: Site) -> dict[str, Any]:
    """Let two equal queries ask for more than the maximum, and prefer one of them."""
    site.resize(4)  # each query has one task at least, whatever its weight
    queries = {name: start(site.spark, name, 3, row_s=0.02) for name in ("common", "preferred")}
    scaler = skytide.autoscale(site.spark, Mpc(), (4, 4), interval="6 s", priorities={"preferred": 20}, on_event=site.note)
    site.until(lambda: all(batches(query) >= 2 for query in queries.values()), "both run")
    numbers = {name: batches(query) for name, query in queries.items()}
    site.until(lambda: batches(queries["preferred"]) >= numbers["preferred"] + 6, "one has gone on", 3 * site.deadline_s)
    done = {name: batches(query) - numbers[name] for name, query in queries.items()}
    scaler.stop()
    for query in queries.values():
        query.stop()
    return {"done": done, "events": [str(event) for event in scaler.events()]}


def main(folder: str) -> None:
    """Run both on one cluster and in one session."""
    with LocalCluster(MAX_EXECUTORS, classes=archive()) as local:
        settings = {
            **local.settings(),
            "spark.python.daemon.module": "pyspark.daemon",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join((TESTS, SOURCES)),
            "spark.scheduler.mode": "FAIR",
            # With these, a standalone cluster starts with two executors.
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.initialExecutors": "2",
        }
        spark = local_session("an application", **settings)
        spark.sparkContext._jsc.sc().executorAllocationManager().get().stop()
        site = Site(spark, local)
        found = {"unequal": unequal(site), "priorities": priorities(site)}
        Path(folder, "found.json").write_text(json.dumps(found))
        spark.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # so that the cluster ends, too
    main(*sys.argv[1:])
