"""What an auto-scaler observed."""

import os

from skytide.loop import recording
from skytide.records import Observation


class History(list[Observation]):
    """What an auto-scaler observed, oldest first: a list that can be saved.

    See [Replay](scaling.md#replay).

    Examples
    --------
    >>> from skytide.records import Allocation
    >>> history = History([Observation(60, 10, Allocation(2), 900, 800, utilisation=1.1)])
    >>> history[-1].utilisation
    1.1
    """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the observations to a Parquet file, for `skytide replay`.

        Parameters
        ----------
        path
            The file; one that exists is replaced.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        recording.save(self, path)
