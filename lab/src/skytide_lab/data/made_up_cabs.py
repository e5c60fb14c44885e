"""Made-up cabs, for machines without the real ones: shifts, rides between a dense centre and the outskirts, and a jam that comes and goes."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors.checks import check_integer, check_number
from skytide.workloads.identity import derive

SEED = 5
FIRST = np.datetime64("2026-01-05T00:00:00", "us")
CENTRE = (37.785, -122.41)
AIRPORT = (37.62, -122.39)
TO_AIRPORT = 0.12  # of all rides
NARROW_M, WIDE_M = 1_100.0, 4_500.0  # how far from the centre most rides end, and the others
WIDE_SHARE = 0.3
M_PER_DEGREE, M_PER_DEGREE_EAST = 111_320.0, 88_000.0
CALM_KMH, FREE_KMH = 14.0, 75.0  # in the centre, and far from it
FREE_FROM_M = 7_000.0
JAM_M, JAM_KMH = (-600.0, -5_000.0), 4.0  # on the way to the airport; where the jam begins, in metres east and north of the centre
JAM_SHARE = (0.1, 0.9)  # of the time: when it begins, and when it is over
JAM_WIDE_M, JAM_LONG_M = 1_200.0, 3_000.0
STAND_MINUTES = 4.0  # between two rides, on average
NOISE_M = 8.0
STEP_S = 60.0

Places = NDArray[np.float64]


def made_up_cabs(cabs: int, hours: float) -> pa.Table:
    """Return reports as in the real file (ts, cab, lat, lon, occupied), a minute apart for each cab, in order of time.

    A tenth of the cabs joins late, a tenth leaves early. Most rides begin and end in the centre, where cars are slow; on the road to the airport a jam
    grows from one end, and dissolves.
    """
    check_integer("cabs", cabs, 1, 100_000)
    check_number("hours", hours, above=0, up_to=48, meaning="hours, more than 0 and up to 48")
    rng = derive(SEED, "cabs", str(cabs))
    steps = max(2, int(hours * 3_600 / STEP_S))
    where, target = _ends(rng, cabs), _ends(rng, cabs)
    occupied, waits = rng.random(cabs) < 0.5, np.zeros(cabs)
    offsets_s = rng.random(cabs) * STEP_S
    joins = np.where(rng.random(cabs) < 0.1, rng.random(cabs) * 0.5, 0.0) * steps
    leaves = np.where(rng.random(cabs) < 0.1, 0.5 + rng.random(cabs) * 0.5, 1.0) * steps
    columns: dict[str, list[NDArray[np.generic]]] = {"ts": [], "cab": [], "lat": [], "lon": [], "occupied": []}
    for step in range(steps):
        works = np.flatnonzero((joins <= step) & (step < leaves))
        seconds = step * STEP_S + offsets_s[works] + rng.integers(0, 8, len(works))
        seen = where[works] + rng.normal(0, NOISE_M, (len(works), 2))
        columns["ts"].append(FIRST + np.floor(seconds).astype("m8[s]"))
        columns["cab"].append(works)
        columns["lat"].append(np.round(CENTRE[0] + seen[:, 1] / M_PER_DEGREE, 5))
        columns["lon"].append(np.round(CENTRE[1] + seen[:, 0] / M_PER_DEGREE_EAST, 5))
        columns["occupied"].append(occupied[works])
        arrived = _drive(rng, where, target, waits, step / steps)
        occupied[arrived] = ~occupied[arrived]
        target[arrived] = _ends(rng, len(arrived))
        waits[arrived] = np.where(occupied[arrived], 0.0, rng.exponential(STAND_MINUTES, len(arrived)))
    return pa.table({name: np.concatenate(parts) for name, parts in columns.items()}).sort_by(
        [("ts", "ascending"), ("cab", "ascending")]
    )


def _ends(rng: np.random.Generator, count: int) -> Places:
    """Return where some rides end, in metres east and north of the centre."""
    spread = np.where(rng.random(count) < WIDE_SHARE, WIDE_M, NARROW_M)
    places = rng.normal(0, 1, (count, 2)) * spread[:, None]
    airport = [(AIRPORT[1] - CENTRE[1]) * M_PER_DEGREE_EAST, (AIRPORT[0] - CENTRE[0]) * M_PER_DEGREE]
    to_airport = rng.random(count) < TO_AIRPORT
    places[to_airport] = rng.normal(airport, 150.0, (int(to_airport.sum()), 2))
    return places


def _drive(rng: np.random.Generator, where: Places, target: Places, waits: Places, share: float) -> NDArray[np.int64]:
    """Move all cabs by one step, and return those that have arrived; `share` is how much of the time is over."""
    kmh = np.interp(np.hypot(*where.T), (0, FREE_FROM_M), (CALM_KMH, FREE_KMH)) * rng.lognormal(0, 0.35, len(where))
    kmh = np.where(_in_jam(where, share), JAM_KMH * rng.lognormal(0, 0.3, len(where)), kmh)
    kmh = np.where(waits > 0, 0.0, kmh)
    waits -= np.minimum(waits, STEP_S / 60)
    way = target - where
    left_m, drives_m = np.hypot(*way.T), kmh / 3.6 * STEP_S
    where += way * np.minimum(1.0, drives_m / np.maximum(left_m, 1e-9))[:, None]
    return np.flatnonzero((left_m <= drives_m) & (kmh > 0))


def _in_jam(where: Places, share: float) -> NDArray[np.bool_]:
    """Return which cabs stand in the jam, which grows towards the airport until half of its time is over, and shrinks then."""
    begin, end = JAM_SHARE
    grown = 1 - abs(2 * (share - begin) / (end - begin) - 1)
    east, north = (where - np.array(JAM_M)).T
    return np.asarray((np.abs(east) < JAM_WIDE_M) & (north < 0) & (north > -JAM_LONG_M * grown)) & (grown > 0)
