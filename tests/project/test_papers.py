"""Every label of a paper or of a requirement in code and docs resolves to docs/papers.md."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text()
CODE = [file for folder in ("src", "lab", "tests") for file in (ROOT / folder).rglob("*.py")]
FILES = [*CODE, *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
SECTION = re.compile(r"(P[0-4]) (?:§|sections? )([0-9IV]+(?:\.[0-9]+)*)")


def cited(pattern: "re.Pattern[str]") -> set[tuple[str, ...]]:
    return {found.groups() for file in FILES if file.name != "papers.md" for found in pattern.finditer(file.read_text())}


def sections() -> dict[str, str]:
    """Return the sections that the page lists for each paper."""
    rows = [line.split("|") for line in PAGE.splitlines() if re.match(r"\| P[0-4] \|", line)]
    return {paper: " ".join(row[2] for row in rows if row[1].strip() == paper) for paper in ("P0", "P1", "P2", "P3", "P4")}


def listed(paper: str, section: str) -> bool:
    """Return whether a section is listed, or within a listed range."""
    known = sections()[paper]
    whole = re.findall(r"§([0-9IV.]+?)(?=[\s,)]|$)", known)
    ranges = re.findall(r"§(\d+)\.(\d+) to §\1\.(\d+)", known)
    between = any(section.startswith(f"{a}.") and int(b) <= int(section.split(".")[1]) <= int(c) for a, b, c in ranges)
    parent = any(each.startswith(section + ".") for each in whole)
    return section in whole or between or parent


def test_requirements_are_explained() -> None:
    wanted = {label for (label,) in cited(re.compile(r"SPEC ((?:[A-Z]\d+))"))}
    assert len(wanted) > 10
    assert not [label for label in sorted(wanted) if f"`{label}`" not in PAGE and not label.startswith("X")]


def test_sections_are_listed() -> None:
    missing = [f"{paper} §{section}" for paper, section in sorted(cited(SECTION)) if not listed(paper, section)]
    assert not missing


@pytest.mark.parametrize(("paper", "section"), [("P0", "9.9"), ("P3", "4.3.9"), ("P4", "IX")])
def test_a_section_that_nobody_lists_is_caught(paper: str, section: str) -> None:
    assert not listed(paper, section)
