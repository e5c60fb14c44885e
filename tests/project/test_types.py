"""A program that uses every public name passes the strictest type check, one that misuses them does not, and no signature says Any."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.public import public_names

USAGE = Path(__file__).with_name("usage.py")
ROOT = Path(__file__).resolve().parents[2]
OPAQUE = ("resume", "snapshot", "to_json", "from_json", "KeyedOperator.open", "KeyedOperator.process")
"""Snapshots and profiles as JSON, which are read by whoever made them; keys and states of a user's operator, which are of any type."""


MISUSE = (
    "import skytide\nfrom pyspark.sql import DataFrame\n"
    "def use(df: DataFrame) -> None:\n"
    "    skytide.skyband(df, 3, skytide.low('price'))\n"
    "    skytide.skyline(df, 5)\n"
    "    skytide.stream(df, streaming=False).window('1 s').skyline(skytide.low('x')).start('memory', checkpoint='x')\n"
    "    skytide.stream(df).window('1 s').skyline(skytide.low('x')).collect()\n"
    "    skytide.stream(df).window(5)\n"
    "    skytide.no_such_name\n"
)


def test_a_program_uses_every_public_name() -> None:
    text = USAGE.read_text()
    missing = [name for name in public_names() if name not in text and name not in ("skytide.diff", "skytide.high", "skytide.low")]
    assert [name for name in missing if not name.startswith(("skytide.queries.", "skytide.testing."))] == []


@pytest.mark.slow
def test_this_program_passes_and_one_that_misuses_them_does_not(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(MISUSE)
    settings = ["--strict", "--no-error-summary", "--config-file", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "mypy", *settings, str(USAGE), str(wrong)]
    complaints = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    assert [line for line in complaints.splitlines() if "wrong.py:" not in line] == []
    assert [line for line in range(4, 10) if f"wrong.py:{line}: error" not in complaints] == [], complaints


def signatures() -> Iterator[tuple[str, Callable[..., object]]]:
    """Every public function, and every public method of a public class."""
    for path, public in public_names().items():
        if path.startswith("skytide.testing."):
            continue  # tests may write rows in any way
        name = path.rpartition(".")[2]
        if inspect.isclass(public) and public.__module__.startswith("skytide"):
            for method, found in vars(public).items():
                function = getattr(found, "__func__", found)
                if inspect.isfunction(function) and (not method.startswith("_") or method == "__init__"):
                    yield f"{name}.{method}", function
        elif inspect.isfunction(public):
            yield name, public


def says_any(function: Callable[..., object]) -> list[str]:
    found = inspect.signature(function)
    annotations = {each.name: each.annotation for each in found.parameters.values()} | {"->": found.return_annotation}
    arrays = ("ndarray[tuple[typing.Any, ...]", "Stream[Any]", "Keyed[typing.Any]", "KeyedWindowed[typing.Any]", "Mergeable[Any]")
    return [name for name, kind in annotations.items() if "Any" in _without(str(kind), arrays) and name not in OPAQUE]


def _without(text: str, known: tuple[str, ...]) -> str:
    """Leave out the shapes of arrays, and what overloads say more exactly."""
    for each in known:
        text = text.replace(each, "")
    return text


def test_no_public_signature_says_any() -> None:
    found = {
        name: annotations
        for name, function in signatures()
        if (annotations := says_any(function)) and not {name, name.rpartition(".")[2]} & {*OPAQUE}
    }
    assert found == {}


def test_the_check_finds_one_that_does() -> None:
    from typing import Any

    def guilty(sink: Any) -> None: ...

    assert says_any(guilty) == ["sink"]


def test_what_signatures_name_is_exported() -> None:
    named = [
        found
        for name, function in signatures()
        if not name.endswith("__init__")
        for found in OURS.findall(str(inspect.signature(function)))
    ]
    public = {path.rpartition(".")[2] for path in public_names()}
    assert {name for name in named if name not in public} <= INSIDE


OURS = re.compile(r"\bskytide(?:\.\w+)*\.(\w+)")
INSIDE = {
    *("ControllerLogic", "SlackLogic", "Judge", "MpcOptions", "ColumnLike", "Groups"),  # of those who write controllers and slacks
    *(
        "Chooser",
        "Delivery",
        "Files",
        "FleetReader",
        "LiveQuery",
        "PanePlan",
        "Plant",
        "Slots",
        "StateStore",
        "Watched",
        "Store",
        "FrequencyAware",
        "PidLogic",
    ),  # of the engine
    *("Identity", "OwnedFolder", "QuerySpec", "CheckpointIdentity", "OnSpark", "Staged", "Stages"),
}
