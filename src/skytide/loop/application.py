"""One decision for all queries of an application: each says how many workers it needs among the others, and the highest number counts."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.control.models.sharing import Key, Share, among, seen_among
from skytide.errors import InvalidInput
from skytide.loop.evaluate import RECENT, evaluate
from skytide.records import Allocation, Decision, Evaluation, Observation
from skytide.records.application import ApplicationObservation


def together(
    latest: Mapping[str, Observation | None],
    new: Collection[str],
    present: Allocation,
    *,
    now_s: float,
    interval_s: float,
    weights: Mapping[str, float] | None = None,
    bounds_s: Mapping[str, float | None] | None = None,
    loads: tuple[tuple[str, float], ...] = (),
    fair: bool = False,
) -> ApplicationObservation:
    """Return what is known of all queries, each among the others.

    `latest` has the latest observation of each query that runs, alone; `new` are the names of those that were observed in this interval.
    """
    seen = {name: one for name, one in latest.items() if one is not None}
    shared = shares_among(seen, weights=weights, bounds_s=bounds_s, fair=fair)
    rate_hz, used = (
        sum(one.arrival_rate_hz for one in shared.values()),
        max((one.utilisation for one in shared.values()), default=0.0),
    )
    latencies_s = [one.latency_s for one in shared.values() if one.latency_s is not None]
    expected_hz = [one.expected_rate_hz for one in shared.values() if one.expected_rate_hz is not None]
    return ApplicationObservation(
        at_s=now_s,
        interval_s=interval_s,
        allocation=min((shared[name].allocation for name in new), key=lambda each: each.workers, default=present),
        arrival_rate_hz=rate_hz,
        processed_rate_hz=sum(one.processed_rate_hz for one in shared.values()),
        utilisation=used,
        service_s=used * present.workers / rate_hz if rate_hz > 0 and used > 0 else None,
        backlog=sum(one.backlog for one in shared.values()),
        latency_s=max(latencies_s, default=None),
        loads=loads,
        expected_rate_hz=sum(expected_hz) if expected_hz else None,
        queries={name: shared[name] if name in new else None for name in latest},
    )


def shares_among(
    seen: Mapping[Key, Observation],
    *,
    weights: Mapping[Key, float] | None = None,
    bounds_s: Mapping[Key, float | None] | None = None,
    fair: bool = False,
) -> dict[Key, Observation]:
    """Return what was observed of each query alone, as it is among the others."""
    shares = {
        name: Share(one.batch, one.arrival_rate_hz, (weights or {}).get(name, 1.0), (bounds_s or {}).get(name))
        for name, one in seen.items()
        if one.batch is not None
    }
    shared = among(shares, fair=fair)
    return {name: seen_among(one, shared[name]) if name in shared else one for name, one in seen.items()}


def bound_of(controller: Controller) -> float | None:
    """Return the latency bound of a controller, if it has one."""
    return getattr(controller, "bound_s", None)


@dataclass(frozen=True)
class ForAll(Controller):
    """A controller for all queries of an application, with a latency bound of its own for some of them."""

    controller: Controller
    bounds_s: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse bounds that the controller knows nothing of."""
        object.__setattr__(self, "follows_load", self.controller.follows_load)
        if self.bounds_s and not hasattr(self.controller, "bound_s"):
            raise InvalidInput(
                value=f"bounds of {', '.join(sorted(self.bounds_s))}",
                reason=f"{self.controller} knows no latency bound",
                remedy="choose skytide.controllers.Mpc, or leave bounds= out",
            )

    def __str__(self) -> str:
        """Return the controller, and its bounds."""
        bounds = ", ".join(f"{name} within {bound_s:g} s" for name, bound_s in sorted(self.bounds_s.items()))
        return f"{self.controller} for all queries" + (f" ({bounds})" if bounds else "")

    def of(self, name: str) -> Controller:
        """Return the controller of a query."""
        if name not in self.bounds_s:
            return self.controller
        return replace(self.controller, bound_s=self.bounds_s[name])  # type: ignore[type-var]

    def bound_s(self, name: str) -> float | None:
        """Return the latency bound of a query, if it has one."""
        return bound_of(self.of(name))

    def identity(self) -> str:
        """Return under which name a store keeps what was learned, by query."""
        return f"ForAll({self.controller.identity()})"

    def build(self, resume: State | None = None) -> "ForAllLogic":
        """Return the logic, from a snapshot if there is one."""
        return ForAllLogic(self, **(resume or {}))


class ForAllLogic(ControllerLogic):
    """Asks the controller of each query, and takes the highest number."""

    def __init__(self, config: ForAll, queries: dict[str, State] | None = None) -> None:
        """Begin with no query, or with what was learned of some."""
        self._config, self._saved = config, dict(queries or {})
        self._logics: dict[str, ControllerLogic] = {}
        self._histories: dict[str, deque[Observation]] = {}
        self.decisions: dict[str, Decision] = {}
        """What each query that runs needed when it was last observed."""

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        """Return what the query needs that needs the most, and which one it is."""
        all_seen, present = seen.seen, seen.seen.allocation
        queries = all_seen.queries if isinstance(all_seen, ApplicationObservation) else {}
        used = dict[str, float]()
        for name, one in queries.items():
            if one is None:
                continue
            history = self._histories.setdefault(name, deque(maxlen=RECENT))
            history.append(one)
            own = evaluate(list(history), lead_s=seen.lead_s, settled=seen.settled)
            self.decisions[name], used[name] = self._logic(name).decide(own, now_s=now_s), own.demand_ratio
        for name in self.decisions.keys() - queries.keys():  # it has ended, and gives back its share
            del self.decisions[name]
            self._histories.pop(name, None)
            self._saved[name] = self._logics.pop(name).snapshot()
        if not self.decisions:
            few = f"no query has been observed yet: stays at {present.workers}" if queries else "no query runs"
            return Decision(present if queries else present.with_workers(1), few)
        most = max(sorted(self.decisions), key=lambda name: (self.decisions[name].allocation.workers, used.get(name, 0.0)))
        of_all = f" of {len(queries)}" if len(queries) > 1 else ""
        chosen = self.decisions[most]
        return replace(chosen, reason=f"query {most}{of_all} needs the most: {chosen.reason}")

    def snapshot(self) -> State:
        """Return what was learned of each query."""
        return {"queries": {**self._saved, **{name: logic.snapshot() for name, logic in self._logics.items()}}}

    def _logic(self, name: str) -> ControllerLogic:
        if name not in self._logics:
            saved: Any = self._saved.pop(name, None)
            try:
                self._logics[name] = self._config.of(name).build(saved)
            except (TypeError, KeyError, ValueError, AttributeError):  # of another version, or with another bound
                self._logics[name] = self._config.of(name).build()
        return self._logics[name]
