"""The documentation: every example runs, the site builds without a complaint and fetches nothing, the notebook runs from top to bottom."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FIRST = {"start"}
DEADLINE_S = 300


def blocks(page: Path) -> list[str]:
    """Return the examples of a page."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name, marks=() if page.stem in FIRST else pytest.mark.long) for page in PAGES if blocks(page)],
)
def test_the_examples_run(spark: SparkSession, page: Path) -> None:
    """In order, as they stand, each page for itself."""
    names: dict[str, Any] = {}
    for example in blocks(page):
        exec(compile(example, page.name, "exec"), names)


def test_most_tasks_have_an_example() -> None:
    with_examples = {page.stem for page in PAGES if blocks(page)}
    assert {
        "README",
        "start",
        "skyline",
        "streaming",
        "late",
        "sinks",
        "scaling",
        "fleet",
        "keyed",
        "operating",
        "testing",
    } <= with_examples


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page.name for page in PAGES[1:] if page.name not in navigation] == []


@pytest.mark.long
def test_the_site_builds_without_a_complaint_and_fetches_nothing(tmp_path: Path) -> None:
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    for folder in ("docs", "src", "lab/src"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    built = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list((tmp_path / "out" / "site").glob("*.html"))
    assert {page.stem for page in PAGES[1:]} <= {page.stem for page in pages}
    fetched = [
        found
        for page in pages
        for found in re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', page.read_text())
    ]
    assert fetched == []
    assert "autoscale" in (tmp_path / "out" / "site" / "reference.html").read_text()


@pytest.mark.long
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(ROOT / "docs" / "tour.ipynb", as_version=4)
    before = os.environ.get("JUPYTER_DATA_DIR")
    os.environ["JUPYTER_DATA_DIR"] = str(tmp_path)
    try:
        nbclient.NotebookClient(notebook, timeout=DEADLINE_S, resources={"metadata": {"path": tmp_path}}).execute()
    finally:
        os.environ.pop("JUPYTER_DATA_DIR") if before is None else os.environ.update(JUPYTER_DATA_DIR=before)
