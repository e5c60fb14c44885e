"""An auto-scaler as something to watch, for pages and metrics."""

from typing import TYPE_CHECKING

from skytide.spark.clock import time_of_day
from skytide.watch.snapshots import ScalerAbout, ScalerSnapshot, Subject

if TYPE_CHECKING:
    from skytide.spark.scaling.live import Watched
    from skytide.spark.scaling.scaler import Scaler

EVENTS = 50
ID_SHOWN = 8  # characters


def scaler_subject(scaler: "Scaler", live: "Watched", about: ScalerAbout) -> Subject:
    """Return an auto-scaler as something to watch, pause and resume."""

    def snapshot() -> ScalerSnapshot:
        return ScalerSnapshot(time_of_day(), about, scaler.status(), tuple(scaler.cycles()), tuple(scaler.events()[-EVENTS:]))

    name = live.name if live.name != live.id else f"query {live.id[:ID_SHOWN]}"
    does = f"{about.controller} every {about.interval_s:g} s: {about.limits}"
    return Subject(f"scaler-{live.id}", "scaler", name, does, snapshot, {"pause": scaler.pause, "resume": scaler.resume})
