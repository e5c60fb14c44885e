"""The first hour of a user, as real processes: examples/first_hour.py, Ctrl-C, a restart, and a replay of what was recorded."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skytide.cli import main
from skytide.spark.session.java import find_java, use_java

EXAMPLE = Path(__file__).parents[2] / "examples" / "first_hour.py"
DEADLINE_S = 300
MINUTE_US = 60_000_000
START_US = 1_700_000_000_000_000 // MINUTE_US * MINUTE_US
SYMBOLS = ("ABC", "DEF", "GHI", "JKL", "MNO")


def trades(minute: int) -> pa.Table:
    """A trade a second; of larger sizes in later minutes, so that later files are larger, and Spark reads them first."""
    rows = [
        {
            "ts": START_US + minute * MINUTE_US + second * 1_000_000,
            "symbol": SYMBOLS[(second + minute) % 5],
            "price": 10.0 + second % 7,
            "size": (second * 37) % 50 + minute,
        }
        for second in range(60)
    ]
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("price", pa.float64()), ("size", pa.int64())])
    return pa.Table.from_pylist(rows, schema)


def write(folder: Path, minutes: range) -> None:
    folder.mkdir(exist_ok=True)
    for minute in minutes:
        pq.write_table(trades(minute), folder / f".{minute}")
        (folder / f".{minute}").rename(folder / f"{minute}.parquet")


def largest(minute: int) -> list[tuple[str, int, float]]:
    found = []
    for symbol in SYMBOLS:
        mine = [row for row in trades(minute).to_pylist() if row["symbol"] == symbol]
        volume = sum(row["size"] for row in mine)
        found.append((symbol, volume, round(sum(row["price"] * row["size"] for row in mine) / volume, 6)))
    ranked = sorted(found, key=lambda each: -each[1])
    return [each for each in ranked if each[1] >= ranked[2][1]]


def until_interrupted(folder: Path, windows: int) -> tuple[int, str, str]:
    """Run the script until so many lines of results came, press Ctrl-C, and return its status and all it printed."""
    use_java()
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
    errors: list[str] = []
    printed, seen = [], 0
    with subprocess.Popen(
        [sys.executable, str(EXAMPLE), str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as script:
        deadline = threading.Timer(DEADLINE_S, script.kill)
        deadline.start()
        listener = threading.Thread(target=lambda: errors.extend(script.stderr or ()))
        listener.start()
        for line in script.stdout or ():
            printed.append(line)
            if "shares at" in line:
                seen += 1
                if seen == windows:
                    script.send_signal(signal.SIGINT)
        listener.join()
        status = script.wait()
        deadline.cancel()
    return status, "".join(printed), "".join(errors)


@pytest.mark.long
def test_the_first_hour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_java()
    write(tmp_path / "trades", range(10))
    status, printed, errors = until_interrupted(tmp_path, sum(len(largest(minute)) for minute in range(8)))
    assert status == 0, errors
    assert "Traceback" not in errors and "Fatal Python" not in errors, errors
    assert errors.count("skytide: Ctrl-C: the query ends after the current batch") == 1
    assert "state    stopped, after batch" in printed

    write(tmp_path / "trades", range(10, 20))
    status, printed, errors = until_interrupted(tmp_path, sum(len(largest(minute)) for minute in range(8, 19)))
    assert status == 0, errors
    rows = [
        row
        for file in sorted((tmp_path / "largest").iterdir(), key=lambda file: int(file.stem))
        for row in json.loads(file.read_text())
    ]
    expected = [row for minute in range(19) for row in largest(minute)]
    assert [(row["symbol"], row["volume"], round(row["vwap"], 6)) for row in rows] == expected
    assert (tmp_path / "late").is_dir()

    if (tmp_path / "metrics.parquet").exists():
        assert main(["replay", str(tmp_path / "metrics.parquet"), "--controller", "utilisation"]) in (0, 1)
    print(printed, errors, capsys.readouterr())
