"""The input of a planner, and its answer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.errors.checks import is_finite, refused

Bools = NDArray[np.bool_]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[np.int32]
State = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Sample:
    """All streams at a point in time.

    `arrived` counts all tuples of each stream so far, `waiting` those of them that have not been admitted yet.
    """

    now_s: float
    names: tuple[str, ...]
    arrived: Counts
    waiting: Counts
    suspended: Bools

    def __post_init__(self) -> None:
        """Refuse columns that do not belong together."""
        if not is_finite(self.now_s):
            raise refused("now_s", self.now_s, "not a time", "give seconds")
        if not isinstance(self.names, tuple):
            raise refused("names", self.names, "not a tuple", "give the names of the streams as a tuple of texts")
        for name, dtypes in (("arrived", "iu"), ("waiting", "iu"), ("suspended", "b")):
            column = getattr(self, name)
            if not (isinstance(column, np.ndarray) and column.shape == (len(self.names),) and column.dtype.kind in dtypes):
                meaning = "a number of tuples" if dtypes == "iu" else "true or false"
                remedy = f"give an array of {'whole numbers' if dtypes == 'iu' else 'booleans'}, one for each name"
                raise refused(name, column, f"not {meaning} for each of {len(self.names)} streams", remedy)
        if len(self.names) and min(int(self.arrived.min()), int(self.waiting.min())) < 0:
            raise refused("arrived, waiting", self.arrived, "some are below 0", "give counts of 0 or more")


@dataclass(frozen=True, eq=False)
class Assignment:
    """Which split reads each stream from now on. Arrays are in the order of the names of the sample."""

    splits: Numbers
    """The split of each stream, including suspended ones."""
    redirected: NDArray[np.intp]
    """Indices of the streams that had another split before."""
    open: tuple[int, ...]
    """Numbers of the splits that have streams, in order."""
    closed: tuple[int, ...]
    """Numbers of the splits that had streams before."""
    rate_hz: Floats
    """The rate of each stream in the last period; of one that was not observed yet, the assumed rate."""
    next_hz: Floats
    """The rate expected of each stream in the next period; 0 for suspended streams."""
    expected_hz: Floats
    """The rate expected by declared characteristics after as many periods as the planner looks ahead; without them, as in the next period."""
    load_hz: Floats
    """The expected load of each split of `open`, in the next period or after the periods looked ahead, whichever is more."""
    total_expected_hz: float
    """The rate expected of all streams together after as many periods as the planner looks ahead."""
    observed: Bools
    """Which streams have been observed for a period already."""
