"""One life of a job, in a process of its own: `python -m campaign.job SETTINGS`, which starts Spark, waits for orders, and runs to the end.

SETTINGS are those of the session, as JSON. Orders are one line of JSON on standard input, as `orders` writes it. What happens is
printed line by line on standard output: "ready APPLICATION", "batch 3", "sink 4", "done".
"""

import inspect
import json
import os
import signal
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import skytide
from campaign import cases, sinks, streams
from skytide.spark.query.continuous import ContinuousQuery
from skytide.spark.session.local import local_session

SIDES = ("late", "windows", "invalid")


def sides() -> tuple[str, ...]:
    """Return the side outputs that this engine has."""
    return tuple(name for name in SIDES if name in inspect.signature(ContinuousQuery.start).parameters)


def orders(case: cases.Case, life: int, folder: Path) -> str:
    """Return what a process needs to know for one life of a case, as a line."""
    return json.dumps({"seed": case.seed, "case": case.number, "life": life, "folder": str(folder)})


def say(*words: object) -> None:
    """Print what happened."""
    print(*words, flush=True)


def die() -> None:
    """End this process and Java by SIGKILL, at once."""
    os.killpg(0, signal.SIGKILL)


def hook_of(blow: cases.Blow) -> sinks.Hook:
    """Return what is reported at every moment of every sink."""
    calls = count(1)
    now = 0

    def hook(moment: str) -> None:
        nonlocal now
        if moment == "before":
            now = next(calls)
            say("sink", now)
        if isinstance(blow, cases.KillDriverInSink) and (now, moment) == (blow.call, blow.moment):
            die()

    return hook


def source(spark: SparkSession, case: cases.Case, life: cases.Life, folder: Path) -> Any:
    """Return the stream of the case, divided as in this life."""
    if isinstance(case.stream, cases.Workload):
        return streams.workload(case.stream, partitions=max(1, life.partitions))
    reader = spark.readStream.schema(streams.SPARK_COLUMNS).option("maxFilesPerTrigger", life.files_per_batch)
    df: DataFrame = reader.format(case.stream.format).load(str(folder / "in"))
    return df.repartition(life.partitions) if life.partitions else df


def slack(case: cases.Case) -> Any:
    """Return the slack of the case."""
    name, value = case.slack
    return {
        "k": skytide.KSlack,
        "ratio": lambda: skytide.DropRatio(value),
        "fixed": lambda: skytide.FixedSlack(f"{round(value)} us"),
    }[name]()


def query(windowed: Any, ask: cases.Ask) -> Any:
    """Return the query of the case."""
    preferences = [
        {"low": skytide.low, "high": skytide.high, "diff": skytide.diff}[kind](column) for kind, column in ask.preferences
    ]
    if ask.method in ("aggregate", "best_keys"):
        found = windowed.aggregate(*(f"{function}({column}) AS {name}" for function, column, name in ask.measures), keys=ask.keys)
        return found if ask.method == "aggregate" else found.top_k(ask.number, by="n")
    if ask.method == "top_k":
        return windowed.top_k(ask.number, by=preferences[0])
    named = {"skyline": {}, "levels": {"up_to": ask.number}}.get(ask.method, {"k": ask.number})
    return getattr(windowed, ask.method)(*preferences, **named)


def start(spark: SparkSession, case: cases.Case, life: cases.Life, folder: Path) -> Any:
    """Start the query."""
    windowed = skytide.stream(source(spark, case, life, folder)).window(
        f"{case.length_us} us", slide=f"{case.slide_us} us", slack=slack(case)
    )
    target, hook = folder / "out", hook_of(life.blow)
    target.mkdir(exist_ok=True)
    keys = {
        "results": case.ask.keys if case.ask.method in ("aggregate", "best_keys") else ("id",),
        "late": ("id",),
        "invalid": ("id",),
    }
    outputs = {name: sinks.sink(case.sink, target, name, keys.get(name, ()), hook) for name in ("results", *sides())}
    results = outputs.pop("results")
    if case.sink == "parquet":
        outputs["path"], results = results, "parquet"
    return query(windowed, case.ask).start(
        results,
        checkpoint=str(folder / "checkpoint"),
        trigger="availableNow",
        flush=True,
        splitting=life.splitting,
        pane_slots=life.pane_slots[0],
        window_slots=life.window_slots,
        **outputs,
    )


def watch(run: Any, life: cases.Life) -> None:
    """Report every batch, and change the number of slots after it."""
    latest = run.status().batch
    while True:
        if (batch := run.status().batch) != latest:
            latest = batch
            say("batch", batch)
            run.resize(pane_slots=life.pane_slots[batch % len(life.pane_slots)])
        time.sleep(0.01)


def main(settings: str) -> None:
    """Get ready, wait for orders, and run until the stream has ended."""
    spark = local_session("a job to kill", **json.loads(settings))
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id bigint").collect()  # so that workers are there, too
    say("ready", spark.sparkContext.applicationId)
    line = sys.stdin.readline()
    if not line:
        return
    order = json.loads(line)
    case = cases.draw(order["seed"], order["case"])
    life, folder = case.lives[order["life"]], Path(order["folder"])
    run = start(spark, case, life, folder)
    threading.Thread(target=watch, args=(run, life), daemon=True).start()
    run.await_termination()
    say("done")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
