"""What was seen of a city's traffic: looks at the fleet and its two queries, and the areas of the latest window."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skytide.records import Slots, Status, WindowRow
from skytide.records.fleet import FleetStatus
from skytide_lab.dashboard.history import History


@dataclass(frozen=True)
class Area:
    """What is known of an area in one window."""

    number: int
    reports: int
    mean_kmh: float
    max_kmh: float
    queue_end: bool


@dataclass(frozen=True)
class Areas:
    """The areas of one window, by ascending number."""

    end_us: int
    areas: tuple[Area, ...]

    def busiest(self, count: int) -> list[Area]:
        """Return the areas with the most reports, most first."""
        return sorted(self.areas, key=lambda area: (-area.reports, area.number))[:count]

    @property
    def queue_ends(self) -> list[Area]:
        """The areas in which a queue ends."""
        return [area for area in self.areas if area.queue_end]


@dataclass(frozen=True)
class TrafficLook:
    """The fleet and the queries at one moment, in seconds since the cabs began."""

    at_s: float
    fleet: FleetStatus
    speeds: Status
    """The operator on keys that computes speeds."""
    areas: Status
    """The query over windows."""
    slots: Slots
    """Its slots from the next batch on."""
    reason: str
    """Why there are as many as there are."""


@dataclass(frozen=True)
class TrafficHistory:
    """What the view and the picture are made of."""

    looks: tuple[TrafficLook, ...] = ()
    query: History = field(default_factory=History)
    """The batches of the query over windows, and the windows, in real time."""
    latest_areas: Areas | None = None

    def after(self, look: TrafficLook, windows: list[WindowRow], results: list[pa.Table]) -> "TrafficHistory":
        """Return the history after one more look; nothing is new until the fleet or a query has done something."""
        if not look.fleet.streams:
            return self
        if self.looks and (look.fleet, look.speeds, look.areas) == _seen(self.looks[-1]) and not results:
            return self
        latest = latest_areas(results[-1]) if results else None
        return replace(
            self,
            looks=(*self.looks, look),
            query=self.query.after(look.areas, windows),
            latest_areas=latest or self.latest_areas,
        )

    @property
    def latest(self) -> TrafficLook | None:
        """The latest look."""
        return self.looks[-1] if self.looks else None


def _seen(look: TrafficLook) -> tuple[FleetStatus, Status, Status]:
    return look.fleet, look.speeds, look.areas


def latest_areas(results: pa.Table) -> Areas | None:
    """Return the areas of the last window among results."""
    if not results.num_rows:
        return None
    last = pc.max(results["window_end"])
    rows = results.filter(pc.equal(results["window_end"], last)).sort_by("area").to_pylist()
    areas = (Area(row["area"], row["reports"], row["mean_kmh"], row["max_kmh"], row["queue_end"]) for row in rows)
    return Areas(last.cast(pa.timestamp("us", last.type.tz)).value, tuple(areas))


@dataclass(frozen=True)
class City:
    """All windows that came out, for the picture: their times, and the numbers of all areas together."""

    ends: NDArray[np.datetime64]
    reports: NDArray[np.int64]
    areas: NDArray[np.int64]
    mean_kmh: NDArray[np.float64]
    queue_ends: NDArray[np.int64]
    """In how many areas of each window a queue ended."""
    last: Areas

    @staticmethod
    def read(folder: Path) -> "City | None":
        """Return the windows in the folder of a sink; None if there are none."""
        table = pq.read_table(folder) if folder.is_dir() else None
        if table is None or not table.num_rows or (last := latest_areas(table)) is None:
            return None
        weighted = pc.multiply(table["mean_kmh"], table["reports"].cast(pa.float64()))
        table = table.append_column("kmh", weighted).append_column("ends", table["queue_end"].cast(pa.int64()))
        sums = [("reports", "sum"), ("reports", "count"), ("kmh", "sum"), ("ends", "sum")]
        whole = table.group_by("window_end").aggregate(sums).sort_by("window_end")
        reports = whole["reports_sum"].to_numpy()
        return City(
            whole["window_end"].cast(pa.timestamp("us")).to_numpy(),
            reports,
            whole["reports_count"].to_numpy(),
            whole["kmh_sum"].to_numpy() / reports,
            whole["ends_sum"].to_numpy(),
            last,
        )
