"""`skytide submit`: scripts run as they are, with an auto-scaler on each of their queries."""

import argparse
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import skytide
from skytide.cli import main
from skytide.cli.endpoint import endpoint, with_endpoint
from skytide.spark.scaling.attach import each_query

DEADLINE_S = 240
JOB = """
import sys
import skytide
from skytide.spark.session.local import local_session

def same(batches):
    yield from batches

def ignore(rows, number):
    rows.count()

if __name__ == "__main__":
    spark = local_session("a job")
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    first = rows.mapInArrow(same, rows.schema).writeStream.foreachBatch(ignore).queryName("first").trigger(processingTime="500 milliseconds").start()
    second = rows.writeStream.option("checkpointLocation", sys.argv[1] + "/check").trigger(processingTime="1 second").toTable("kept")
    asked = skytide.stream(skytide.workload(rate=100, dimensions=1)).window("1 s").skyline(skytide.low("x0"))
    third = asked.start(ignore, checkpoint=sys.argv[1] + "/sky", name="third", trigger="500 ms")
    while not (first.lastProgress and third.status().batch > 2):
        first.awaitTermination(0.2)
    first.awaitTermination(4)
    for each in (first, second, third):
        each.stop()
    spark.stop()
    print("done", sys.argv[1:], __name__)
    sys.exit(7)
"""

PLAIN_JOB = """
from skytide.spark.session.local import local_session

spark = local_session("a job")
query = spark.readStream.format("rate").load().writeStream.format("noop").trigger(availableNow=True).start()
query.awaitTermination()
print("done")
"""


def submit(tmp_path: Path, *options: str, arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    (tmp_path / "job.py").write_text(JOB)
    return subprocess.run(
        [str(Path(sys.executable).with_name("skytide")), "submit", *options, str(tmp_path / "job.py"), *arguments],
        check=False, capture_output=True, text=True, timeout=DEADLINE_S, cwd=tmp_path, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip


@pytest.mark.slow
def test_every_query_of_a_script_gets_an_auto_scaler_and_its_status_is_kept(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ran = submit(
        tmp_path, "--controller", "utilisation", "--executors", "1:4", "--interval", "1 s", "--mode", "recommend", "--store", "kept",
        "--metrics", str(port), "--serve",
        arguments=(str(tmp_path), "--controller"),
    )  # fmt: skip
    assert ran.returncode == 7, ran.stderr
    assert "done" in ran.stdout and "'--controller'] __main__" in ran.stdout
    lines = [line for line in ran.stderr.splitlines() if line.startswith("skytide: ")]
    assert sum("watching query" in line for line in lines) == 3
    assert any(line.startswith("skytide: first: ") and "1 to 4 workers" in line for line in lines)
    assert any(line.startswith("skytide: third: ") and "1 to 4 slots" in line for line in lines)
    assert sum("live page: http://127.0.0.1:" in line for line in lines) == 1
    assert lines.count(f"skytide: metrics: http://127.0.0.1:{port}/metrics") == 1
    assert {"first.json", "third.json"} <= {file.name for file in (tmp_path / "kept").iterdir()}


def test_what_cannot_be_scaled_is_told_and_runs_all_the_same(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.py").write_text(PLAIN_JOB)
    assert main(["submit", "--interval", "1 s", str(tmp_path / "job.py")]) == 0
    printed = capsys.readouterr()
    assert printed.out == "done\n"
    assert printed.err.count("not scaled: master local[2]: in local mode Spark has no executors") == 1


@pytest.mark.parametrize(
    ("script", "status", "message"),
    [
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit('no more')", 1, "no more"),
        ("raise ValueError('a bug')", 1, "ValueError: a bug"),
        ("print('fine')", 0, ""),
    ],
)
def test_the_status_is_that_of_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, status: int, message: str
) -> None:
    (tmp_path / "job.py").write_text(script)
    before = sys.argv, list(sys.path)
    assert main(["submit", str(tmp_path / "job.py")]) == status
    assert message in capsys.readouterr().err
    assert (sys.argv, sys.path) == before


def test_bad_options_are_refused_before_the_script_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.py").write_text("raise SystemExit(9)")
    assert main(["submit", "--controller", "clever", str(tmp_path / "job.py")]) == 1
    assert "controller 'clever'" in capsys.readouterr().err
    assert main(["submit", str(tmp_path / "nowhere.py")]) == 1
    assert "there is no such file" in capsys.readouterr().err
    assert main(["submit", "--interval", "soon", str(tmp_path / "job.py")]) == 1
    assert "--interval soon: not a length of time" in capsys.readouterr().err
    assert main(["submit", "--executors", "5:2", str(tmp_path / "job.py")]) == 1
    assert "--executors 5:2" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["submit", "--executors", "many", str(tmp_path / "job.py")])
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"skytide {skytide.__version__}\n"


def test_the_place_of_a_page_is_optional() -> None:
    assert with_endpoint(["--serve", "4100", "job.py"]) == ["--serve", "4100", "job.py"]
    assert with_endpoint(["--serve", "job.py", "--serve"]) == ["--serve=", "job.py", "--serve"]
    assert with_endpoint(["--mode", "act", "--serve"]) == ["--mode", "act", "--serve="]
    assert with_endpoint(["job.py", "--serve"]) == ["job.py", "--serve"]
    for wrong in ("host:port", "70000", "1.2.3.4:99999", "a b:1"):
        with pytest.raises(argparse.ArgumentTypeError):
            endpoint(wrong)


def test_afterwards_queries_start_as_ever() -> None:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    before = DataStreamWriter.start
    with each_query(lambda query: None):
        assert DataStreamWriter.start is not before
    assert DataStreamWriter.start is before
