"""Every kernel against its slow twin, on points full of ties, duplicates and constant columns."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from support import reference

from skytide import kernels
from skytide.errors import InvalidInput
from skytide.kernels.border import as_points
from skytide.kernels.order import distinct_rows, topological_order

FEW_VALUES = st.integers(0, 3).map(float)
ANY_FINITE = st.floats(allow_nan=False, allow_infinity=False)


def clouds(most_rows: int = 40, most_dimensions: int = 5) -> st.SearchStrategy[np.ndarray]:
    shapes = st.tuples(st.integers(0, most_rows), st.integers(1, most_dimensions))
    return st.one_of(
        npst.arrays(np.float64, shapes, elements=FEW_VALUES),
        npst.arrays(np.float64, shapes, elements=ANY_FINITE),
        npst.arrays(np.int64, shapes, elements=st.integers(-(2**63), 2**63 - 1)),
    )


def random_points(n: int, d: int, values: int | None, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([n, d, values or 0, seed])
    return rng.random((n, d)) if values is None else rng.integers(0, values, (n, d)).astype(float)


@given(clouds())
def test_skyline_is_its_twin(points: np.ndarray) -> None:
    assert kernels.skyline(points).tolist() == reference.skyline(points)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 8, 9, 12, 16, 17, 40])
@pytest.mark.parametrize("values", [None, 2, 6])
def test_skyline_is_its_twin_where_cells_and_signatures_are_at_work(d: int, values: int | None) -> None:
    points = random_points(600, d, values)
    assert kernels.skyline(points).tolist() == reference.skyline(points)


@pytest.mark.parametrize("d", [3, 5, 8])
def test_a_large_array_sifted_by_a_sample_has_the_same_skyline(d: int) -> None:
    points = random_points(70_000, d, None)
    mask = kernels.skyline(points)
    best = points[mask]
    assert not kernels.beaten(best, best).any()
    assert kernels.beaten(points[~mask], best).all()
    shuffled = np.random.default_rng(1).permutation(len(points))
    assert (kernels.skyline(points[shuffled]) == mask[shuffled]).all()


@pytest.mark.parametrize("values", [None, 3, 8, 60])
@pytest.mark.parametrize("head", [1, 4, 32])
def test_in_two_dimensions_a_sample_hides_no_point_of_the_skyline(
    values: int | None, head: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["skytide.kernels.skyline"]
    monkeypatch.setattr(module, "PLANE_HEAD", head)
    for seed in range(8):
        points = random_points(300, 2, values, seed)
        points[:, 1] += (2 if values else 0.5) - points[:, 0]  # most are not comparable
        assert module._best_in_plane(points).tolist() == reference.skyline(points)


@pytest.mark.parametrize("decimals", [2, 4, None])
def test_a_large_array_of_two_dimensions_has_the_skyline_of_its_twin(decimals: int | None) -> None:
    rng = np.random.default_rng(7)
    x = rng.random(70_000)
    points = np.column_stack([x, 1 - x + rng.normal(0, 0.002, len(x))])
    if decimals is not None:
        points = points.round(decimals)  # many are equal, or have the same x or y
    module = sys.modules["skytide.kernels.skyline"]
    assert len(module.sift(points)) > 4 * module.PLANE_HEAD  # so that stairs are at work
    assert kernels.skyline(points).tolist() == reference.skyline_in_plane(points.tolist())


@given(npst.arrays(np.float64, st.tuples(st.integers(0, 40), st.just(2)), elements=FEW_VALUES))
def test_the_twin_in_two_dimensions_is_the_twin_in_any(points: np.ndarray) -> None:
    assert reference.skyline_in_plane(points.tolist()) == reference.skyline(points.tolist())


def test_extremes() -> None:
    assert kernels.skyline(np.empty((0, 8))).tolist() == []
    assert kernels.skyline([[5, 5]]).tolist() == [True]
    assert kernels.skyline(np.ones((1_000_000, 8))).all()
    assert kernels.skyline(np.arange(1_000_000)[:, None]).sum() == 1
    constant = np.column_stack([random_points(500, 3, None), np.full(500, 7.0)])
    assert kernels.skyline(constant).tolist() == reference.skyline(constant)
    huge = np.array([[1e308, -1e308], [-1e308, 1e308], [1e308, 1e308], [5e-324, 0.0], [0.0, 5e-324]] * 30)
    huge3 = np.column_stack([huge, huge[:, 0]])
    assert kernels.skyline(huge3).tolist() == reference.skyline(huge3)


def test_a_tie_in_the_sum_does_not_hide_a_dominator() -> None:
    # 1 + 1e-17 rounds to 1: both rows have the same sum, and only one dominates the other.
    points = np.array([[1.0, 1e-17, 0.0], [1.0, 0.0, 0.0]] * 100)
    assert kernels.skyline(points).tolist() == [False, True] * 100


def test_every_unsigned_and_wide_integer_keeps_its_order() -> None:
    wide = np.array([[2**63, 1], [2**63 + 1, 1], [0, 2]], dtype=np.uint64)
    assert kernels.skyline(wide).tolist() == reference.skyline(wide.tolist())


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0, 2.0], [3.0, float("nan")]], "nan in row 1 of column 1"),
        ([[float("inf"), 2.0]], "inf in row 0 of column 0"),
        ([1.0, 2.0], "shape (2,)"),
        ([["a"]], "only numbers"),
    ],
)
def test_the_border_refuses_what_has_no_order(points: object, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        kernels.skyline(points)
    assert message in str(error.value)


def test_the_border_finds_a_bad_value_anywhere_and_names_its_column() -> None:
    points = np.zeros((1000, 3))
    points[777, 2] = np.nan
    with pytest.raises(InvalidInput, match="nan in row 777 of column stars"):
        as_points(points, names=("price", "distance", "stars"))


@given(clouds(most_rows=25), st.integers(1, 6))
def test_dominators_are_counted_up_to_the_limit(points: np.ndarray, limit: int) -> None:
    checked = as_points(points)
    expected = [min(limit, count) for count in reference.dominators(checked.tolist())]
    assert kernels.count_dominators(checked, limit).tolist() == expected


@given(clouds(most_rows=25), st.data())
def test_dominators_are_counted_only_for_rows_that_are_tested(points: np.ndarray, data: st.DataObject) -> None:
    checked = as_points(points)
    tested = data.draw(npst.arrays(np.bool_, len(checked)))
    rows = checked.tolist()
    expected = [
        int(asked and any(reference.dominates(other, row) for other in rows)) for row, asked in zip(rows, tested, strict=True)
    ]
    assert kernels.count_dominators(checked, 1, tested).tolist() == expected


@given(clouds(most_rows=25))
def test_levels_are_those_of_repeated_peeling(points: np.ndarray) -> None:
    checked = as_points(points)
    expected = reference.levels(checked.tolist())
    assert kernels.skyline_levels(checked, 10**9).tolist() == expected
    assert kernels.skyline_levels(checked, 2).tolist() == [min(level, 3) for level in expected]


@given(clouds(most_rows=25))
def test_smallest_k_is_found_by_trying_every_k(points: np.ndarray) -> None:
    checked = as_points(points)
    assert kernels.smallest_k(checked, checked).tolist() == reference.smallest_k(checked.tolist())


@given(clouds(most_rows=25))
def test_smallest_k_of_a_skyline_is_the_same_if_it_is_known_to_be_one(points: np.ndarray) -> None:
    checked = as_points(points)
    best = checked[np.array(reference.skyline(checked.tolist()), dtype=np.bool_)]
    assert kernels.smallest_k(best, best, undominated=True).tolist() == reference.smallest_k(best.tolist())
    assert kernels.smallest_k(best, checked, undominated=True).tolist() == kernels.smallest_k(best, checked).tolist()


def test_smallest_k_with_more_ranks_than_sixteen_bits() -> None:
    points = random_points(40_000, 2, None)
    assert (kernels.smallest_k(points[:50], points) <= 3).all()
    few = kernels.smallest_k(points[:50], points[:50])
    assert few.tolist() == reference.smallest_k(points[:50].tolist())


@given(clouds())
def test_a_topological_order_has_dominators_first_and_equal_rows_together(points: np.ndarray) -> None:
    checked = as_points(points)
    if len(checked) == 0:
        return
    order = topological_order(checked)
    rows = checked[order].tolist()
    assert sorted(order) == list(range(len(rows)))
    assert not any(reference.dominates(rows[j], rows[i]) for j in range(len(rows)) for i in range(j))
    assert len(distinct_rows(checked, order)) == len({tuple(row) for row in rows})


def test_the_twin_catches_a_kernel_that_forgets_ties() -> None:
    """The guilty specimen: sorting by sum alone, which loses a dominator whose sum is equal after rounding."""

    def careless(points: np.ndarray) -> list[bool]:
        kept: list[list[float]] = []
        answer = {}
        for i in np.argsort(points.sum(axis=1), kind="stable"):
            row = points[i].tolist()
            answer[int(i)] = not any(reference.dominates(other, row) for other in kept)
            if answer[int(i)]:
                kept.append(row)
        return [answer[i] for i in range(len(points))]

    points = np.array([[1.0, 1e-17], [1.0, 0.0]])
    assert careless(points) != reference.skyline(points)
    assert kernels.skyline(points).tolist() == reference.skyline(points)


def first_turns(points: np.ndarray, rivals: np.ndarray, turns: np.ndarray, begins: list[int]) -> list[int]:
    timed = list(zip(rivals.tolist(), turns.tolist(), strict=True))
    return [
        min((turn for rival, turn in timed if turn >= begin and reference.dominates(rival, point)), default=kernels.NO_TURN)
        for point, begin in zip(points.tolist(), begins, strict=True)
    ]


@pytest.mark.parametrize("d", [1, 3, 8, 17])
@pytest.mark.parametrize("values", [None, 3])
@pytest.mark.parametrize("panes", [1, 5, 150])
@pytest.mark.parametrize("rows_per_cell", [1, 32])
def test_the_first_dominator_is_its_twin(
    d: int, values: int | None, panes: int, rows_per_cell: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["skytide.kernels.first"], "ROWS_PER_CELL", rows_per_cell)
    points, rivals = random_points(150, d, values), random_points(300, d, values, seed=1)
    rng = np.random.default_rng([d, panes])
    turns, begins = rng.integers(-panes, 1, len(rivals)), rng.integers(-panes, 2, len(points))
    assert kernels.first_dominators(points, rivals, turns).tolist() == first_turns(points, rivals, turns, [-panes] * len(points))
    found = kernels.first_dominators(points, rivals, turns, begins=begins)
    assert found.tolist() == first_turns(points, rivals, turns, begins.tolist())


def test_nobody_dominates_where_nobody_is() -> None:
    nobody, turns = np.empty((0, 2)), np.empty(0, np.int64)
    assert kernels.first_dominators(np.ones((2, 2)), nobody, turns).tolist() == [kernels.NO_TURN] * 2
    assert kernels.first_dominators(nobody, np.ones((2, 2)), np.zeros(2, np.int64)).tolist() == []
