"""`autoscale(query, ...)`: a controller on a running query."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from skytide.control import Controller, Guard, controller_of
from skytide.errors.checks import is_whole, kind_of, one_of, refused, yes_or_no
from skytide.loop.ports import Plant
from skytide.records import Event
from skytide.spark.api.run import Run
from skytide.spark.scaling.executors import Pool, Share, Tell, pool_of
from skytide.spark.scaling.json_store import JsonStore
from skytide.spark.scaling.live import LiveQuery, Watched
from skytide.spark.scaling.power import Power
from skytide.spark.scaling.scaler import Scaler
from skytide.spark.scaling.slots import LocalSlots, RunSlots
from skytide.windows import Duration, duration_us

MODES = ("act", "recommend")


def autoscale(
    query: StreamingQuery | Run,
    controller: Controller | str = "mpc",
    executors: tuple[int, int] | None = None,
    *,
    interval: Duration | None = None,
    mode: str = "act",
    store: str | os.PathLike[str] | None = None,
    guard: Guard | None = None,
    warm: bool = True,
    power: bool = False,
    tell: Callable[[Event], None] | None = None,
) -> Scaler:
    """Let a controller choose the number of executors of a running query, Spark's or skytide's, and return the auto-scaler.

    `executors` are the minimum and the maximum (default: 1 to 8, or the limits of the guard). They belong to the application: if
    several of its queries are scaled, the one that needs the most decides. The pane slots of a skytide query follow. In local mode
    there are no executors; there, a skytide query is scaled by its slots, those of both levels together, and any other is refused.

    Executors that are no longer needed are decommissioned. With Spark's settings spark.decommission.enabled,
    spark.storage.decommission.enabled and spark.storage.decommission.shuffleBlocks.enabled they finish their tasks and hand over what
    later tasks need; without them, a query that shuffles may have to repeat some tasks. Results are the same.

    `interval` is the time from one decision to the next (default: 10 s, or two triggers if that is longer). `mode="recommend"` only
    reports what it would do. `store` names a file in which what was learned survives a restart. `guard` holds all other limits.
    `warm`: a new executor gets a first task of ours, so that the query need not wait for its cold start. `power`: also set the CPU
    frequency, and record the power; that is for a single machine that allows it, and for `Mpc(power=True)`. `tell` is called with
    each event.

    A query has one auto-scaler at a time. A cycle that fails, for whatever reason, changes nothing; `events()` and `status().failure`
    say why, and the next cycle comes.
    """
    one_of("mode", mode, MODES)
    built = controller_of(controller) if isinstance(controller, str) else controller
    kind_of("controller", built, Controller, reason="not a controller", remedy='pass skytide.Mpc(), or "mpc"')
    limits = Guard() if guard is None else guard
    kind_of("guard", limits, Guard, reason="not a guard", remedy="pass skytide.Guard(...)")
    yes_or_no("warm", warm)
    yes_or_no("power", power)
    if tell is not None and not callable(tell):
        raise refused("tell", tell, "not a function", "pass a function of an event, for instance print")
    if executors is not None:
        minimum, maximum = _sizes(executors)
        limits = replace(limits, minimum=minimum, maximum=maximum)
    interval_s = None if interval is None else duration_us(interval, "interval") / 1e6
    scaler = Scaler(tell)
    with ExitStack() as undo:  # one that cannot begin leaves nothing behind
        live = LiveQuery(query, scaler.clock)
        undo.callback(live.close)
        plant = plant_of(live, acts=mode == "act", warm=warm, tell=scaler.say)
        undo.callback(plant.close)
        if power:
            plant = powered = Power(plant)
            scaler.say(powered.summary())
        saved = None if store is None else JsonStore(store)
        scaler.attach(live, plant, built, limits, interval_s, saved, acts=mode == "act")
        undo.pop_all()
    return scaler


def plant_of(live: LiveQuery, *, acts: bool, warm: bool, tell: Tell) -> Plant:
    """Return what a query runs on; unless it is only watched, what cannot be resized is refused."""
    slots = RunSlots(live.run) if live.run else None
    if live.cluster.local and slots is not None:
        return LocalSlots(live, slots)
    if not acts:  # executors that are only watched are shared with nobody
        return Watched(live) if live.cluster.local else Share(live, Pool(live.cluster), tell)
    live.cluster.check()
    return Share(live, pool_of(live, warm=warm), tell, slots)


def _sizes(executors: Any) -> tuple[int, int]:
    match executors:
        case (minimum, maximum) if is_whole(minimum) and is_whole(maximum):
            return int(minimum), int(maximum)
    raise refused("executors", executors, "not two numbers", "give the minimum and the maximum, such as (1, 8)")
