"""A real browser for the tests of pages: Debian's Chromium, or any that is found."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
REMEDY = "install Chromium (`apt-get install chromium`) to run the tests of pages"


@contextmanager
def browser() -> Iterator[Any]:
    """Open a browser without a window; skip the test if there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: {REMEDY}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield opened
        finally:
            opened.close()
