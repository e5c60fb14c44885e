"""P1's query over cabs, end to end: the operator, the aggregate and the example, against plain Python that shares no code with them."""

import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from skytide import collect
from skytide.errors import InvalidInput
from skytide.queries import Aggregate
from skytide.spark.session.java import find_java, use_java
from skytide.testing import Runner, check_operator, check_query
from skytide_lab.data.made_up_cabs import made_up_cabs
from skytide_lab.traffic import QueueEnd, Speeds, area, corner

EXAMPLE = Path(__file__).parents[2] / "examples" / "traffic.py"
DEADLINE_S = 500
NOON = datetime(2008, 5, 20, 12)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
REPORT = pa.struct([("ts", pa.timestamp("us")), ("before", pa.float64()), ("speed", pa.float64())])

Speed = tuple[datetime, float, float, bool, float, float | None]
Answer = tuple[int, float, float, bool]


def speeds_by_hand(reports: list[dict[str, Any]]) -> list[Speed]:
    """Return time, place, ride, speed and the speed before for the reports of one cab, in order."""
    found: list[Speed] = []
    chain: float | None = None
    for then, now in pairwise(reports):
        hours = (now["ts"] - then["ts"]).total_seconds() / 3_600
        km = math.hypot((now["lat"] - then["lat"]) * 111.32, (now["lon"] - then["lon"]) * 88.02)
        if 0 < hours <= 0.05 and km <= 150 * hours:
            ride = then["occupied"] and now["occupied"]
            found.append((now["ts"], now["lat"], now["lon"], ride, km / hours, chain))
            chain = km / hours if ride else None
        else:
            chain = None
    return found


def areas_by_hand(table: pa.Table, metres: float = 500.0) -> dict[tuple[datetime, int], Answer]:
    """Return count, mean, maximum and whether a queue ends, for each window of an hour that ends at a minute, and area."""
    cabs = defaultdict(list)
    for row in table.sort_by([("cab", "ascending"), ("ts", "ascending")]).to_pylist():
        cabs[row["cab"]].append(row)
    by_area = defaultdict(list)
    for reports in cabs.values():
        for ts, lat, lon, ride, kmh, before in speeds_by_hand(reports):
            if ride and 37 <= lat < 38 and -123 <= lon < -122:
                number = 1_000 * math.floor((lat - 37) * 111_320 / metres) + math.floor((lon + 123) * 88_020 / metres)
                by_area[number].append((ts, kmh, before))
    answers = {}
    for number, rows in by_area.items():
        ends = {ts.replace(second=0, microsecond=0) + MINUTE * after for ts, *_ in rows for after in range(1, 61)}
        for end in ends:
            within = [row for row in rows if end - HOUR <= row[0] < end]
            latest = max(ts for ts, *_ in within).replace(second=0, microsecond=0)
            recent = [(kmh, before) for ts, kmh, before in within if before is not None and ts >= latest - 29 * MINUTE]
            braked = sum(before >= 40 and kmh < 15 for kmh, before in recent)
            gone = sum(before < 15 and kmh >= 40 for kmh, before in recent)
            kmh = [row[1] for row in within]
            answers[end, number] = (len(within), sum(kmh) / len(kmh), max(kmh), braked >= 3 and braked > 2 * gone)
    return answers


def cab(*speeds: float, occupied: bool = True) -> list[dict[str, Any]]:
    """Return the reports of a cab that drives north for a minute at each of some speeds."""
    places = np.cumsum([0.0, *speeds]) / 60 / 111.32 + 37.75
    return [
        {"ts": NOON + MINUTE * n, "cab": 7, "lat": float(lat), "lon": -122.4, "occupied": occupied} for n, lat in enumerate(places)
    ]


