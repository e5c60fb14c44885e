"""The engine's tests write thousands of small files; where they can, into memory: forcing them to a disk is tested elsewhere."""

import os
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def folders_in_memory() -> Iterator[None]:
    before = tempfile.tempdir
    if os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = "/dev/shm"
    yield
    tempfile.tempdir = before


@pytest.fixture
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Date all manifests the same, so that only the latest ones are kept."""
    monkeypatch.setattr("skytide.spark.checkpoint.store.now_us", lambda: 1_700_000_000_000_000)
