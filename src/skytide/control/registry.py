"""All controllers, by their names on a command line: help, exports and reference pages come from this table."""

from collections.abc import Callable
from dataclasses import dataclass

from skytide.control.controller import Controller
from skytide.control.controllers.congestion import Congestion
from skytide.control.controllers.fuzzy import Fuzzy
from skytide.control.controllers.mpc import Mpc
from skytide.control.controllers.proportional import Proportional
from skytide.control.controllers.sarsa import Sarsa
from skytide.control.controllers.static import Static
from skytide.control.controllers.thresholds import GlobalThresholds, LocalThresholds
from skytide.control.controllers.utilisation import UtilisationThresholds
from skytide.errors import InvalidInput
from skytide.errors.checks import brief, check_text
from skytide.errors.deprecation import warn_renamed

MAX_DIGITS = 9  # of a number of workers


@dataclass(frozen=True)
class Registered:
    """A controller in the table; called, it returns one with its default options."""

    name: str
    """On a command line."""
    type: type[Controller]
    default: Callable[[], Controller]
    example: str = ""
    """Its name with an option, as on a command line; empty if it has none there."""
    with_option: Callable[[str], Controller] | None = None

    def __call__(self) -> Controller:
        """Return it with its default options."""
        return self.default()

    @property
    def description(self) -> str:
        """What it does: the first line of its docstring."""
        return (self.type.__doc__ or "").partition("\n")[0]


def _static(option: str) -> Controller:
    if not (option.isdecimal() and len(option) <= MAX_DIGITS):
        raise _unknown(f"static:{option}")
    return Static(int(option))


CONTROLLERS: dict[str, Registered] = {
    entry.name: entry
    for entry in (
        Registered("mpc", Mpc, Mpc.throughput, "mpc:2 s", Mpc.latency),
        Registered("fuzzy", Fuzzy, Fuzzy),
        Registered("proportional", Proportional, Proportional),
        Registered("utilisation", UtilisationThresholds, UtilisationThresholds),
        Registered("congestion", Congestion, Congestion),
        Registered("local", LocalThresholds, LocalThresholds),
        Registered("global", GlobalThresholds, GlobalThresholds),
        Registered("sarsa", Sarsa, Sarsa),
        Registered("static", Static, lambda: Static(1), "static:4", _static),
    )
}
FORMER_NAMES = {"rules": "utilisation", "spl": "congestion", "sizes": "proportional"}


def controller_of(text: str) -> Controller:
    """Return the controller that a command line names: a name, for mpc optionally with a latency bound, for static with a size.

    >>> controller_of("mpc:2 s").bound_s, controller_of("static:4").workers, controller_of("fuzzy")
    (2.0, 4, Fuzzy(maximum=None))
    """
    check_text("controller", text, "mpc")
    name, _, option = text.partition(":")
    if name in FORMER_NAMES:
        warn_renamed(f"controller {name!r}", repr(FORMER_NAMES[name]))
        name = FORMER_NAMES[name]
    entry = CONTROLLERS.get(name)
    if entry is not None and not option:
        return entry()
    if entry is not None and entry.with_option is not None:
        return entry.with_option(option)
    raise _unknown(text)


def controller_names() -> str:
    """Return what a command line accepts as a controller, for the help of an option.

    >>> controller_names()
    'mpc, "mpc:2 s", fuzzy, proportional, utilisation, congestion, local, global, sarsa, static, "static:4"'
    """
    return ", ".join(
        text for entry in CONTROLLERS.values() for text in (entry.name, entry.example and f'"{entry.example}"') if text
    )


def controllers_help() -> str:
    """Return all controllers with what each does, one per line, for the help of a command.

    >>> print(controllers_help().splitlines()[-1])
      static        Always uses the same number of workers, for instance as many as the peak needs.
    """
    width = max(map(len, CONTROLLERS))
    lines = [f"  {entry.name:{width}}  {entry.description}" for entry in CONTROLLERS.values()]
    return "\n".join(["controllers:", *lines])


def _unknown(text: str) -> InvalidInput:
    return InvalidInput(
        value=f"controller {brief(text)}", reason="there is no such controller", remedy=f"choose one of {controller_names()}"
    )
