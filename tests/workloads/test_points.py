import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.kernels import skyline
from skytide.workloads.points import CLOUDS, points

kinds = st.sampled_from(list(CLOUDS))


@given(kinds, st.integers(0, 300), st.integers(1, 12), st.integers(0, 2**32))
def test_a_cloud_lies_in_the_unit_cube_and_is_the_same_every_time(kind: str, n: int, d: int, seed: int) -> None:
    cloud = points(kind, n, d, seed=seed)
    assert cloud.shape == (n, d)
    assert cloud.dtype == np.float64
    assert cloud.flags.c_contiguous
    assert ((cloud >= 0) & (cloud <= 1)).all()
    assert np.array_equal(cloud, points(kind, n, d, seed=seed))


@given(kinds, st.integers(0, 2**32))
def test_another_seed_is_another_cloud(kind: str, seed: int) -> None:
    assert not np.array_equal(points(kind, 10, 2, seed=seed), points(kind, 10, 2, seed=seed + 1))


@given(st.integers(2, 8), st.integers(0, 2**32))
def test_dimensions_go_together_as_the_name_says(d: int, seed: int) -> None:
    pairs = np.triu_indices(d, 1)
    independent, correlated, anticorrelated = (
        np.asarray(np.corrcoef(points(kind, 4000, d, seed=seed).T))[pairs] for kind in CLOUDS
    )
    assert abs(independent).max() < 0.1
    assert correlated.min() > 0.7
    assert anticorrelated.max() < 0


@given(st.integers(3, 8), st.integers(0, 2**32))
def test_skylines_grow_from_correlated_to_anticorrelated(d: int, seed: int) -> None:
    independent, correlated, anticorrelated = (skyline(points(kind, 1000, d, seed=seed)).sum() for kind in CLOUDS)
    assert correlated < independent < anticorrelated


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match="kind='uniform': no such cloud; choose one of independent, "):
        points("uniform", 10, 2)
