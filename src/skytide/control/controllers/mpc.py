"""Model predictive control of workers and CPU frequency (P2, SPEC E2): forecast, compare paths, take the first step of the best one.

P2's weights combine a priority with a scale that has to be found by experiment. Here the scales follow from what is observed, so the
same weights work for 5 and for 5,000 workers and for any rate: see `skytide.control.models.objective`.
"""

from dataclasses import asdict, dataclass, field, replace
from math import exp, isfinite, log
from typing import TypedDict, Unpack

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.control.models.objective import Demand, Objective
from skytide.control.models.operator import waiting_s
from skytide.control.models.optimiser import plan
from skytide.control.models.sizing import rounded_up
from skytide.errors.checks import check_bool, is_finite, is_integer, refused
from skytide.forecasting import Forecaster, Holt
from skytide.records import Allocation, Decision, Evaluation, Expected, MicroBatch, Observation
from skytide.windows import Duration, duration_us

CORRECTION_WEIGHT = 0.5  # weight of the latest measurement. P2 uses only that one, with all of its noise
CORRECTION_LIMIT = 1e6
TRUSTED_LOAD = 0.95  # nearer to 1, a small error in the load is a large error in the wait


class MpcOptions(TypedDict, total=False):
    """The options of `Mpc` besides the latency bound."""

    percentile: float | None
    power: bool
    horizon: int
    alpha: float
    beta: float
    gamma: float
    coverage: float
    headroom: float
    minimum: int
    maximum: int | None
    frequencies_ghz: tuple[float, ...] | None
    forecaster: Forecaster
    scaled: bool