def run(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    _, results = Speeds().process(None, pa.Table.from_pylist(reports))
    return results.to_pylist()


def test_a_speed_comes_from_two_positions() -> None:
    found = run(cab(60.0, 6.0, 30.0))
    assert [row["speed"] for row in found] == pytest.approx([60.0, 6.0, 30.0])
    assert [row["before"] for row in found] == [None, *(pytest.approx(speed) for speed in (60.0, 6.0))]
    assert [row["ts"] for row in found] == [NOON + MINUTE * n for n in (1, 2, 3)]


def test_a_gap_and_a_jump_have_no_speed_and_break_the_chain() -> None:
    reports = cab(30.0, 30.0, 30.0, 30.0)
    late = [*reports[:2], *({**row, "ts": row["ts"] + HOUR} for row in reports[2:])]
    assert [row["before"] for row in run(late)] == [None, None, pytest.approx(30.0)]
    assert len(run(cab(30.0, 900.0, 30.0))) == 2


def test_a_cab_at_a_stand_is_on_no_ride() -> None:
    empty, full = cab(10.0, 10.0, occupied=False), cab(10.0, 10.0, 10.0)
    mixed = [*empty[:2], *full[2:]]
    assert [row["ride"] for row in run(mixed)] == [False, False, True]
    assert [row["before"] for row in run(mixed)] == [None, None, None]


def test_the_operator_keeps_the_laws() -> None:
    check_operator(Speeds(), made_up_cabs(6, 0.5), keys="cab")
    with pytest.raises(InvalidInput, match="lat"):
        Speeds().check(pa.schema([("ts", pa.timestamp("us")), ("lat", pa.string())]))
    with pytest.raises(InvalidInput, match="max_gap_s"):
        Speeds(max_gap_s=0)


def test_the_operator_in_batches_returns_what_plain_python_does() -> None:
    table = made_up_cabs(20, 2.0)
    with Runner(Speeds(), keys="cab", slots=3) as runner:
        for first in range(0, table.num_rows, 300):
            runner.feed(table.slice(first, 300))
        runner.restart()
        runner.flush()
        found = runner.outputs.results.to_pylist()
    expected = defaultdict(list)
    for row in table.sort_by([("cab", "ascending"), ("ts", "ascending")]).to_pylist():
        expected[row["cab"]].append(row)
    whole = {(number, speed[0]): speed for number, reports in expected.items() for speed in speeds_by_hand(reports)}
    assert len(found) == len(whole) > 1_000
    for row in found:
        _, lat, lon, ride, kmh, before = whole[row["cab"], row["ts"]]
        assert (row["lat"], row["lon"], row["ride"]) == (lat, lon, ride)
        assert row["speed"] == pytest.approx(kmh)
        assert row["before"] == (before if before is None else pytest.approx(before))


def answer(*changes: tuple[int, float | None, float]) -> bool:
    """Return whether a queue ends where reports came at some minutes, with the speeds before and now."""
    end = QueueEnd()
    rows = [{"ts": NOON + MINUTE * minute, "before": before, "speed": speed} for minute, before, speed in changes]
    return end.finish(end.add(end.start(), pa.array(rows, REPORT)))


def test_a_queue_ends_where_more_cars_are_braked_than_drive_off() -> None:
    braked, off, steady = (50.0, 5.0), (5.0, 50.0), (50.0, 50.0)
    assert answer(*((n, *braked) for n in range(3)))
    assert not answer(*((n, *braked) for n in range(2)))
    assert not answer(*((n, *braked) for n in range(4)), *((n, *off) for n in range(2)))
    assert answer(*((n, *braked) for n in range(5)), *((n, *off) for n in range(2)))
    assert not answer(*((n, None, 5.0) for n in range(9)))
    assert answer(*((n, *braked) for n in range(3)), (29, *steady))
    assert not answer(*((n, *braked) for n in range(3)), (30, *steady))  # the first one is half an hour old
    assert not QueueEnd().finish(QueueEnd().start())


def test_the_aggregate_keeps_the_laws() -> None:
    rng = np.random.default_rng(4)
    rows = [
        {"ts": NOON + MINUTE * int(minute), "area": int(place), "report": {"ts": NOON + MINUTE * int(minute), "before": before, "speed": speed}}
        for minute, place, before, speed in zip(
            rng.integers(0, 90, 600), rng.integers(0, 4, 600), rng.choice([5.0, 30.0, 50.0], 600), rng.choice([5.0, 50.0], 600), strict=True
        )
    ]  # fmt: skip
    query = Aggregate((collect(QueueEnd(), "report", name="queue_end"),), keys=("area",))
    schema = pa.schema([("ts", pa.timestamp("us")), ("area", pa.int64()), ("report", REPORT)])
    check_query(query, pa.Table.from_pylist(rows, schema))
    with pytest.raises(InvalidInput, match="QUEUE_INPUT"):
        QueueEnd().kind(pa.float64())
    with pytest.raises(InvalidInput, match="free_kmh"):
        QueueEnd(free_kmh=10.0, crawl_kmh=20.0)


def test_corners_are_those_of_the_grid() -> None:
    south, west = corner(175_104, 500)
    assert math.floor((south + 1e-6 - 37) * 111_320 / 500) == 175 and math.floor((west + 1e-6 + 123) * 88_020 / 500) == 104
    with pytest.raises(InvalidInput, match="metres"):
        area(5)


def test_made_up_cabs_are_like_the_real_ones() -> None:
    table = made_up_cabs(50, 3.0)
    assert table.equals(made_up_cabs(50, 3.0))
    assert table.schema.names == ["ts", "cab", "lat", "lon", "occupied"] and not any(column.null_count for column in table.columns)
    assert table["ts"].to_pylist() == sorted(table["ts"].to_pylist())
    kmh = [speed[4] for number in range(50) for speed in speeds_by_hand(table.filter(pc.equal(table["cab"], number)).to_pylist())]
    assert len(kmh) > 6_000 and 5 < np.median(kmh) < 50
    assert 0.2 < np.mean(table["occupied"].to_pylist()) < 0.9


def replay(folder: Path, table: pa.Table) -> str:
    """Write a file for each cab, run the example, and return what it printed."""
    (folder / "cabs").mkdir(exist_ok=True)
    for row in table.to_pylist():
        with open(folder / "cabs" / f"cab{row['cab']:03}.jsonl", "a") as file:
            file.write(json.dumps({**row, "ts": f"{row['ts'].isoformat()}Z"}) + "\n")
    use_java()
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(folder)], capture_output=True, text=True, env=env, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_areas(results: pa.Table, table: pa.Table) -> dict[tuple[datetime, int], Answer]:
    """Compare results with those computed by hand, for all windows that came out."""
    rows = results.to_pylist()
    last = max(row["window_end"] for row in rows).astimezone(UTC).replace(tzinfo=None)
    expected = {key: value for key, value in areas_by_hand(table).items() if key[0] <= last}
    assert len(rows) == len(expected)
    for row in rows:
        key = row["window_end"].astimezone(UTC).replace(tzinfo=None), row["area"]
        count, mean, highest, queue_end = expected[key]
        assert (row["reports"], row["queue_end"]) == (count, queue_end), key
        assert (row["mean_kmh"], row["max_kmh"]) == pytest.approx((mean, highest)), key
    return expected


@pytest.mark.long
def test_the_example_over_made_up_cabs_goes_on_where_it_was(tmp_path: Path) -> None:
    assert find_java()
    table = made_up_cabs(60, 3.0)
    half = table.num_rows // 2
    replay(tmp_path, table.slice(0, half))
    printed = replay(tmp_path, table.slice(half))
    assert "queue_end" in printed
    expected = check_areas(pq.read_table(tmp_path / "areas"), table)
    assert any(queue_end for *_, queue_end in expected.values())


@pytest.mark.long
def test_the_example_over_two_hours_of_real_cabs(tmp_path: Path, data_dir: Path) -> None:
    whole = pq.read_table(data_dir / "cabs_20080520.parquet")
    two_hours = whole.filter(pc.less(whole["ts"], pa.scalar(datetime(2008, 5, 20, 2), pa.timestamp("us"))))
    replay(tmp_path, two_hours)
    expected = check_areas(pq.read_table(tmp_path / "areas"), two_hours)
    assert len({number for _, number in expected}) > 500
    assert any(queue_end for *_, queue_end in expected.values())
