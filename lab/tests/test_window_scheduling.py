"""Window schedulers: windows are complete and in order, and no slot idles needlessly."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.windows import Windows
from skytide_lab.scheduling.windows import POLICIES, Begin, InOrder, Merge, Task, Update, WindowScheduler


class Plant:
    """Runs tasks in any order, and asserts the laws of window schedulers."""

    def __init__(self, policy: Any, windows: Windows, slots: int) -> None:
        self.scheduler = WindowScheduler(windows, slots, policy)
        self.windows, self.running = windows, dict[int, Task]()
        self.content: dict[int, set[int]] = {}  # of each result, the partitions in it
        self.state: dict[int, set[int]] = {}
        self.done: dict[int, set[int]] = {}
        self.merges = 0

    def begin(self, begun: list[Begin]) -> None:
        for begin in begun:
            assert begin.slot not in self.running
            if isinstance(begin.task, Update):
                others = [task for task in self.running.values() if isinstance(task, Update) and task.window == begin.task.window]
                assert not others
                if self.scheduler.policy == "WIN_RR":
                    assert begin.slot == begin.task.window % len(self.scheduler.slots)
            self.running[begin.slot] = begin.task

    def result(self, pane: int, partitions: int, identity: int) -> None:
        number, begun = self.scheduler.on_result(pane, partitions)
        self.content[number] = {identity}
        self.begin(begun)
        self.check_busy()

    def finish(self, slot: int) -> None:
        task = self.running.pop(slot)
        if isinstance(task, Merge):
            self.merges += 1
            one, two = (self.content[number] for number in task.results)
            assert not one & two
            self.content[task.into] = one | two
        else:
            state = self.state.setdefault(task.window, set())
            assert not state & self.content[task.result]
            state |= self.content[task.result]
            if task.last:
                assert task.window not in self.done
                self.done[task.window] = self.state.pop(task.window)
        self.begin(self.scheduler.on_finished(slot, task))
        self.check_busy()

    def check_busy(self) -> None:
        """No slot idles while it could work."""
        known = self.scheduler._windows
        for slot in self.scheduler.idle:
            mine = [w for n, w in known.items() if self.scheduler.policy != "WIN_RR" or self.scheduler._owner(n) == slot]
            assert not any(window.waiting and not window.busy for window in mine)
            if self.scheduler.policy == "WIN_FB_MERGE":
                assert not any(len(window.waiting) >= 2 for window in mine)


@pytest.mark.parametrize("policy", POLICIES)
@given(
    slots=st.integers(1, 5),
    layout=st.sampled_from([Windows(1_000, 200), Windows(500, 200), Windows(300, 300)]),
    partitions=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_windows_are_complete_and_tasks_never_overlap(
    policy: str, slots: int, layout: Windows, partitions: list[int], order: Any
) -> None:
    plant = Plant(policy, layout, slots)
    first = layout.panes_of(0).start
    panes = range(first, first + layout.panes_per_window + len(partitions))
    counts = dict(zip(panes, partitions, strict=False))
    waiting = [(pane, counts.get(pane, 1), pane * 10 + part) for pane in panes for part in range(counts.get(pane, 1))]
    while waiting or plant.running:
        if waiting and (not plant.running or order.random() < 0.6):
            plant.result(*waiting.pop(order.randrange(min(3, len(waiting)))))
        else:
            plant.finish(order.choice(list(plant.running)))
    for window, content in plant.done.items():
        inside = layout.panes_of(window)
        assert content == {
            pane * 10 + part for pane in inside if pane in counts or pane in panes for part in range(counts.get(pane, 1))
        }
    whole = [w for w in range(20) if set(layout.panes_of(w)) <= set(panes)]
    assert set(whole) <= set(plant.done)
    out = InOrder(first=whole[0])
    assert [w for window in order.sample(whole, len(whole)) for w in out.on(window)] == whole
    if policy != "WIN_FB_MERGE":
        assert plant.merges == 0


def test_a_slot_goes_on_with_the_window_it_served() -> None:
    scheduler = WindowScheduler(Windows(2, 1), 1, "WIN_FB")
    _, begun = scheduler.on_result(5, 2)
    assert begun == [Begin(0, Update(4, 0))]
    _, begun = scheduler.on_result(5, 2)
    assert begun == []
    assert scheduler.on_finished(0, Update(4, 0)) == [Begin(0, Update(4, 1))]
    assert scheduler.on_finished(0, Update(4, 1)) == [Begin(0, Update(5, 0))]


def test_slots_come_and_go() -> None:
    scheduler = WindowScheduler(Windows(2, 1), 1)
    scheduler.on_result(5, 3)
    assert scheduler.add([1, 2]) == [Begin(1, Update(5, 0))]
    scheduler.remove([1])
    assert scheduler.on_finished(1, Update(5, 0)) == []
    assert 1 not in scheduler.idle
    with pytest.raises(InvalidInput, match="keep at least 1"):
        scheduler.remove([0, 2])
    assert math.isfinite(scheduler.waiting())
