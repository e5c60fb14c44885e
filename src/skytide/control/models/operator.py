"""Models the latency and power of an operator by its size (P2 section 3.2, SPEC E2). All functions work on arrays too."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

FASTEST_LOAD = 0.999
"""Kingman's formula grows without bound towards a utilisation of 1: from here on the wait grows in proportion to the load."""
BASE_V, VOLTS_PER_GHZ = 0.65, 0.2
"""Supply voltage of a server processor between about 1 and 3 GHz: nearly a straight line (0.89 V at 1.2 GHz, 1.05 V at 2 GHz)."""
EFFECTIVE_CAPACITANCE = 2.58
"""In watts per GHz and square volt: so 12 cores at 2 GHz take the 68.25 W that P2 section 5.3.2 measured."""


def kingman(utilisation: Any, arrival_cv: float, service_cv: float) -> Any:
    """Return how many service times a tuple waits on average in a G/G/1 queue, by Kingman's formula (1961), P2 (7): numbers or arrays.

    >>> kingman(0.75, 1.0, 0.5)
    1.875
    """
    return utilisation / (1 - utilisation) * ((arrival_cv**2 + service_cv**2) / 2)


def waiting_s(utilisation: ArrayLike, arrival_cv: float, service_cv: float, ideal_service_s: ArrayLike) -> Floats:
    """Return the mean time in the queue of a G/G/1 system by Kingman's formula, P2 (7).

    >>> float(waiting_s(0.75, 1.0, 0.5, 0.002).round(5))
    0.00375
    """
    used = np.asarray(utilisation, dtype=float)
    near = np.minimum(used, FASTEST_LOAD)
    beyond = np.maximum(used / FASTEST_LOAD, 1.0)
    result: Floats = kingman(near, arrival_cv, service_cv) * np.asarray(ideal_service_s) * beyond
    return result


def power_w(workers: ArrayLike, frequency_ghz: ArrayLike) -> Floats:
    """Return the power that cores take beyond an idle machine: Ceff n f V(f)^2, P2 (9), with a voltage that is linear in f.

    >>> float(power_w(12, 2.0).round(2)), float(power_w(12, 1.2).round(2))
    (68.27, 29.43)
    """
    frequency = np.asarray(frequency_ghz, dtype=float)
    result: Floats = EFFECTIVE_CAPACITANCE * np.asarray(workers) * frequency * (BASE_V + VOLTS_PER_GHZ * frequency) ** 2
    return result
