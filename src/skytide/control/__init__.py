"""Pure decisions about size: controllers, models, placement, and the guard that limits them."""

from collections.abc import Callable

from skytide.control.controller import Controller, ControllerLogic
from skytide.control.controllers.fuzzy import Fuzzy
from skytide.control.controllers.mpc import Mpc
from skytide.control.controllers.rules import Rules
from skytide.control.controllers.sarsa import Sarsa
from skytide.control.controllers.sizes import Sizes
from skytide.control.controllers.spl import Spl
from skytide.control.controllers.static import Static
from skytide.control.controllers.thresholds import GlobalThresholds, LocalThresholds
from skytide.control.guard import Guard
from skytide.errors import InvalidInput
from skytide.errors.checks import brief, words

CONTROLLERS: dict[str, Callable[[], Controller]] = {
    "fuzzy": Fuzzy,
    "mpc": Mpc.throughput,
    "local": LocalThresholds,
    "global": GlobalThresholds,
    "sarsa": Sarsa,
    "rules": Rules,
    "spl": Spl,
    "sizes": Sizes,
    "static": lambda: Static(1),
}
"""All controllers by their names on a command line, with their default options."""


def controller_of(text: str) -> Controller:
    """Return the controller that a command line names: a name, for mpc optionally with a latency bound, for static with a size.

    >>> controller_of("mpc:2 s").bound_s, controller_of("static:4").workers, controller_of("fuzzy")
    (2.0, 4, Fuzzy(maximum=None))
    """
    words("controller", text, "mpc")
    name, _, option = text.partition(":")
    if name in CONTROLLERS and not option:
        return CONTROLLERS[name]()
    if name == "mpc":
        return Mpc.latency(option)
    if name == "static" and option.isdecimal() and len(option) < 10:
        return Static(int(option))
    raise InvalidInput(
        value=f"controller {brief(text)}",
        reason="there is no such controller",
        remedy=f'choose one of {", ".join(CONTROLLERS)}, "mpc:2 s", "static:4"',
    )


__all__ = [
    "CONTROLLERS",
    "Controller",
    "ControllerLogic",
    "Fuzzy",
    "GlobalThresholds",
    "Guard",
    "LocalThresholds",
    "Mpc",
    "Rules",
    "Sarsa",
    "Sizes",
    "Spl",
    "Static",
    "controller_of",
]
