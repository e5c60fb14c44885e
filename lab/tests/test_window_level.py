"""The window level of a query with groups in virtual time: slots take what they open, read and answer."""

import numpy as np
import pytest

from skytide.batch import BatchRules, InSource
from skytide.lateness import FixedSlack
from skytide.routing import EVEN
from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.sim.micro_batch import BatchCosts, BatchPlant
from skytide_lab.sim.pipelining import Levels, one_by_one_s, side_by_side_s
from skytide_lab.sim.window_level import Groups, WindowCosts, WindowLevel, cover

SECOND = Windows(1_000_000, 1_000_000)
TASKS, EACH = 40, 50
"""Tasks of the pane level, and the tuples of each in a batch of a second."""
COSTS = WindowCosts(task_s=0.0, open_s=0.001, row_s=0.001, answer_s=0.0)
FREE = BatchCosts("made up", batch_s=0.0, tuple_s=0.0, task_s=0.0, window_s=0.0, window_tuple_s=0.0)


def play(level: WindowLevel, *, slots: int, cores: int = 64, windows: Windows = SECOND, batches: int = 6) -> BatchPlant:
    """Play batches that begin in the middle of a second."""
    stream = Workload(rate=TASKS * EACH, arrivals="constant", tick_us=1_000_000 // TASKS)
    rules = BatchRules(
        windows, FixedSlack(0), InSource(EVEN), pane_slots=TASKS, window_slots=slots, has_groups=True,
        spreading_pays_s=0.0, driver_pays_s=-1.0,
    )  # fmt: skip
    plant = BatchPlant(stream, FREE, rules, cores, windows=level)
    for batch in range(batches):
        plant.seconds.clear()
        plant.run_batch(range(TASKS // 2 + batch * TASKS, TASKS // 2 + (batch + 1) * TASKS))
    return plant


@pytest.mark.parametrize("exponent", [0.0, 1.1])
@pytest.mark.parametrize("tuples", [10, 1_000, 50_000])
def test_groups_are_as_many_as_in_tuples_that_are_drawn(exponent: float, tuples: int) -> None:
    weights = np.arange(1.0, 2_001) ** -exponent
    drawn = np.random.default_rng(3).choice(2_000, (20, tuples), p=weights / weights.sum())
    found = np.mean([len(np.unique(some)) for some in drawn])
    assert Groups(2_000, exponent).among(tuples) == pytest.approx(found, rel=0.03)


def test_every_slot_opens_every_piece_and_has_its_share_of_the_rows() -> None:
    """All 40 tasks work on half a second each of two panes, and leave 20 pieces of each."""
    one, four = (
        play(level, slots=slots) for level, slots in ((WindowLevel(Groups(100), COSTS), 1), (WindowLevel(Groups(100), COSTS), 4))
    )
    assert one.windows and four.windows
    assert four.windows.opened == 4 * one.windows.opened
    opening_s = one.windows.opened * COSTS.open_s
    assert four.seconds["windows"] - opening_s == pytest.approx((one.seconds["windows"] - opening_s) / 4)


def test_merges_that_are_cut_by_parts_use_more_cores() -> None:
    minute = Windows(60_000_000, 60_000_000)  # stays open when pieces of 16 batches have come
    whole, cut = (play(WindowLevel(Groups(10**9), COSTS, merge_cuts=cuts), slots=4, windows=minute, batches=16) for cuts in (1, 16))
    assert cut.seconds["merging"] < whole.seconds["merging"] / 3
    assert cut.seconds["windows"] == pytest.approx(whole.seconds["windows"])


def test_gathered_pieces_are_opened_by_few() -> None:
    apart, gathered = (play(WindowLevel(Groups(100), COSTS, merge_cuts=4, gathers=each), slots=8) for each in (False, True))
    assert apart.windows and gathered.windows
    assert gathered.windows.opened == 8, "a file with what all tasks left"
    assert apart.windows.opened > 5 * gathered.windows.opened
    assert gathered.seconds["windows"] < apart.seconds["windows"] / 3


def test_a_slot_opens_all_files_of_what_is_remembered_if_they_are_too_many_to_keep() -> None:
    few = play(WindowLevel(Groups(100), COSTS), slots=8, windows=Windows(4_000_000, 1_000_000), batches=9)
    costs = WindowCosts(task_s=0.0, open_s=0.001, row_s=0.001, answer_s=0.0, cached_files=4)
    many = play(WindowLevel(Groups(100), costs), slots=8, windows=Windows(4_000_000, 1_000_000), batches=9)
    assert few.windows and many.windows
    assert many.windows.opened - few.windows.opened == 8 * (3 * 8 - 3), "three panes, of which each slot needs one file of eight"


@pytest.mark.parametrize(("start", "panes"), [(0, 5), (3, 40), (17, 300)])
def test_blocks_cover_a_window_without_gaps(start: int, panes: int) -> None:
    sizes = cover(range(start, start + panes), Windows(panes, 1))
    assert sum(sizes) == panes
    assert len(sizes) <= 2 * 15 * 2 + 16
    assert all(at % size == 0 for at, size in zip(np.cumsum([start, *sizes]), sizes, strict=False))


def test_levels_beside_each_other_gain_what_was_idle() -> None:
    busy = Levels(0.1, 0.0, [1.0] * 8, 0.0, [1.0] * 8, 0.01)
    assert side_by_side_s(busy, 8) == pytest.approx(2.08, abs=0.1)
    assert one_by_one_s(busy, 8) == pytest.approx(2.26, abs=0.01)
    assert side_by_side_s(busy, 16) == pytest.approx(1.2, abs=0.1)
    driver = Levels(0.1, 0.0, [0.0] * 100, 0.0, [0.0] * 100, 0.01)
    assert side_by_side_s(driver, 1_000) >= 2.0, "there is one driver"