@dataclass(frozen=True)
class Mpc(Controller):
    """Uses the fewest workers (or watts) that keep up with the input, or keep a latency bound, over the next steps.

    It forecasts the input, compares paths of sizes over the next steps, and takes the first step of the best (P2). Made by
    `Mpc.throughput()` or `Mpc.latency("2 s")`. See [Controllers](scaling.md#controllers).

    Parameters
    ----------
    bound_s
        The latency bound in seconds; None: only keep up with the input. If no size can keep it, that is said, and it is as if there were none.
    percentile
        Of the latency that is bounded, such as 95; None: the mean.
    power
        Choose a CPU frequency as well, and save watts instead of workers. Where none can be set, it chooses workers only, and says so.
    horizon
        The number of planned steps, after the time that a new worker needs to start.
    alpha
        The weight of the quality of service.
    beta
        The weight of resources.
    gamma
        The weight of changes; if it is 0, each step is planned on its own.
    coverage
        Plan for the upper end of the interval in which the input lies with this probability; 0: plan for its mean.
    headroom
        The share of each worker that is kept free, for what neither the forecast nor the model knows.
    minimum
        The fewest workers.
    maximum
        The most workers; None: as many as needed, within the limits of the guard. Required with `power`, as slower cores mean more of them.
    frequencies_ghz
        The frequencies that can be chosen; None: those that the machine has.
    forecaster
        What forecasts the input.
    scaled
        False: weights as in P2, for milliseconds, workers (or the power of one at full speed), and steps of workers and frequencies.

    Raises
    ------
    InvalidInput
        If an option cannot be planned with.

    Examples
    --------
    >>> Mpc.latency("2 s").bound_s, Mpc.throughput().bound_s
    (2.0, None)
    >>> from skytide.records import Allocation, Observation
    >>> seen = Observation(60, 10, Allocation(2), 900, 800, utilisation=1.8, service_s=0.004)
    >>> Mpc.throughput().build().decide(Evaluation(seen, 900, 0.004, 1.8, lead_s=6), now_s=60).allocation.workers
    4
    """

    bound_s: float | None = None
    percentile: float | None = None
    power: bool = False
    horizon: int = 3
    alpha: float = 100.0
    beta: float = 0.5
    gamma: float = 0.4
    coverage: float = 0.9
    headroom: float = 0.1
    minimum: int = 1
    maximum: int | None = None
    frequencies_ghz: tuple[float, ...] | None = None
    forecaster: Forecaster = field(default_factory=Holt)
    scaled: bool = True

    @staticmethod
    def throughput(**options: Unpack[MpcOptions]) -> "Mpc":
        """Return a controller that keeps up with the input: P2's Th-Node, or Th-Power with `power=True`; `options` are those of `Mpc`."""
        return Mpc(**options)

    @staticmethod
    def latency(bound: Duration, **options: Unpack[MpcOptions]) -> "Mpc":
        """Return a controller that keeps a latency, such as "2 s", with the fewest workers; `options` are those of `Mpc`.

        It is the mean latency, or a percentile with `percentile=95`: P2's Lat-Node, or Lat-Power with `power=True`.
        """
        return Mpc(bound_s=duration_us(bound, "bound") / 1e6, **options)

    def __post_init__(self) -> None:
        """Refuse options that cannot be planned with."""
        self._check(is_integer(self.horizon, 1, 1_000), "horizon", "no step would be planned, or too many", "choose 1 to 1,000")
        for name, what in (("headroom", "not a share of a worker"), ("coverage", "not a probability")):
            share = getattr(self, name)
            self._check(is_finite(share) and 0 <= share < 1, name, what, "choose at least 0 and less than 1")
        for name in ("alpha", "beta", "gamma"):
            weight = getattr(self, name)
            enough = is_finite(weight) and (weight > 0 or (name == "gamma" and weight == 0))
            self._check(enough, name, "a weight is too small", "choose weights above 0")
        self._check(is_integer(self.minimum, 1), "minimum", "nothing would be done", "choose at least 1")
        soon = self.bound_s is None or (is_finite(self.bound_s) and self.bound_s > 0)
        self._check(soon, "bound_s", "no latency is that low", "choose more than 0")
        share = self.percentile is None or (is_finite(self.percentile) and 50 <= self.percentile < 100)
        self._check(
            share,
            "percentile",
            "not a percentile that can be predicted",
            "choose at least 50 and less than 100, or None for the mean",
        )
        enough = self.maximum is None or is_integer(self.maximum, self.minimum)
        self._check(enough, "maximum", f"below the minimum of {self.minimum}", "choose at least the minimum")
        check_bool("power", self.power)
        check_bool("scaled", self.scaled)
        frequencies = self.frequencies_ghz is None or (
            isinstance(self.frequencies_ghz, tuple | list)
            and len(self.frequencies_ghz) > 0
            and all(is_finite(ghz) and ghz > 0 for ghz in self.frequencies_ghz)
        )
        self._check(
            frequencies, "frequencies_ghz", "not frequencies", "choose some, as (1.2, 2.0), or None for those of the machine"
        )
        self._check(isinstance(self.forecaster, Forecaster), "forecaster", "not a forecaster", "choose one, as Holt()")
        ready = not self.power or self.maximum is not None
        self._check(
            ready, "maximum", "slower cores need more of them, so their number must be known", "give the number of cores there are"
        )

    def _check(self, holds: bool, name: str, reason: str, remedy: str) -> None:
        if not holds:
            raise refused(name, getattr(self, name), reason, remedy)

    def build(self, resume: State | None = None) -> ControllerLogic:
        """Return the logic, from a snapshot if there is one."""
        return _Mpc(self, **(resume or {}))


