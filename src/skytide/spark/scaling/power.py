"""The CPU frequency and power of this machine, through the files in which Linux shows them.

Only the machine that this runs on is changed, which is enough in local mode, and on a cluster of one machine.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from skytide.control.models.operator import power_w
from skytide.loop.ports import Plant
from skytide.records import Allocation, Observation, Outcome
from skytide.spark.scaling.cpufreq import CpuFrequency, read

ROOT = Path("/sys")
MEASURED, ESTIMATED = "measured (RAPL)", "estimated by the model"


@dataclass(frozen=True)
class Reading:
    """A power, and how it was found."""

    watts: float
    source: str


class Power(Plant):
    """A plant that also sets the CPU frequency and measures the power, and leaves everything else to another plant."""

    def __init__(self, plant: Plant, root: Path = ROOT) -> None:
        """Look for cpufreq below `root`."""
        self._plant, self.what = plant, plant.what
        self._cpu = CpuFrequency(root)
        self._energy = [
            zone / "energy_uj" for zone in sorted((root / "class/powercap").glob("intel-rapl:[0-9]*")) if zone.name.count(":") == 1
        ]
        self._before: tuple[float, list[float]] | None = None

    @property
    def lead_s(self) -> float:
        """That of the other plant; a frequency changes at once."""
        return self._plant.lead_s

    @property
    def is_changing(self) -> bool:
        """Whether workers come or go."""
        return self._plant.is_changing

    @property
    def is_expecting(self) -> bool:
        """Whether some may come or go at any moment."""
        return self._plant.is_expecting

    @property
    def frequencies_ghz(self) -> tuple[float, ...]:
        """The frequencies that can be chosen, slowest first; none if that is not possible or not allowed."""
        return self._cpu.choices_ghz

    def observe(self, now_s: float) -> Observation | None:
        """Return what was measured, with the frequency and the power."""
        seen, measured = self._plant.observe(now_s), self.power(now_s)
        if seen is None:
            return None
        allocation = replace(seen.allocation, frequency_ghz=self._cpu.ghz)
        power_w = measured.watts if measured else seen.power_w
        return replace(seen, allocation=allocation, power_w=power_w, frequencies_ghz=self.frequencies_ghz)

    def size(self) -> Allocation:
        """Return what is there; a frequency only if it can be chosen."""
        return replace(self._plant.size(), frequency_ghz=self._cpu.ghz)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Set the frequency of all CPUs that is nearest to the wanted one, and let the other plant do the rest."""
        outcomes, present = list[Outcome](), self._plant.size()
        rest = replace(wanted, frequency_ghz=present.frequency_ghz)
        if rest != present:
            outcomes.append(self._plant.request(rest, now_s))
        else:
            self._plant.keep(rest)
        if wanted.frequency_ghz is not None:
            outcomes.append(self._set(wanted.frequency_ghz))
        kinds = [
            outcome.kind for outcome in sorted(outcomes, key=lambda outcome: not outcome.changed)
        ]  # a change counts, whatever else happened
        return (
            Outcome(kinds[0], ", ".join(outcome.text for outcome in outcomes))
            if kinds
            else Outcome("kept", "keeping everything as it is")
        )

    def keep(self, wanted: Allocation) -> None:
        """Let the other plant note it."""
        self._plant.keep(wanted)

    def track(self, now_s: float) -> None:
        """Let the other plant look after its workers."""
        self._plant.track(now_s)

    def close(self) -> None:
        """Close the other plant, and set the frequency to what it was before."""
        try:
            self._plant.close()
        finally:
            self._cpu.restore()

    def power(self, now_s: float) -> Reading | None:
        """Return the power since the last call, or else what the model estimates; None if neither is known."""
        joules = [int(text) / 1e6 for text in map(read, self._energy) if text and text.isdigit()]
        before, self._before = self._before, (now_s, joules) if joules else None
        if before and joules and len(joules) == len(before[1]) and now_s > before[0]:
            spent = [new - old for new, old in zip(joules, before[1], strict=True)]
            if min(spent) >= 0:  # the counters wrap around now and then
                return Reading(sum(spent) / (now_s - before[0]), MEASURED)
        present = self.size()
        if present.frequency_ghz is None:
            return None
        return Reading(float(power_w(present.workers, present.frequency_ghz)), ESTIMATED)

    def summary(self) -> str:
        """Return what can be set and read here, in words."""
        choices = self.frequencies_ghz
        can = (
            f"CPU frequencies of {choices[0]:g} to {choices[-1]:g} GHz can be set"
            if choices
            else "the CPU frequency cannot be set here"
        )
        return f"{can}; power is {MEASURED if any(map(read, self._energy)) else ESTIMATED if choices else 'not known'}"

    def _set(self, wanted_ghz: float) -> Outcome:
        if not self.frequencies_ghz:
            return Outcome(
                "refused", f"cannot set the CPU frequency to {wanted_ghz:g} GHz: no cpufreq, or no permission to write to it"
            )
        before_ghz = self._cpu.ghz
        try:
            chosen = self._cpu.set(wanted_ghz)
        except OSError as error:
            return Outcome("refused", f"cannot set the CPU frequency to {wanted_ghz:g} GHz: {error}")
        if chosen == before_ghz:
            return Outcome("kept", f"keeping the CPU frequency at {chosen:g} GHz")
        return Outcome("done", f"setting the CPU frequency to {chosen:g} GHz")
