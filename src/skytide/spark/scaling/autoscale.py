"""`autoscale(query, ...)`: a controller on a running query; `autoscale(spark, ...)`: one for all queries of an application."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, get_args

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from skytide.control import Controller, Guard, controller_of
from skytide.errors.checks import check_bool, check_choice, check_type, is_integer, refused
from skytide.errors.deprecation import warn_renamed
from skytide.loop.application import ForAll, bound_of
from skytide.loop.ports import OnEvent, Plant
from skytide.records import Mode
from skytide.spark.api.run import Run
from skytide.spark.scaling.application import Application, ApplicationPlant
from skytide.spark.scaling.executors import ExecutorPlant, pool_of
from skytide.spark.scaling.json_store import store_of
from skytide.spark.scaling.live import LiveQuery, QueryPlant, Watched
from skytide.spark.scaling.pool import DRAIN_S, Pool, Report
from skytide.spark.scaling.power import Power
from skytide.spark.scaling.priorities import Priorities
from skytide.spark.scaling.scaler import Scaler
from skytide.spark.scaling.slots import RunSlots, SlotPlant
from skytide.windows import Duration, duration_s, duration_us


def autoscale(
    query: StreamingQuery | Run | SparkSession,
    controller: Controller | str = "mpc",
    executors: tuple[int, int] | None = None,
    *,
    interval: Duration | None = None,
    mode: Mode = "act",
    store: str | os.PathLike[str] | None = None,
    guard: Guard | None = None,
    warm: bool = True,
    drain: Duration = "60 s",
    bounds: Mapping[str, Duration] | None = None,
    priorities: Mapping[str, int] | None = None,
    power: bool = False,
    on_event: OnEvent | None = None,
    tell: OnEvent | None = None,
) -> Scaler:
    """Let a controller choose the number of executors of a running query, Spark's or skytide's, or of all queries of an application.

    Executors belong to the application. With a session instead of a query, one auto-scaler watches all queries that run in it, and those that
    start later or are started again: their demands add up, and each decision names the query that needs it. If several queries have auto-scalers of
    their own, their demands add up, too. The pane slots of a skytide query follow. In local mode there are no executors; there, a skytide query
    is scaled by its slots, those of both levels together, and any other is refused.

    Executors that are no longer needed are decommissioned. With Spark's settings spark.decommission.enabled,
    spark.storage.decommission.enabled and spark.storage.decommission.shuffleBlocks.enabled they finish their tasks and hand over what
    later tasks need; without them, a query that shuffles may have to repeat some tasks. Results are the same.

    A query has one auto-scaler at a time. A cycle that fails, for whatever reason, changes nothing; `events()` and `status().failure`
    say why, and the next cycle comes. See [Auto-scaling](scaling.md).

    Parameters
    ----------
    query
        A query that runs: what `start()` of a stream returned, Spark's or skytide's; or a session, for all queries of its application.
    controller
        Who decides: a controller such as `Mpc.latency("2 s")`, or its name as on the command line, such as `"mpc:2 s"`.
    executors
        The minimum and the maximum (default: 1 to 8, or the limits of the guard).
    interval
        The time from one decision to the next (default: 10 s, or two triggers if that is longer).
    mode
        "act", or "recommend": only report what it would do.
    store
        A file in which what was learned survives a restart, wherever a checkpoint may be, such as "s3a://bucket/scaler.json". It has the last
        size, too: after a restart it is asked for at once.
    guard
        All other limits.
    warm
        Give a new executor a first task of ours, so that the query need not wait for its cold start; Python is started only for queries that
        have tasks in Python.
    drain
        How long an executor that is no longer needed may finish its tasks, before it is killed and they are run again elsewhere. Half-way,
        an event says that it still has some.
    bounds
        Of all queries of an application: the mean latency that some must keep, by name, such as `{"orders": "2 s"}`; others as the controller has it.
    priorities
        Of all queries of an application: who is late last if the maximum does not suffice, as whole numbers by name, such as `{"orders": 2}`;
        others have 1. Spark has to be started with spark.scheduler.mode=FAIR.
    power
        Also set the CPU frequency, and record the power: for a single machine that allows it, and for `Mpc(power=True)`.
    on_event
        Called with each event, for instance `print`.
    tell
        The former name of `on_event`.

    Returns
    -------
    Scaler
        The auto-scaler, at work until `stop()` or the end of the query; that of an application, until the end of Spark.

    Raises
    ------
    InvalidInput
        If an argument cannot be used, the query has ended or has an auto-scaler already, or nothing of it can be resized.

    Examples
    --------
    ```
    scaler = skytide.autoscale(query, Mpc.latency("2 s"), executors=(1, 8), on_event=print)
    ...
    print(scaler.status())

    skytide.autoscale(spark, executors=(1, 8), bounds={"orders": "2 s"}, priorities={"orders": 2})
    ```
    """
    if tell is not None:
        warn_renamed("autoscale(tell=...)", "autoscale(on_event=...)")
        if on_event is not None:
            raise refused("tell", tell, "on_event is given as well", "leave tell out, which is its former name")
        on_event = tell
    check_choice("mode", mode, get_args(Mode))
    built = controller_of(controller) if isinstance(controller, str) else controller
    check_type("controller", built, Controller, reason="not a controller", remedy='pass skytide.controllers.Mpc(), or "mpc"')
    limits = Guard() if guard is None else guard
    check_type("guard", limits, Guard, reason="not a guard", remedy="pass skytide.Guard(...)")
    check_bool("warm", warm)
    check_bool("power", power)
    if on_event is not None and not callable(on_event):
        raise refused("on_event", on_event, "not a function", "pass a function of an event, for instance print")
    if executors is not None:
        minimum, maximum = _sizes(executors)
        limits = replace(limits, minimum=minimum, maximum=maximum)
    drain_s = duration_s(drain, "drain")
    interval_s = None if interval is None else duration_us(interval, "interval") / 1e6
    scaler, acts = Scaler(on_event), mode == "act"
    with ExitStack() as undo:  # one that cannot begin leaves nothing behind
        live: Watched
        if isinstance(query, SparkSession):
            all_queries = ForAll(built, _bounds_s(bounds))
            live = application = Application(query, scaler.clock)
            undo.callback(application.close)
            weights = None if priorities is None else Priorities(query, priorities)
            plant: Plant = application_plant(
                application, all_queries, weights, acts=acts, warm=warm, report=scaler.report, drain_s=drain_s
            )
            built = all_queries
        else:
            if bounds is not None or priorities is not None:
                reason = "are for all queries of an application"
                raise refused("bounds, priorities", query, reason, "pass the session instead of a query, or leave them out")
            live = one = LiveQuery(query, scaler.clock)
            undo.callback(one.close)
            plant = plant_of(one, acts=acts, warm=warm, bound_s=bound_of(built), report=scaler.report, drain_s=drain_s)
        undo.callback(plant.close)
        if power:
            plant = powered = Power(plant)
            scaler.report(powered.summary())
        saved = None if store is None else store_of(live.spark, store)
        scaler.attach(live, plant, built, limits, interval_s, saved, acts=acts)
        undo.pop_all()
    return scaler


def application_plant(
    application: Application,
    controller: ForAll,
    priorities: Priorities | None,
    *,
    acts: bool,
    warm: bool,
    report: Report,
    drain_s: float = DRAIN_S,
) -> Plant:
    """Return what the queries of an application run on; unless they are only watched, what cannot be resized is refused."""
    if acts:
        application.cluster.check()
    pool = pool_of(application, warm=warm) if acts else Pool(application.cluster)
    chosen = priorities if acts else None
    return ApplicationPlant(application, pool, report, bound_s=controller.bound_s, priorities=chosen, drain_s=drain_s)


def plant_of(
    live: LiveQuery, *, acts: bool, warm: bool, report: Report, bound_s: float | None = None, drain_s: float = DRAIN_S
) -> Plant:
    """Return what a query runs on; unless it is only watched, what cannot be resized is refused."""
    slots = RunSlots(live.run) if live.run else None
    if live.cluster.local and slots is not None:
        return SlotPlant(live, slots)
    if not acts:  # executors that are only watched are shared with nobody
        return QueryPlant(live) if live.cluster.local else ExecutorPlant(live, Pool(live.cluster), report)
    live.cluster.check()
    return ExecutorPlant(live, pool_of(live, warm=warm), report, slots, drain_s=drain_s, bound_s=bound_s)


def _bounds_s(bounds: Any) -> dict[str, float]:
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping) or not all(isinstance(name, str) for name in bounds):
        raise refused("bounds", bounds, "not a table of names", 'give a length of time per name of a query, as {"orders": "2 s"}')
    return {name: duration_us(bound, f"bound of {name}") / 1e6 for name, bound in bounds.items()}


def _sizes(executors: Any) -> tuple[int, int]:
    match executors:
        case (minimum, maximum) if is_integer(minimum) and is_integer(maximum):
            return int(minimum), int(maximum)
    raise refused("executors", executors, "not two numbers", "give the minimum and the maximum, such as (1, 8)")
