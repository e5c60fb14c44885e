"""What a fleet learns from its tasks: how long records are, and how much a split can take. Neither a broken stream nor a pause misleads it."""

from collections import Counter

import pytest
from fleet_model import Asked, rate_hz, record, status, write

from skytide.spark.fleet.capacity import START_HZ, USED, Capacity
from skytide.spark.fleet.reports import BROKEN_WORK, Report


def _append(asked: Asked, stream: str, data: bytes) -> None:
    with write(asked, stream).open("ab") as file:
        file.write(data)


@pytest.mark.parametrize("first", [0, 100], ids=["an empty folder", "short records"])
def test_records_that_are_longer_than_the_first_ones_do_not_stall_a_stream(asked: Asked, first: int) -> None:
    asked.start(capacity_hz=1_000.0, splits=1)
    if first:
        write(asked, "a", *range(first))
    asked.all()
    _append(asked, "a", b"".join(record(n, "x" * 2_000) for n in range(6_000)))
    rows = [asked.batch() for _ in range(8)]
    assert min(rows[2:5]) > 500, "a split takes 1,000 per second"
    asked.all()
    assert len(asked.given["a"]) == first + 6_000


def test_records_of_different_length_are_told_apart(asked: Asked) -> None:
    asked.start(capacity_hz=1_000.0, splits=1)
    for _ in range(6):
        _append(asked, "long", b"".join(record(n, "x" * 5_000) for n in range(50)))
        _append(asked, "short", b"".join(record(n) for n in range(50)))
        asked.batch()
    asked.start()  # what was learned is noted
    _append(asked, "long", b"".join(record(n, "x" * 5_000) for n in range(2_000)))
    _append(asked, "short", b"".join(record(n) for n in range(2_000)))
    before = {stream: len(numbers) for stream, numbers in asked.given.items()}
    asked.batch()
    for stream in ("long", "short"):
        assert len(asked.given[stream]) - before[stream] == pytest.approx(500, rel=0.2)


def test_a_record_that_is_longer_than_anything_before_comes_in_soon(asked: Asked) -> None:
    asked.start(capacity_hz=10.0, splits=1)
    write(asked, "a", *range(50))
    asked.all()
    _append(asked, "a", record(1, "x" * 1_000_000) + record(2))
    for _ in range(20):
        asked.batch()
    assert asked.given["a"][-2:] == [1, 2]


def test_rates_do_not_jump_when_the_length_of_records_turns_out_to_be_another(asked: Asked) -> None:
    asked.start(capacity_hz=100_000.0, splits=1)
    asked.all()
    rates = []
    for _ in range(8):
        _append(asked, "a", b"".join(record(n, "x" * 2_000) for n in range(50)))
        asked.batch()
        rates.append(status(asked)["rate_hz"])
    assert rates[3:] == pytest.approx([50] * 5, rel=0.1)


def test_a_stream_of_broken_records_leaves_the_others_their_share(asked: Asked) -> None:
    asked.start(splits=1, capacity_hz=1_000.0)
    for _ in range(4):
        _append(asked, "bad", b'{"n": "x", "pad": [1]}\n' * 20)
        write(asked, "good", *range(20))
        asked.batch()
    _append(asked, "bad", b'{"n": "x", "pad": [1]}\n' * 2_000)
    write(asked, "good", *range(400))
    before, invalid = len(asked.given["good"]), status(asked)["invalid"]
    asked.batch()
    asked.batch()
    assert len(asked.given["good"]) - before == 400
    assert status(asked)["invalid"] - invalid < 60, "each is as much work as many others"


def test_a_range_that_was_skipped_says_nothing_about_the_length_of_records(asked: Asked) -> None:
    asked.start(capacity_hz=100.0, splits=1)
    write(asked, "other", 1)
    asked.all()
    path = write(asked, "a", *range(100))
    asked.log.append(asked.reader.latestOffset(asked.log[-1], None))  # type: ignore[arg-type]
    whole = path.read_bytes()
    path.unlink()
    assert asked.batch() == 0
    path.write_bytes(whole * 100)
    assert asked.batch() < 500, "a split takes 100 per second"


@pytest.mark.parametrize("seen_by", ["the look", "the cut"])
def test_a_stream_that_begins_anew_may_have_shorter_records(asked: Asked, seen_by: str) -> None:
    asked.start(capacity_hz=100.0, splits=1)
    path = write(asked, "a")
    for _ in range(3):
        _append(asked, "a", b"".join(record(n, "x" * 10_000) for n in range(10)))
        asked.batch()
    short = b"".join(record(n) for n in range(20_000))
    if seen_by == "the look":
        path.unlink()
        _append(asked, "other", b"")  # which gets the number of the file, if one is given again at once
    path.write_bytes(short)
    assert sum(asked.batch() for _ in range(2)) < 500, "a split takes 100 per second"


def _report(work: int, busy_s: float) -> Report:
    return Report(1, 0, (work,), busy_s, Counter())


def test_broken_records_count_as_the_work_they_are() -> None:
    good, mixed = Capacity(1.0, 5.0), Capacity(1.0, 5.0)
    for now_s in range(10):
        good.measured([_report(10_000, 0.1)], now_s)
        mixed.measured([_report(5_000 + 100 * BROKEN_WORK, 0.1)], now_s)
    assert mixed.hz > good.hz / 2


def test_one_long_gap_does_not_change_how_much_a_batch_takes() -> None:
    capacity = Capacity(1.0, 5.0)
    budget = round(START_HZ * USED)
    for now_s in (0, 1, 2, 3, 33, 34, 35):
        capacity.measured([], now_s)
        assert capacity.budget == pytest.approx(budget, rel=0.01)


def test_batches_that_are_due_rarely_take_more_until_they_come_often_again() -> None:
    capacity = Capacity(1.0, 5.0)
    for now_s in range(0, 20, 4):
        capacity.measured([], now_s)
    assert capacity.budget == pytest.approx(4 * START_HZ * USED, rel=0.01)
    capacity.measured([], 17)
    assert capacity.budget == pytest.approx(START_HZ * USED, rel=0.01)


def test_a_stream_that_is_away_while_something_of_it_waits_is_no_other_stream(asked: Asked) -> None:
    asked.start(capacity_hz=20.0, splits=1)
    for _ in range(5):
        path = write(asked, "a", *range(30))
        asked.batch()
    away = path.rename(path.with_suffix(".away"))
    asked.batch()
    assert rate_hz(asked, "a") == 0
    away.rename(path)
    for _ in range(3):
        write(asked, "a", *range(30))
        asked.batch()
        assert rate_hz(asked, "a") == pytest.approx(30, rel=0.1), "what had waited did not come again"


@pytest.mark.parametrize("seen_by", ["the look", "the cut"])
def test_the_content_of_a_stream_that_replaces_a_shorter_one_is_no_rate(asked: Asked, seen_by: str) -> None:
    asked.start(splits=1)
    for _ in range(4):
        path = write(asked, "a", *range(10))
        asked.batch()
    other = path.with_suffix(".new")
    other.write_bytes(b"".join(record(n) for n in range(100, 5_000)))
    if seen_by == "the look":
        other.rename(path)
    else:
        path.write_bytes(other.read_bytes())
        asked.batch()  # which lets nothing in of it
    for _ in range(3):
        asked.batch()
        assert max(rate_hz(asked, "a"), rate_hz(asked, "a", "expected_hz")) < 20
        write(asked, "a", *range(10))
