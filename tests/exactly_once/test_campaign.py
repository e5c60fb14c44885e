"""The judge of the campaign finds every fault, and none where there is none; a case is the same every time."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from campaign import drawing, feeding, hours, sinks, streams
from campaign.cases import INPUTS, KEYED, WORDINGS, Case, Files, Fleet
from campaign.judge import Found, asked, asked_of_a_key, judge, read
from support import oracle

Spoil = Callable[[Found], Found]


def drawn(**changed: object) -> tuple[Case, streams.Parts]:
    case = next(
        case
        for number in range(100)
        if (case := drawing.draw(7, number)).subject == "windows"
        and isinstance(case.stream, Files)
        and not case.has_tail
        and case.slide_us in drawing.SLIDES_US
        and case.ask.method == "skyline"
    )
    case = replace(case, slack=("k", 0.0), length_us=2 * case.slide_us, **changed)  # type: ignore[arg-type]
    assert isinstance(case.stream, Files)
    calm = replace(case.stream, strays=0, invalid=0, disorder_us=case.slide_us)
    return replace(case, stream=calm), streams.parts_of(calm, invalid=False)


def right(case: Case, parts: streams.Parts) -> Found:
    """Return what an engine without faults writes that has taken every tuple."""
    found = oracle.windows_of([row for part in parts for row in part], case.length_us, case.slide_us, asked(case.ask))
    bounds = {
        start: {"batch": number // 3, "window_start": start, "window_end": start + case.length_us}
        for number, start in enumerate(found)
    }
    results = [{**bounds[start], **row} for start, window in found.items() for row in window.rows]
    windows = [{**bounds[start], "tuples": window.tuples, "kept": len(window.rows), "late": 0} for start, window in found.items()]
    return Found(results, windows, [], [])


def test_what_is_right_is_found_right() -> None:
    case, parts = drawn()
    verdict = judge(case, parts, right(case, parts))
    assert verdict.good and verdict.compared > 10


def without_first_window(found: Found) -> Found:
    start = found.windows[0]["window_start"]
    return replace(found, windows=found.windows[1:], results=[row for row in found.results if row["window_start"] != start])


def without_results_of_last_window(found: Found) -> Found:
    return replace(found, results=[row for row in found.results if row["window_start"] != found.windows[-1]["window_start"]])


def with_a_window_twice(found: Found) -> Found:
    again = found.windows[3]
    twice = [{**row, "batch": 99} for row in found.results if row["window_start"] == again["window_start"]]
    return replace(found, windows=[*found.windows, {**again, "batch": 99}], results=[*found.results, *twice])


def with_results_twice(found: Found) -> Found:
    start = found.windows[3]["window_start"]
    return replace(found, results=[*found.results, *(row for row in found.results if row["window_start"] == start)])


def with_another_value(found: Found) -> Found:
    return replace(found, results=[{**found.results[0], "a": -1}, *found.results[1:]])


def with_a_wrong_count(found: Found) -> Found:
    return replace(found, windows=[{**found.windows[0], "tuples": -1}, *found.windows[1:]])


def with_a_window_that_never_was(found: Found) -> Found:
    return replace(
        found, windows=[*found.windows, {**found.windows[0], "window_start": 0, "window_end": 2 * found.windows[0]["window_start"]}]
    )


def with_windows_out_of_order(found: Found) -> Found:
    return replace(found, windows=[{**found.windows[0], "batch": 99}, *found.windows[1:]])


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (without_first_window, "lost"),
        (without_results_of_last_window, "lost"),
        (with_a_window_twice, "doubled"),
        (with_results_twice, "doubled"),
        (with_another_value, "different"),
        (with_a_wrong_count, "different"),
        (with_a_window_that_never_was, "different"),
        (with_windows_out_of_order, "different"),
    ],
)
def test_what_is_wrong_is_found(spoil: Spoil, what: str) -> None:
    case, parts = drawn()
    verdict = judge(case, parts, spoil(right(case, parts)))
    assert getattr(verdict, what) >= 1 and not verdict.good and verdict.reasons


def test_a_run_of_empty_windows_may_be_one_row() -> None:
    case, parts = drawn()
    slide_us = case.slide_us
    first = [row for part in parts for row in part][:5]
    later = [{**row, "ts": row["ts"] + 100 * slide_us, "id": row["id"] + 5} for row in first]
    found = right(case, [first, later])
    empty = [row for row in found.windows if not row["tuples"]]
    run = {**empty[0], "window_end": empty[-1]["window_end"], "windows": len(empty)}
    assert len(empty) > 50
    assert judge(
        case,
        [first, later],
        replace(found, windows=[run if row is empty[0] else row for row in found.windows if row is empty[0] or row["tuples"]]),
    ).good


def test_late_tuples_are_taken_as_late_once_and_only_if_they_are() -> None:
    case, parts = drawn()
    rows = [row for part in parts for row in part]
    newest = max(rows, key=lambda row: row["ts"])
    late = next(row for place, row in enumerate(rows) if any(other["ts"] > row["ts"] for other in rows[:place]))
    found = right(case, [[row for row in rows if row is not late]])
    assert judge(case, parts, replace(found, late=[{"batch": 1, **late}])).good
    assert judge(case, parts, found).different
    assert judge(case, parts, replace(found, late=[late, late])).tuples
    on_time = right(case, [[row for row in rows if row is not newest]])
    assert judge(case, parts, replace(on_time, late=[newest])).tuples
    fixed = replace(case, slack=("fixed", float(case.slide_us)))
    assert judge(fixed, parts, replace(found, late=[late])).tuples  # a slack as long as the disorder loses nothing


def test_strays_must_be_dropped() -> None:
    case, _ = drawn()
    assert isinstance(case.stream, Files)
    case = replace(case, slack=("fixed", 3.0 * case.slide_us), stream=replace(case.stream, strays=3))
    parts = streams.parts_of(case.stream, invalid=False)
    strays = [row for part in parts for row in part if row["id"] >= case.stream.tuples]
    assert len(strays) == 3
    calm = [[row for row in part if row not in strays] for part in parts]
    assert judge(case, parts, replace(right(case, calm), late=strays)).good
    assert judge(case, parts, right(case, parts)).tuples == 3


def test_a_case_is_the_same_every_time_and_another_with_another_number_or_seed() -> None:
    assert drawing.draw(3, 5) == drawing.draw(3, 5)
    some = [drawing.draw(seed, number) for seed in (1, 2) for number in range(40)]
    assert len({repr(replace(case, seed=0, number=0)) for case in some}) == len(some)
    assert {case.kind for case in some} == set(drawing.KINDS)
    assert {case.sink for case in some} == set(sinks.KINDS)
    assert {case.input for case in some} == {*INPUTS, "workload", "fleet"}
    assert {case.ask.method for case in some if case.is_keyed} == set(KEYED)
    assert "KEYS" in {life.splitting for case in some for life in case.lives}
    assert all(case.lives[-1].blow is None and len(case.lives) > 1 for case in some)


def of_keys(method: str) -> tuple[Case, streams.Parts, Found]:
    case, parts = drawn()
    case = replace(case, ask=replace(case.ask, method=method, keys=("g",), number=7))
    rows = oracle.of_each_key(asked_of_a_key(case), case.ask.keys)([row for part in parts for row in part])
    return case, parts, Found([{"batch": row["number"] // 3, **row} for row in rows], [], [], [])


@pytest.mark.parametrize("method", KEYED)
def test_faults_of_operators_on_keys_are_found(method: str) -> None:
    case, parts, found = of_keys(method)
    rows = found.results
    assert judge(case, parts, found).good and judge(case, parts, found).compared > 10
    assert judge(case, parts, replace(found, results=rows[1:])).lost == 1
    assert judge(case, parts, replace(found, results=[*rows, rows[2]])).doubled == 1
    assert judge(case, parts, replace(found, results=[{**rows[0], "number": 99}, *rows[1:]])).different >= 1
    assert judge(case, parts, replace(found, results=[{**rows[0], "batch": 99}, *rows[1:]])).different == 1
    late = next(row for part in parts[::-1] for row in part)  # that it is nowhere changes what its key has
    assert not judge(case, [[row for row in part if row is not late] for part in parts], found).good


def test_an_order_among_equal_times_is_judged() -> None:
    case, parts, _ = of_keys("running")
    parts = [
        [{**row, "ts": row["ts"] // case.slide_us * case.slide_us} for row in part] for part in parts
    ]  # so that many are equal
    case = replace(case, ask=replace(case.ask, order=("d", "c")))
    rows = [row for part in parts for row in part]
    asked_for, other = (oracle.of_each_key(oracle.running("c"), ("g",), order=order)(rows) for order in (("d", "c"), ()))
    assert judge(case, parts, Found([{"batch": 0, **row} for row in asked_for], [], [], [])).good
    assert judge(case, parts, Found([{"batch": 0, **row} for row in other], [], [], [])).different


def test_windows_of_hours_have_many_batches_and_groups_and_other_slots_and_caches() -> None:
    some = [case for number in range(300) if (case := drawing.draw(1, number)).subject == "hours"]
    assert {case.ask.wording for case in some} == set(WORDINGS)
    assert max(case.stream.groups for case in some if isinstance(case.stream, Files)) > 10_000
    for case in some:
        assert isinstance(case.stream, Files)
        assert case.length_us >= hours.HOUR_US and case.stream.span_us < 4 * case.length_us and case.stream.files >= 18
        assert case.is_keyed or len({slots for life in case.lives for slots in life.window_slots}) > 1
    lives = [life for case in some for life in case.lives]
    assert {life.cache_mb for life in lives} == {"", hours.TINY_MB} and {life.divides for life in lives} == {False, True}


def test_of_a_stream_that_ends_with_a_tail_nothing_is_late() -> None:
    case, _ = drawn()
    fleet = Fleet(seed=3, format="csv", streams=5, steps=20, tuples=300, span_us=20 * case.slide_us)
    case = replace(case, stream=fleet)
    parts = streams.parts_of(fleet, invalid=True)
    assert judge(case, parts, right(case, parts)).good
    newest = [max(row["ts"] for row in part) for part in parts if part]
    assert newest == sorted(newest) and len({row["stream"] for part in parts for row in part}) > 2
    late = next(row for part in parts for row in part)
    found = right(case, [[row for row in part if row is not late] for part in parts])
    assert judge(case, parts, replace(found, late=[late])).tuples == 1


def test_no_life_flushes_before_the_tail_comes() -> None:
    some = [drawing.draw(1, number) for number in range(60)]
    assert all(case.lives[-1].flushes(case) for case in some)
    assert {life.flushes(case) for case in some if case.has_tail for life in case.lives[:-1]} == {False}
    assert {life.flushes(case) for case in some if not case.has_tail for life in case.lives} == {True}


def test_a_fleet_grows_to_all_of_its_records(tmp_path: Path) -> None:
    case, _ = drawn()
    fleet = Fleet(seed=3, format="jsonl", streams=5, steps=9, tuples=200, span_us=9_000_000)
    parts = streams.parts_of(fleet, invalid=True)
    feed = feeding.Feeding(replace(case, stream=fleet), parts, tmp_path)
    feed.finish()
    lines = [line for file in sorted((tmp_path / "in").iterdir()) for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines) == list(range(200))


def test_an_aggregated_input_is_seen_as_groups_and_copies_are_seen_once() -> None:
    case, parts = drawn()
    assert isinstance(case.stream, Files)
    grouped = replace(case.stream, input="aggregated", group_us=case.slide_us)
    rows = [row for part in parts for row in part]
    (groups,) = streams.seen(grouped, parts)
    assert len(groups) == len({(row["ts"] // case.slide_us, row["g"]) for row in rows}) < len(rows)
    assert sum(group["d"] for group in groups) == sum(row["d"] is not None for row in rows)
    assert streams.seen(case.stream, parts) is parts
    copied = feeding.with_copies(case.stream, parts)
    assert sum(map(len, copied)) > len(rows)
    assert {row["id"]: row for part in copied for row in part} == {row["id"]: row for row in rows}


def test_a_format_with_transactions_and_json_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [{"window_start": 1_700_000_000_123_456, "id": number} for number in (1, 2)]
    for version in (0, 1, 1):
        source = sinks.Transactions({"path": str(tmp_path / "results"), "txnAppId": "us", "txnVersion": str(version)})
        writer = source.writer(None, overwrite=False)
        writer.commit([writer.write(iter(streams.pa.Table.from_pylist(rows).to_batches())), None])
    assert read("transactions", tmp_path).results == [{"batch": batch, **row} for batch in (0, 1) for row in rows]
    (folder := tmp_path / "results" / "batch=3").mkdir(parents=True)
    (folder / "part-0.json").write_text('{"window_start":"2023-11-14T22:13:20.123456Z","id":1}\n')
    assert read("json", tmp_path).results == [{"batch": 3, **rows[0]}]


class Rows:
    """Stands for a DataFrame of results."""

    def __init__(self, rows: list[oracle.Row]) -> None:
        self.rows = rows

    def toArrow(self) -> object:
        return streams.pa.Table.from_pylist(self.rows)


@pytest.mark.parametrize("kind", sinks.HOOKED[1:])
def test_a_batch_that_is_repeated_is_in_each_target_once(tmp_path: Path, kind: str) -> None:
    write = sinks.sink(kind, tmp_path, "results", ("id",), lambda moment: None)
    for batch, starts in [(0, (0, 10)), (1, (20,)), (1, (20,)), (2, ())]:
        write(Rows([{"window_start": start, "id": number} for start in starts for number in (1, 2)]), batch)
    assert [row["window_start"] for row in read(kind, tmp_path).results] == [0, 0, 10, 10, 20, 20]


@pytest.mark.parametrize("kind", sinks.HOOKED[1:])
def test_a_call_that_dies_before_its_commit_leaves_nothing(tmp_path: Path, kind: str) -> None:
    class Died(Exception):
        pass

    def die(moment: str) -> None:
        if moment == "inside":
            raise Died

    with pytest.raises(Died):
        sinks.sink(kind, tmp_path, "results", ("id",), die)(Rows([{"window_start": 0, "id": 1}]), 0)
    assert read(kind, tmp_path).results == []
