"""What was seen of the trading application: looks at its query, and the windows of each symbol that came out."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skytide.records import Status, WindowRow
from skytide_lab.dashboard.history import History

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

SHOWN = ("open", "high", "low", "close", "fitted", "predicted", "error")
SIGNALS = ("buy", "sell")


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of one symbol, in order: when each ended, by the clock of the exchange, and its results."""

    ends_us: Numbers
    starts_us: Numbers
    first_rows: Numbers
    """The number of each window's first quote, among those of the symbol."""
    numbers: dict[str, Floats]
    signals: NDArray[np.str_]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.ends_us)

    def __getitem__(self, which: Any) -> "Windows":
        """Return some of them."""
        numbers = {name: values[which] for name, values in self.numbers.items()}
        return Windows(self.ends_us[which], self.starts_us[which], self.first_rows[which], numbers, self.signals[which])

    @staticmethod
    def of(rows: pa.Table) -> "Windows":
        """Return the windows of result rows of one symbol."""
        rows = rows.sort_by("row_start")
        ends, starts = (rows[name].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() for name in ("window_end", "window_start"))
        numbers = {name: rows[name].cast(pa.float64()).to_numpy() for name in SHOWN}
        return Windows(ends, starts, rows["row_start"].to_numpy(), numbers, np.array(rows["signal"].to_pylist(), np.str_))

    def after(self, others: "Windows") -> "Windows":
        """Return these and others that came later."""
        numbers = {name: np.concatenate([values, others.numbers[name]]) for name, values in self.numbers.items()}
        return Windows(
            np.concatenate([self.ends_us, others.ends_us]),
            np.concatenate([self.starts_us, others.starts_us]),
            np.concatenate([self.first_rows, others.first_rows]),
            numbers,
            np.concatenate([self.signals, others.signals]),
        )

    def side_by_side(self, length: int) -> "Windows":
        """Return those that follow one another without overlap, from the first one on."""
        return self[(self.first_rows - self.first_rows[0]) % length == 0] if len(self) else self


@dataclass(frozen=True)
class Accuracy:
    """How far predictions of a symbol were off, and how far a prediction of no change would have been; medians, in 1/10,000."""

    predictions: int
    off_bp: float
    unchanged_bp: float


def accuracy(windows: Windows, ahead_us: int) -> Accuracy | None:
    """Return how predictions compare with the close of the first window that ended at or after the time they were made for."""
    then = windows.ends_us + ahead_us
    at = np.searchsorted(windows.ends_us, then)
    is_judged = at < len(windows)
    is_judged[is_judged] = windows.ends_us[at[is_judged]] - then[is_judged] <= ahead_us  # a symbol that fell silent says nothing
    is_judged &= np.isfinite(windows.numbers["predicted"])
    if not is_judged.any():
        return None
    came = windows.numbers["close"][at[is_judged]]
    off, unchanged = (
        float(np.median(np.abs(windows.numbers[name][is_judged] - came) / came)) * 1e4 for name in ("predicted", "fitted")
    )
    return Accuracy(int(is_judged.sum()), off, unchanged)


@dataclass(frozen=True)
class TradingLook:
    """The query at one moment, in seconds of our clock since the exchange opened."""

    at_s: float
    query: Status
    reason: str
    """Why there are as many slots as there are."""


@dataclass(frozen=True)
class TradingHistory:
    """What the view and the picture are made of."""

    looks: tuple[TradingLook, ...] = ()
    query: History = field(default_factory=History)
    symbols: dict[str, Windows] = field(default_factory=dict)

    def after(
        self, at_s: float, status: Status, windows: list[WindowRow], reason: str, results: list[pa.Table]
    ) -> "TradingHistory":
        """Return the history after one more look; nothing is new until the next batch has ended."""
        query = self.query.after(status, windows)
        if query is self.query and not results:
            return self
        symbols = dict(self.symbols)
        for rows in results:
            for symbol in rows["symbol"].unique().to_pylist():
                new = Windows.of(rows.filter(pa.compute.equal(rows["symbol"], symbol)))
                symbols[symbol] = symbols[symbol].after(new) if symbol in symbols else new
        looks = self.looks if query is self.query else (*self.looks, TradingLook(at_s, status, reason))
        return replace(self, looks=looks, query=query, symbols=symbols)

    @property
    def latest(self) -> TradingLook | None:
        """The latest look."""
        return self.looks[-1] if self.looks else None

    def liveliest(self, count: int) -> list[tuple[str, Windows]]:
        """Return the symbols with the most windows, most first."""
        return sorted(self.symbols.items(), key=lambda symbol: (-len(symbol[1]), symbol[0]))[:count]

    def signals(self) -> dict[str, int]:
        """Return how many windows gave a signal to buy, and how many to sell."""
        return {signal: sum(int((windows.signals == signal).sum()) for windows in self.symbols.values()) for signal in SIGNALS}


class ResultFolder:
    """The results of a query with the sink "parquet", as they come."""

    def __init__(self, folder: Path) -> None:
        """Begin with a folder that need not exist yet."""
        self._folder, self._read = folder, -1

    def new(self, up_to: int) -> list[pa.Table]:
        """Return the results of batches up to a number that were not returned before, in order."""
        numbers = sorted(int(entry.name.partition("=")[2]) for entry in self._folder.glob("batch=*"))
        wanted = [number for number in numbers if self._read < number <= up_to]
        self._read = max(self._read, up_to)
        return [pq.read_table(self._folder / f"batch={number}", partitioning=None) for number in wanted]
