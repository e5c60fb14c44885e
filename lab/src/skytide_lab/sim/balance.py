"""How evenly tuples are spread over nodes, by counts: panes of a stream whose rate jumps, and keys some of which are frequent (P1 §6.4)."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from skytide.routing import FrequencyAware, KeyCounter, Keys, Splitting
from skytide.routing.hashing import GOLDEN, mixed
from skytide.workloads.identity import derive

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def load_ratio(loads: Counts | Floats) -> Floats:
    """Return the standard deviation of the loads of nodes, relative to their mean; the last axis is that of the nodes.

    >>> float(load_ratio(np.array([1, 3])))
    0.5
    """
    return np.asarray(np.std(loads, axis=-1) / np.maximum(np.mean(loads, axis=-1), 1e-300), np.float64)


def jumping_rates(
    seconds: int, seed: int, *, low_hz: float = 18_000.0, high_hz: float = 22_000.0, jump: float = 5.0, share: float = 0.1
) -> Counts:
    """Return the tuples of each second: uniform between two rates, and in a share of the seconds `jump` times as many (P1 §6.4.1)."""
    random = derive(seed, "balance", "rates")
    rates = random.uniform(low_hz, high_hz, seconds)
    return np.rint(np.where(random.random(seconds) < share, jump * rates, rates)).astype(np.int64)


def pane_loads(panes: Iterable[int], strategy: Splitting, nodes: int) -> Counts:
    """Return how many tuples of each pane (a row) each node gets; a pane closes when all its tuples are there."""
    router, queued = strategy.build(nodes), dict[int, int]()
    rows = []
    for pane, tuples in enumerate(panes):
        given = router.route(pane, int(tuples), queued)
        rows.append([given.get(node, 0) for node in range(nodes)])
        router.close(pane + 1)
    return np.array(rows, np.int64)


def recent_ratios(loads: Counts, panes: int) -> Floats:
    """Return the load ratio over the last `panes` panes at the end of each pane, from the first that has as many.

    >>> recent_ratios(np.array([[2, 0], [0, 2], [2, 0]]), 2).tolist()
    [0.0, 0.0]
    """
    sums = np.cumsum(np.vstack([np.zeros((1, loads.shape[1]), np.int64), loads]), axis=0)
    return load_ratio(sums[panes:] - sums[:-panes])


def key_ratios(intervals: Sequence[Keys], heaviest: int, nodes: int) -> list[float]:
    """Return the load ratio of each interval but the first; keys are divided by their frequencies in the interval before (P1 §6.4.2)."""
    routing = FrequencyAware(heaviest=heaviest).build(range(nodes))
    ratios = []
    for number, keys in enumerate(intervals):
        if number:
            rows = mixed(np.arange(number * len(keys), (number + 1) * len(keys), dtype=np.uint64) + GOLDEN)  # no two are the same
            ratios.append(float(load_ratio(np.bincount(routing.route(keys, rows), minlength=nodes))))
        counter = KeyCounter()
        counter.observe(keys)
        routing.divide(counter.frequencies())
    return ratios


def zipf_keys(keys: int, exponent: float, tuples: int, intervals: int, seed: int) -> list[Keys]:
    """Return intervals of tuples whose keys follow Zipf's law; the keys themselves follow from the seed."""
    random = derive(seed, "balance", "keys")
    names = random.integers(0, 2**64, keys, dtype=np.uint64)
    shares = 1 / np.arange(1, keys + 1) ** exponent
    ends = np.cumsum(shares / shares.sum())
    draws = (np.minimum(np.searchsorted(ends, random.random(tuples)), keys - 1) for _ in range(intervals))
    return [Keys.of_hashes(names[draw]) for draw in draws]
