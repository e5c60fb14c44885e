"""Results that are printed."""

from typing import ClassVar

from skytide.spark.sinks.base import Sink, Staged


class Console(Sink):
    """Prints the results of each batch, in order of windows if it has some."""

    names: ClassVar[tuple[str, ...]] = ("console",)

    def publish(self, sequence: int, staged: Staged) -> None:
        """Print a batch."""
        if staged:
            rows = staged.frame()
            print(f"batch {sequence}")
            (rows.orderBy("window_start") if "window_start" in rows.columns else rows).show(truncate=False)

    def describe(self) -> str:
        """Return nothing: what was printed cannot be taken back."""
        return ""
