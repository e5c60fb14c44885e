"""What the README and the docs name is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_commands_of_the_readme_are_targets() -> None:
    commands = re.findall(r"\bmake (\w[\w-]*)", (ROOT / "README.md").read_text())
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"run", "test"} <= set(commands) <= set(targets)


def test_every_link_of_the_docs_leads_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