class _Mpc(ControllerLogic):
    def __init__(
        self,
        config: Mpc,
        forecaster: State | None = None,
        correction: float | None = None,
        service_s: float | None = None,
        batch: State | None = None,
    ) -> None:
        self._config = config
        self._objective = Objective(
            config.bound_s,
            config.power,
            config.alpha,
            config.beta,
            config.gamma,
            config.headroom,
            config.minimum,
            config.maximum,
            (config.frequencies_ghz or ()) if config.power else (),
            config.scaled,
            config.percentile,
        )
        self._rates = config.forecaster.build(forecaster)
        self._correction = correction  # None: no latency has been measured yet
        self._service_s = service_s  # the latest measurement: an idle query has none
        self._batch = MicroBatch(**batch) if batch else None  # the same of batches

    def snapshot(self) -> State:
        batch = asdict(self._batch) if self._batch else None
        known = {"correction": self._correction, "service_s": self._service_s, "batch": batch}
        return {"forecaster": self._rates.snapshot(), **known}

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        present, rate_hz = seen.seen.allocation, seen.seen.arrival_rate_hz
        if not (isfinite(rate_hz) and rate_hz >= 0 and isfinite(seen.demand_hz)):
            return Decision(present, f"no input rate was measured: stays at {present.workers}")
        if self._config.power and self._config.frequencies_ghz is None:
            self._objective = replace(self._objective, frequencies_ghz=seen.seen.frequencies_ghz)
        self._rates.observe(rate_hz)
        service_s = self._service_s = _service_s(seen) or self._service_s
        if service_s is None:
            return Decision(present, f"neither the time per tuple nor a load was measured: stays at {present.workers}")
        self._batch = seen.batch or self._batch
        self._correct(seen, service_s)
        rates_hz = self._demand_hz(seen)
        planned_s = self._config.horizon * seen.seen.interval_s
        reload_share = seen.seen.reload_s / planned_s if planned_s > 0 else 0.0
        cvs = seen.seen.arrival_cv, seen.seen.service_cv
        demand = Demand(rates_hz, service_s, *cvs, self._correction or 1.0, self._batch, reload_share)
        if (largest := self._objective.overload(present, demand)) is not None:
            chosen, why = largest, ", more than any size can serve"
        else:
            options, problem = self._objective.problem(present, demand)
            chosen, why = options[plan(problem).path[0]], ""
        return Decision(chosen, self._reason(seen, demand, chosen) + why, self._expected(seen))

    def _expected(self, seen: Evaluation) -> Expected:
        """Return the forecast for the time when a worker that is requested now has started."""
        steps = _lead_steps(seen) + 1
        ahead = self._rates.forecast(steps, self._config.coverage)
        return Expected(steps * seen.seen.interval_s, ahead.mean, max(ahead.low, 0.0), ahead.high)

    def _demand_hz(self, seen: Evaluation) -> tuple[float, ...]:
        """Return the rate that each planned step has to serve.

        A worker that is requested now helps only after the lead time, but one that is released is gone at once: so each decision is judged
        by the highest rate that is expected from its own step until the workers requested with it have started.
        """
        lead = _lead_steps(seen)
        upper = [self._rates.forecast(k, self._config.coverage).high for k in range(1, lead + self._config.horizon + 1)]
        waiting_hz = max(seen.demand_hz - seen.seen.arrival_rate_hz, self._late_hz(seen.seen), 0.0)
        return tuple(max(0.0, *upper[i : i + lead + 1]) + waiting_hz for i in range(self._config.horizon))

    def _late_hz(self, now: Observation) -> float:
        """Return the additional rate that reduces the backlog, within the planned steps, to what the latency bound allows."""
        if self._config.bound_s is None or now.interval_s <= 0:
            return 0.0
        return (now.backlog - now.arrival_rate_hz * self._config.bound_s) / (self._config.horizon * now.interval_s)

    def _correct(self, seen: Evaluation, service_s: float) -> None:
        """Learn how much longer tuples wait than Kingman's formula predicts, P2 (8)."""
        now = seen.seen
        used = now.arrival_rate_hz * service_s / max(1, now.allocation.workers)
        if self._config.bound_s is None or now.latency_s is None or not seen.settled or not 0 < used < TRUSTED_LOAD or self._batch:
            return
        model_s = float(waiting_s(used, now.arrival_cv, now.service_cv, service_s / max(1, now.allocation.workers)))
        measured_s = now.latency_s - service_s
        if model_s > 0 and measured_s > 0 and isfinite(measured_s):
            ratio = min(max(measured_s / model_s, 1 / CORRECTION_LIMIT), CORRECTION_LIMIT)
            before = (
                self._correction or ratio
            )  # the first measurement counts in full, as Kingman's formula knows nothing of waiting for batches
            self._correction = exp((1 - CORRECTION_WEIGHT) * log(before) + CORRECTION_WEIGHT * log(ratio))

    def _reason(self, seen: Evaluation, demand: Demand, chosen: Allocation) -> str:
        present = seen.seen.allocation
        ahead_s = (_lead_steps(seen) + 1) * seen.seen.interval_s
        rate_hz, now_hz = demand.rates_hz[0], seen.seen.arrival_rate_hz
        change = f" ({100 * (rate_hz / now_hz - 1):+.0f} %)" if now_hz > 0 else ""
        used = 100 * self._objective.used(present, demand)
        reason = (
            f"{_measured(seen.seen)}; forecast up to {rate_hz:,.0f} tuples/s in {ahead_s:.3g} s{change}; "
            f"modelled: {_sized(present)} would have a utilisation of {used:.0f} %"
        )
        if self._config.bound_s is not None:
            latency_s = self._objective.latency_s(present, demand)
            most = "" if demand.batch is None else f", 95 % within {self._objective.latency_s(present, demand, 95):.3g} s"
            reason += f" and a latency of {latency_s:.3g} s{most} ({self._bound(demand)})"
        if self._config.power and not self._objective.frequencies_ghz:
            reason += "; no CPU frequency can be set"
        if chosen == present:
            return f"{reason}: stays at {present.workers}"
        if chosen.frequency_ghz == present.frequency_ghz:
            return f"{reason}: {present.workers} to {chosen.workers}"
        return f"{reason}: to {_sized(chosen)}"

    def _bound(self, demand: Demand) -> str:
        """Return the bound in words, and whether any size can keep it."""
        percentile = "" if self._config.percentile is None else f" for {self._config.percentile:g} %"
        bound = f"bound {self._config.bound_s:g} s{percentile}"
        floor_s = self._objective.floor_s(demand)
        if floor_s is None or demand.batch is None:
            return bound
        every = f" with a trigger of {demand.batch.trigger_s:g} s" if demand.batch.trigger_s else ""
        return f"{bound}, unreachable: at least {floor_s:.1f} s{every}"


