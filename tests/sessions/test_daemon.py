"""The daemon that forks Spark's Python workers: which pyspark it loads, and what it has ready."""

import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from skytide.spark.daemon import IMPORTED, prefer_installed

SHIPPED = next(Path(pyspark.__file__).parent.glob("python/lib/pyspark.zip"))


def archive(folder: Path, text: str, name: str = "pyspark/version.py") -> str:
    """Write an archive of pyspark with one file."""
    with zipfile.ZipFile(folder / "pyspark.zip", "w") as files:
        files.writestr(name, text)
    return str(folder / "pyspark.zip")


def test_the_archive_of_the_installed_version_is_left_out() -> None:
    assert prefer_installed([str(SHIPPED), "/elsewhere"]) == ["/elsewhere"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("__version__: str = '9.9.9'", "pyspark/version.py"),
        ("no version", "pyspark/version.py"),
        (f"__version__ = '{version('pyspark')}'", "other.py"),
    ],
)
def test_any_other_archive_stays(tmp_path: Path, text: str, name: str) -> None:
    path = [archive(tmp_path, text, name), "/elsewhere"]
    assert prefer_installed(path) == path


def test_an_archive_that_cannot_be_read_stays(tmp_path: Path) -> None:
    (tmp_path / "pyspark.zip").write_text("no archive")
    path = [str(tmp_path / "pyspark.zip"), str(tmp_path / "missing" / "pyspark.zip")]
    assert prefer_installed(path) == path


def test_the_daemon_chooses_before_pyspark_is_loaded() -> None:
    code = "import sys, skytide.spark.daemon; print('pyspark' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


@pytest.mark.parametrize("module", IMPORTED)
def test_tasks_find_what_is_named_here(module: str) -> None:
    __import__(module)


def test_tasks_use_the_installed_pyspark(spark: SparkSession) -> None:
    [loaded] = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.modules["pyspark"].__file__).collect()
    assert loaded == pyspark.__file__
    assert ".zip" not in loaded
