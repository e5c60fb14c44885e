"""A life of a job, in a process of its own: `python -m campaign.job SETTINGS`, which starts Spark, waits for orders, and runs to the end.

SETTINGS are those of the session, as JSON. Orders are one line of JSON on standard input, as `orders` writes it; a process that survived a
life waits for the orders of another. What happens is printed line by line on standard output: "ready APPLICATION", "batch 3", "sink 4",
"change" of slots, keys or splits, "parts" if the window level of a batch was divided, "stage" of a job after its first, "done".
"""

import inspect
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

import skytide
from campaign import cases, inputs, operators, sinks
from campaign.drawing import draw
from skytide.routing import Auto, Costs
from skytide.spark.api.query import ContinuousQuery
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.session.local import local_session

SIDES = ("late", "windows", "invalid")


EAGER = Auto(costs=Costs(send_s=0.0, stage_s=0.0))
"""Sends tuples to slots as soon as partitions are not balanced, however few there are."""


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


def slack(case: cases.Case) -> Any:
    """Return the slack of the case."""
    name, value = case.slack
    return {
        "k": skytide.slacks.KSlack,
        "ratio": lambda: skytide.slacks.DropRatio(value),
        "fixed": lambda: skytide.slacks.FixedSlack(f"{round(value)} us"),
    }[name]()


@contextmanager
def divided(life: cases.Life) -> Iterator[None]:
    """Let the window level of queries that start now be divided, and leave the driver, however little it has to do."""
    rules, always = QuerySpec.rules, {"spreading_pays_s": 0.0, "driver_pays_s": -1.0} if life.divides else {}
    with patch.object(QuerySpec, "rules", lambda spec, **chosen: rules(spec, **{**chosen, **always})):
        yield


def query(stream: Any, case: cases.Case, wording: str) -> Any:
    """Return the query of the case, in a wording."""
    ask, bounds = case.ask, {"slide": f"{case.slide_us} us", "slack": slack(case)}
    windowed = stream.window(f"{case.length_us} us", **bounds)
    preferences = [
        {"low": skytide.low, "high": skytide.high, "diff": skytide.diff}[kind](column) for kind, column in ask.preferences
    ]
    if ask.method in ("aggregate", "best_keys"):
        measures = [f"{function}({column}) AS {name}" for function, column, name in ask.measures]
        found = {
            "keys": lambda: windowed.aggregate(*measures, keys=ask.keys),
            "group_by": lambda: windowed.group_by(*ask.keys).agg(*measures),
            "keyed": lambda: stream.keyed(*ask.keys).window(f"{case.length_us} us", **bounds).aggregate(*measures),
        }[wording]()
        return found if ask.method == "aggregate" else found.top_k(ask.number, by="n")
    if ask.method == "top_k":
        return windowed.top_k(ask.number, by=preferences[0])
    named = {"skyline": {}, "levels": {"up_to": ask.number}}.get(ask.method, {"k": ask.number})
    return getattr(windowed, ask.method)(*preferences, **named)


def keyed(stream: Any, case: cases.Case) -> Any:
    """Return the operator on keys of the case."""
    by_key, ask = stream.keyed(*case.ask.keys), case.ask
    if ask.method == "running":
        return by_key.apply(operators.Running(), slack=slack(case))
    if ask.method == "timed":
        return by_key.window(f"{case.length_us} us", slide=f"{case.slide_us} us", slack=slack(case)).apply(operators.Numbered())
    step = cases.slide_of_count(ask.number)
    return by_key.count_window(ask.number, step, slack(case), tick=f"{case.slide_us} us").apply(operators.Numbered())


def start(spark: SparkSession, case: cases.Case, life: cases.Life, folder: Path, given: Any) -> Any:
    """Start the query."""
    stream = skytide.stream(given, order=case.ask.order)
    target, hook = folder / "out", hook_of(life.blow)
    target.mkdir(exist_ok=True)
    own_keys = {"results": cases.row_key(case.ask), "late": ("id",), "invalid": ("id",)}
    outputs = {name: sinks.sink(case.sink, target, name, own_keys.get(name, ()), hook) for name in ("results", *sides())}
    results = outputs.pop("results")
    if case.sink not in sinks.HOOKED:
        outputs["path"], results = results, case.sink
    if case.sink == "json":
        outputs["options"] = sinks.STAMPS
    outputs |= {"trigger": "100 ms"} if life.is_endless(case) else {"trigger": "availableNow", "flush": life.flushes(case)}
    if case.is_keyed:
        asked = keyed(stream, case)
        outputs["slots"] = life.pane_slots[0]
    else:
        asked = query(stream, case, life.wording or case.ask.wording)
        # A fleet's streams are read in its own splits, unless they are sent elsewhere.
        in_place = life.splitting == "IN_PLACE" or isinstance(given, skytide.Fleet)
        slots = {} if in_place else {"pane_slots": life.pane_slots[0]}
        outputs |= {
            "splitting": EAGER if life.splitting == "EAGER" else life.splitting,
            "window_slots": life.window_slots[0],
            **slots,
        }
    with divided(life):
        return asked.start(results, checkpoint=str(folder / "checkpoint"), **outputs)


def watch(run: Any, case: cases.Case, life: cases.Life, given: Any) -> None:
    """Report every batch, change the number of slots after it, and let keys move; report that, and that a fleet has more or fewer splits."""
    latest, splits = run.status().batch, 0
    while run.query.isActive:
        if (batch := run.status().batch) != latest:
            latest = batch
            say("batch", batch)
            if "each with its parts" in run.status().window_plan:
                say("parts", batch)
            slots, window_slots = (choice[batch % len(choice)] for choice in (life.pane_slots, life.window_slots))
            say("change", slots, window_slots)
            run.resize(**{"slots": slots} if case.is_keyed else {"pane_slots": slots, "window_slots": window_slots})
            if case.is_keyed and batch % 2:
                run.rebalance()
        if isinstance(given, skytide.Fleet) and (now := given.status().splits) != splits:
            splits = now
            say("change", "splits", splits)
        time.sleep(0.01)


def watch_stages(spark: SparkSession, run: Any) -> None:
    """Report every stage that runs after another one of its job."""
    tracker, seen = spark.sparkContext.statusTracker(), set()
    while run.query.isActive:
        for job in tracker.getActiveJobsIds():
            found = tracker.getJobInfo(job)
            stages = sorted(found.stageIds) if found else []
            for stage in set(stages[1:]) & set(tracker.getActiveStageIds()) - seen:
                seen.add(stage)
                say("stage", stage)
        time.sleep(0.003)


def live(spark: SparkSession, line: str) -> None:
    """Live once, as ordered."""
    order = json.loads(line)
    case = draw(order["seed"], order["case"])
    life, folder = case.lives[order["life"]], Path(order["folder"])
    given = inputs.source(spark, case, life, folder)
    run = start(spark, case, life, folder, given)
    threading.Thread(target=watch, args=(run, case, life, given), daemon=True).start()
    if isinstance(life.blow, cases.KillExecutors) and life.blow.between_stages:
        threading.Thread(target=watch_stages, args=(spark, run), daemon=True).start()
    run.await_termination()
    say("done")


def main(settings: str) -> None:
    """Get ready, and follow orders, until there are no more."""
    spark = local_session("a job to kill", **json.loads(settings))
    spark.dataSource.register(sinks.Transactions)
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id bigint").collect()  # so that workers are there, too
    say("ready", spark.sparkContext.applicationId)
    while line := sys.stdin.readline():
        live(spark, line)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
