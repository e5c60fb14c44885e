"""Estimators find in generated arrivals what was asked of the generators."""

import numpy as np
import pytest

from skytide.workloads.arrivals import MarkovModulated
from skytide.workloads.variable import SelfSimilar
from skytide_lab.data.burstiness import hurst, index_of_dispersion

TICK_US = 10_000


@pytest.mark.parametrize("asked", [1_000, 2_500, 8_000])
def test_the_estimator_finds_the_index_of_dispersion(asked: float) -> None:
    """From counts alone, as for an unknown stream."""
    counts = MarkovModulated(100_000, asked).counts(0, 100_000, tick_us=TICK_US, seed=5)
    assert index_of_dispersion(counts) == pytest.approx(asked, rel=0.2)


@pytest.mark.parametrize("asked", [0.5, 0.6, 0.7, 0.8, 0.9])
@pytest.mark.parametrize("tick_us", [10_000, 50_000])
def test_self_similar_arrivals_have_the_hurst_parameter_that_was_asked(asked: float, tick_us: int) -> None:
    counts = SelfSimilar(30_000, asked).counts(0, 2**18 * 10_000 // tick_us, tick_us=tick_us, seed=2)
    assert hurst(counts) == pytest.approx(asked, abs=0.05)
    assert counts.mean() * 1e6 / tick_us == pytest.approx(30_000, rel=0.02)


def test_heavy_tailed_ticks_alone_are_not_self_similar() -> None:
    """A guilty specimen: independent ticks, however wild, have a Hurst parameter of one half."""
    counts = (np.random.default_rng(1).pareto(1.5, 2**16) * 100).astype(np.int64)
    assert hurst(counts) < 0.55
