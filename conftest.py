import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from pyspark.sql import SparkSession
from support.classes import java_options

from skytide.spark.session.local import local_session

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())

hypothesis.settings.register_profile("skytide", derandomize=True, deadline=None, max_examples=40)
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("skytide"), max_examples=12)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "skytide"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)  # the quick files last: so two processes end at about the same time


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    roots = [
        Path(__file__).parent / "tests",
        Path(__file__).parent / "lab" / "tests",
    ]  # workers import the queries that tests bring along
    folders = [
        *roots,
        *(folder for root in roots for folder in root.iterdir() if folder.is_dir()),
        os.environ.get("PYTHONPATH", ""),
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, map(str, folders)))
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
