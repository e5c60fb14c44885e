"""The examples of the README and the docs run as they stand, in order, in one session."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "least"), [("README.md", 3), ("docs/fleet.md", 1), ("docs/keyed.md", 4), ("docs/streaming.md", 3)]
)
def test_the_examples_run(spark: SparkSession, page: str, least: int) -> None:
    examples = blocks((ROOT / page).read_text(), "python")
    assert len(examples) >= least
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, page, "exec"), names)


def test_the_commands_of_the_readme_are_targets() -> None:
    commands = re.findall(r"\bmake (\w[\w-]*)", (ROOT / "README.md").read_text())
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"run", "test"} <= set(commands) <= set(targets)


def test_every_link_of_the_docs_leads_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
