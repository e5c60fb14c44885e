import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from skytide.cli import main
from skytide_lab.data.hotels import CITIES, hotels


def test_the_table_does_not_depend_on_partitions(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    once = hotels(spark, 500).orderBy("name").toArrow()
    monkeypatch.setattr(SparkContext, "defaultParallelism", 7)
    cut_otherwise = hotels(spark, 500)
    assert cut_otherwise.rdd.getNumPartitions() == 7
    assert once.equals(cut_otherwise.orderBy("name").toArrow())
    assert not once.equals(hotels(spark, 500, seed=1).orderBy("name").toArrow())


def test_the_table_is_plausible(spark: SparkSession) -> None:
    table = hotels(spark, 5000)
    assert table.columns == ["name", "city", "price", "distance_km", "stars", "rating"]
    assert {row.city for row in table.select("city").distinct().collect()} == set(CITIES)
    assert table.where("stars BETWEEN 1 AND 5 AND price > 0 AND distance_km > 0 AND rating BETWEEN 0 AND 10").count() == 5000


def test_the_command_says_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    output = capsys.readouterr().out
    assert "hotels" in output and "run" in output


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "hotels" / "part-0.parquet"
    mine.parent.mkdir()
    mine.write_text("years of work")
    assert main(["hotels", "--out", str(tmp_path)]) == 1
    assert f"{mine} is not from an earlier run, and would be lost; move it away" in capsys.readouterr().err
    assert mine.read_text() == "years of work"


@pytest.mark.long
def test_the_command_writes_a_table_and_a_picture(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("skytide"), "hotels", "--out", "results"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    winners = pq.read_table(tmp_path / "results" / "hotels")
    assert f"{winners.num_rows:,} of 100,000 hotels" in done.stdout
    assert done.stdout.endswith("Table:   results/hotels\nPicture: results/hotels.png\n")
    assert done.stderr == ""
    assert (tmp_path / "results" / "hotels.png").read_bytes().startswith(b"\x89PNG")
