"""Fuzzy rules that scale both levels of a continuous query together, or any query by one number (P0 §4.2, SPEC E1)."""

from dataclasses import dataclass, replace
from math import ceil, floor

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.control.models.sizing import ROUNDING
from skytide.errors.checks import is_integer, refused
from skytide.records import Allocation, Decision, Evaluation

SETPOINT = 0.9  # a level should be a little faster than its input
TWICE_AS_FAST = 0.5
TOO_SLOW = 1.3
MODERATE, INTENSIVE = 1.5, 4.5  # partitions per pane: the quartiles of what P0 saw

Grades = dict[str, float]
"""How far each term applies, from 0 to 1."""

DECREASE, SLIGHT_DECREASE, UNCHANGED, SLIGHT_INCREASE, INCREASE = 0.5, 0.75, 1.0, 1.25, 1.5
# P0 Tab. 2: speed of the pane level, splitting ("": any) and speed of the window level, with the factors for both levels.
RULES: dict[tuple[str, str, str], tuple[float, float]] = {
    ("fast", "", "fast"): (DECREASE, DECREASE),
    ("fast", "", "acceptable"): (DECREASE, UNCHANGED),
    ("fast", "", "slow"): (DECREASE, INCREASE),
    ("acceptable", "moderate", "fast"): (UNCHANGED, DECREASE),
    ("acceptable", "moderate", "acceptable"): (UNCHANGED, UNCHANGED),
    ("acceptable", "moderate", "slow"): (UNCHANGED, INCREASE),
    ("acceptable", "intensive", "fast"): (SLIGHT_INCREASE, DECREASE),
    ("acceptable", "intensive", "acceptable"): (SLIGHT_INCREASE, UNCHANGED),
    ("acceptable", "intensive", "slow"): (UNCHANGED, INCREASE),
    ("slow", "", "fast"): (INCREASE, SLIGHT_DECREASE),
    ("slow", "", "acceptable"): (INCREASE, SLIGHT_INCREASE),
    ("slow", "", "slow"): (SLIGHT_INCREASE, INCREASE),
}


def speed(utilisation: float) -> Grades:
    """Return how fast a level is relative to its input.

    >>> {term: round(grade, 9) for term, grade in speed(0.6).items()}
    {'fast': 0.75, 'acceptable': 0.25, 'slow': 0.0}
    """
    fast = _share(SETPOINT - utilisation, SETPOINT - TWICE_AS_FAST)
    slow = _share(utilisation - SETPOINT, TOO_SLOW - SETPOINT)
    return {"fast": fast, "acceptable": 1.0 - fast - slow, "slow": slow}


def splitting(factor: float) -> Grades:
    """Return how intensively panes are split.

    >>> splitting(3.0)
    {'moderate': 0.5, 'intensive': 0.5}
    """
    intensive = _share(factor - MODERATE, INTENSIVE - MODERATE)
    return {"moderate": 1.0 - intensive, "intensive": intensive}


def factors(pane_utilisation: float, splitting_factor: float = 1.0, window_utilisation: float = SETPOINT) -> tuple[float, float]:
    """Return the factors for the slots of both levels: the mean output of the rules, each weighted by how far it applies.

    >>> factors(1.4, 2.0, 0.9)
    (1.5, 1.25)
    """
    panes, windows = speed(pane_utilisation), speed(window_utilisation)
    split = {"": 1.0, **splitting(splitting_factor)}
    weights = {(p, s, w): min(panes[p], split[s], windows[w]) for p, s, w in RULES}
    total = sum(weights.values())
    pane, window = (sum(weight * RULES[rule][level] for rule, weight in weights.items()) / total for level in (0, 1))
    return pane, window


def scaled(slots: int, factor: float, utilisation: float) -> int:
    """Return slots times a factor, rounded to the nearest whole number, and at least 1.

    P0 stops there. With few slots that can be a trap: one slot that is 10 % too slow becomes 1.25, which is rounded to 1 again, forever. So
    the number is rounded up where rounding down would leave the level too slow and the exact number would not, or would change nothing.

    >>> scaled(4, 1.25, 1.1), scaled(5, 0.5, 0.4), scaled(1, 1.25, 1.1), scaled(1, 1.1, 0.98)
    (5, 3, 2, 1)
    """
    wanted = slots * factor
    nearest = max(1, floor(wanted + 0.5))
    needed = slots * utilisation
    if nearest < wanted and needed > nearest and (needed <= wanted or nearest == slots):
        return nearest + 1
    return nearest


def within(panes: int, windows: int, maximum: int) -> tuple[int, int]:
    """Return the slots of both levels, reduced in proportion to at most a maximum together; each level keeps at least one.

    >>> within(10, 80, 60), within(1, 500, 60), within(3, 4, 60)
    ((7, 53), (1, 59), (3, 4))
    """
    if panes + windows <= maximum:
        return panes, windows
    kept = min(max(1, floor(panes * maximum / (panes + windows) + 0.5)), maximum - 1)
    return kept, maximum - kept


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0)


