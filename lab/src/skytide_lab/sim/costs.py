"""The costs of work on a machine: measured by `skytide lab calibrate`, or taken from figures in the papers."""

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput

Floats = NDArray[np.float64]
MAX_TUPLES = 2**19  # of a partition; measured curves are extended with their last slope


@dataclass(frozen=True)
class Curve:
    """How the result of a partition and its time grow with its number of tuples, for one kind of points."""

    tuples: tuple[int, ...]
    kept: tuple[float, ...]
    busy_s: tuple[float, ...]
    """The time from the first tuple to the last."""

    @cached_property
    def kept_by_size(self) -> list[float]:
        """Return the rows of the result, by the number of tuples."""
        return list(map(float, self._by_size(self.kept).clip(max=np.arange(MAX_TUPLES + 1))))

    @cached_property
    def busy_by_size(self) -> list[float]:
        """Return the seconds since the first tuple, by the number of tuples."""
        return list(map(float, self._by_size(self.busy_s)))

    def _by_size(self, values: tuple[float, ...]) -> Floats:
        x, y = np.log(self.tuples), np.log(values)
        sizes = np.log(np.arange(1, MAX_TUPLES + 1))
        by_size = np.interp(sizes, x, y)
        beyond, before = sizes > x[-1], sizes < x[0]
        by_size[beyond] = y[-1] + (sizes[beyond] - x[-1]) * (y[-1] - y[-2]) / (x[-1] - x[-2])
        by_size[before] = y[0] + (sizes[before] - x[0])
        return np.append(0.0, np.exp(by_size))


@dataclass(frozen=True)
class Costs:
    """Costs of both levels, and where they come from."""

    origin: str
    curves: dict[str, Curve]
    """The curve of each kind of points."""
    pair_s: float
    """The time to compare a new row of a window with one that is there already."""

    def faster(self, factor: float, origin: str) -> "Costs":
        """Return the costs of a machine that is `factor` times as fast."""
        curves = {cloud: replace(curve, busy_s=tuple(s / factor for s in curve.busy_s)) for cloud, curve in self.curves.items()}
        return Costs(f"{self.origin}; {origin}", curves, self.pair_s / factor)

    def scanning_all(self) -> "Costs":
        """Return the costs of block nested loops that compare a tuple with the whole result, even if an early row already dominates it.

        The kernel that P0 and P3 publish does so: "proportional to the number of tuples per pane" (P3 §4.3.3).
        """
        curves = {}
        for cloud, curve in self.curves.items():
            pairs = np.cumsum(curve.kept_by_size)
            curves[cloud] = replace(curve, busy_s=tuple(float(pairs[n]) * self.pair_s for n in curve.tuples))
        return Costs(f"{self.origin}; every tuple compared with the whole result", curves, self.pair_s)

    def save(self, path: Path) -> None:
        """Write the costs to a file."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> "Costs":
        """Return the costs that `save` wrote to a file."""
        try:
            values = json.loads(path.read_text())
            curves = {cloud: Curve(**{name: tuple(v) for name, v in curve.items()}) for cloud, curve in values["curves"].items()}
            return Costs(values["origin"], curves, values["pair_s"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(value=f"costs {path}", reason=str(error), remedy="make them with `skytide lab calibrate`") from None


def known_costs(name: str = "bnl") -> Costs:
    """Return costs that come with skytide: "bnl" for the papers' algorithm, or "skytide" for the kernels of this package."""
    return Costs.load(Path(str(files("skytide_lab.sim") / f"{name}.json")))
