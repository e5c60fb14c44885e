"""The arrival processes by name: what creates each, and the fields of a workload that it needs."""

from collections.abc import Callable

from skytide.workloads.arrivals import Arrivals, Constant, MarkovModulated, OnOff, Poisson, Steps
from skytide.workloads.fleet import FLEETS
from skytide.workloads.variable import RandomWalk, Replay, SelfSimilar

ARRIVALS: dict[str, tuple[Callable[..., Arrivals], tuple[str, ...]]] = {
    "constant": (Constant, ("rate",)),
    "poisson": (Poisson, ("rate",)),
    "steps": (Steps.parse, ("steps",)),
    "map": (MarkovModulated, ("rate", "dispersion")),
    "selfsimilar": (SelfSimilar, ("rate", "hurst")),
    "walk": (RandomWalk, ("rate",)),
    "onoff": (OnOff, ("rate", "on_us", "off_us")),
    "replay": (Replay, ("series",)),
    **{name: (fleet, ("rate", "streams")) for name, fleet in FLEETS.items()},
}