def _measured(now: Observation) -> str:
    latency = "" if now.latency_s is None else f", latency {now.latency_s:.3g} s"
    waits = f", {now.backlog:,.0f} tuples wait" if now.backlog else ""
    return f"measured {now.arrival_rate_hz:,.0f} tuples/s, utilisation {100 * now.utilisation:.0f} %{latency}{waits}"


def _lead_steps(seen: Evaluation) -> int:
    """Return the number of steps until a worker that is requested now has started."""
    return rounded_up(seen.lead_s / seen.seen.interval_s) if seen.seen.interval_s > 0 else 0


def _service_s(seen: Evaluation) -> float | None:
    """Return the time of a worker per tuple; where it was not measured, it is derived from the utilisation."""
    if seen.service_s is not None and isfinite(seen.service_s) and seen.service_s > 0:
        return seen.service_s
    if isfinite(seen.demand_ratio) and seen.demand_ratio > 0 and seen.demand_hz > 0:
        guessed_s = seen.demand_ratio * seen.seen.allocation.workers / seen.demand_hz
        return guessed_s if isfinite(guessed_s) else None
    return None


def _sized(allocation: Allocation) -> str:
    workers = f"{allocation.workers} worker{'s' * (allocation.workers != 1)}"
    return workers if allocation.frequency_ghz is None else f"{workers} at {allocation.frequency_ghz:g} GHz"
