import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from pyspark.sql import SparkSession
from support.classes import java_options
from support.examples import PROFILES

from skytide.spark.session.local import local_session

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())

MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30 and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
    tempfile.tempdir = str(MEMORY)  # they write and force thousands of small files; that a disk gets them is tested for itself

for name, count in PROFILES.items():
    hypothesis.settings.register_profile(name, derandomize=True, deadline=None, max_examples=count)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "all"))
collect_ignore_glob = ["tests/*/conftest.py"]  # as modules with doctests, all of them would have the same name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("long"):
            item.add_marker("slow")
    long, slow = ({item.path for item in items if item.get_closest_marker(name)} for name in ("long", "slow"))
    # The quick files last: so two processes end at about the same time.
    items.sort(key=lambda item: (item.path not in long, item.path not in slow))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session whose workers import the queries that tests bring along."""
    roots = [Path(__file__).parent / folder for folder in ("tests", "lab/tests")]
    folders = [*roots, *(folder for root in roots for folder in root.iterdir() if folder.is_dir())]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (*map(str, folders), os.environ.get("PYTHONPATH"))))
    session = local_session("skytide tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real data: $SKYTIDE_DATA, or shared/data next to the repository."""
    beside = Path(__file__).resolve().parents[1] / "shared" / "data"
    folder = Path(os.environ.get("SKYTIDE_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not a folder; set SKYTIDE_DATA to one that holds it")
    return folder