@dataclass(frozen=True)
class Fuzzy(Controller):
    """Scales by at most a half per step, in proportion to how far a level is from its setpoint of 0.9.

    If a query has a pane level and a window level, both are scaled, by both utilisations and by how far panes are split. Any other query
    is scaled by its utilisation alone: to a half at 0.5 or less, not at all at 0.9, and by a half more at 1.3 or more (P0). See
    [Controllers](scaling.md#controllers).

    Parameters
    ----------
    maximum
        The most slots of both levels together; None for no limit.

    Raises
    ------
    InvalidInput
        If a level would be left without a slot.

    Examples
    --------
    >>> from skytide.records import Observation
    >>> seen = Observation(60, 10, Allocation(4), 900, 800, utilisation=1.3)
    >>> Fuzzy().build().decide(Evaluation(seen, 900, None, 1.3, lead_s=6), now_s=60).reason
    'slow (utilisation 1.30): workers 4 to 6'
    """

    maximum: int | None = None

    def __post_init__(self) -> None:
        """Refuse a maximum that leaves a level without a slot."""
        if self.maximum is not None and not is_integer(self.maximum, 2):
            raise refused("maximum", self.maximum, "each of the two levels needs a slot", "choose at least 2, or None for no limit")

    def build(self, resume: State | None = None) -> "FuzzyLogic":
        """Return the logic; it has no state, so there is nothing to resume."""
        return FuzzyLogic(self)


class FuzzyLogic(ControllerLogic):
    """Applies the rules."""

    def __init__(self, config: Fuzzy) -> None:
        """Use a configuration."""
        self.config = config

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        """Return a decision that scales both levels if both were measured, otherwise all workers together."""
        now = seen.seen
        if now.pane_utilisation is None or now.window_utilisation is None:
            return self._one_level(seen)
        if now.allocation.pane_slots is None or now.allocation.window_slots is None:
            return self._one_level(seen)
        return self._both(
            now.allocation,
            (now.allocation.pane_slots, now.allocation.window_slots),
            (now.pane_utilisation, now.window_utilisation),
            now.splitting_factor or 1.0,
        )

    def snapshot(self) -> State:
        """Return nothing: everything is measured afresh."""
        return {}

    def _both(
        self, present: Allocation, slots: tuple[int, int], utilisation: tuple[float, float], splitting_factor: float
    ) -> Decision:
        factor = factors(utilisation[0], splitting_factor, utilisation[1])
        panes, windows = (scaled(*level) for level in zip(slots, factor, utilisation, strict=True))
        if present.shares_workers:
            return self._shared(present, (panes, windows), _levels(slots, (panes, windows), utilisation, splitting_factor))
        limited = within(panes, windows, self.config.maximum or panes + windows)
        reason = _levels(slots, limited, utilisation, splitting_factor)
        if limited != (panes, windows):
            reason += f"; {panes} and {windows} would be more than {self.config.maximum} together"
        allocation = replace(present, workers=sum(limited), pane_slots=limited[0], window_slots=limited[1])
        return Decision(allocation, reason)

    def _shared(self, present: Allocation, wanted: tuple[int, int], reason: str) -> Decision:
        """Return a decision where both levels use the same workers: as many as the level needs that needs more."""
        each = (present.pane_slots or 1) / max(1, present.workers)
        workers = max(1, ceil(max(wanted) / each - ROUNDING))
        allowed = min(workers, self.config.maximum or workers)
        panes = round(allowed * each)
        allocation = replace(present, workers=allowed, pane_slots=panes, window_slots=min(wanted[1], panes))
        reason += f": workers {_change(present.workers, allowed)}"
        return Decision(allocation, reason + (f"; {workers} would be more than {allowed}" if workers > allowed else ""))

    def _one_level(self, seen: Evaluation) -> Decision:
        """Return a decision by the pane level's part of the rules, as if the window level were at its setpoint; without splitting, the factor is 1."""
        present = seen.seen.allocation
        levels = [used for used in (seen.seen.pane_utilisation, seen.seen.window_utilisation) if used is not None]
        used = max(levels, default=seen.demand_ratio)
        splitting_factor = 1.0 if seen.seen.splitting_factor is None else seen.seen.splitting_factor
        factor, _ = factors(used, splitting_factor)
        workers = wanted = scaled(present.workers, factor, used)
        if self.config.maximum is not None:
            workers = min(wanted, self.config.maximum)
        split = "" if seen.seen.splitting_factor is None else f", panes split {splitting_factor:.1f} ways"
        reason = f"{_term(used)} (utilisation {used:.2f}{split}): workers {_change(present.workers, workers)}"
        return Decision(
            present.with_workers(workers), reason + (f"; {wanted} would be more than {workers}" if wanted > workers else "")
        )


def _levels(slots: tuple[int, int], wanted: tuple[int, int], utilisation: tuple[float, float], splitting_factor: float) -> str:
    """Return how fast both levels are, and what becomes of their slots, in words."""
    return (
        f"pane level {_term(utilisation[0])} (utilisation {utilisation[0]:.2f}, panes split {splitting_factor:.1f} ways), "
        f"window level {_term(utilisation[1])} ({utilisation[1]:.2f}): "
        f"pane slots {_change(slots[0], wanted[0])}, window slots {_change(slots[1], wanted[1])}"
    )


def _term(utilisation: float) -> str:
    grades = speed(utilisation)
    return max(grades, key=lambda term: grades[term])


def _change(before: int, after: int) -> str:
    return f"{before} to {after}" if after != before else f"{after} as before"
