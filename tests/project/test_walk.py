"""The walks in docs/architecture.md lead through functions that exist, in the order in which a tuple really passes them."""

import re
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from skytide.queries import Skyline, high, low
from skytide.sinks import Parquet
from skytide.slacks import FixedSlack
from skytide.testing import Runner

ROOT = Path(__file__).parents[2]
STEP = re.compile(r"^ .*?\b([\w/]+\.py) +([\w.]+)", re.MULTILINE)
ON_SPARK = {("spark/api/launch.py", "launch"), ("spark/engine/jobs.py", "SparkJobs.panes")}
"""Steps that need a session; here the runner of tests takes their place."""


def walk(of: str) -> list[tuple[str, str]]:
    """Return the files and functions of a walk."""
    text = (ROOT / "docs" / "architecture.md").read_text().partition(f"### The walk of one {of}")[2]
    return [(path, name) for path, name in STEP.findall(text.split("```")[1])]


def passed(tmp_path: Path) -> list[tuple[str, str]]:
    """Return the functions of skytide that run while a batch comes in that ends a window, in the order in which each was first called."""
    package, calls = f"{ROOT}/src/skytide/", dict[tuple[str, str], None]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            calls[frame.f_code.co_filename.removeprefix(package), frame.f_code.co_qualname] = None

    query, sink = Skyline(low("a") * high("b")), Parquet(tmp_path / "out")
    with Runner(query, window="1 s", slack=FixedSlack(0), sink=sink) as runner:
        runner.feed([{"ts": 0.1, "a": 1, "b": 2.0}])
        sys.setprofile(note)
        try:
            out = runner.feed([{"ts": 0.2 + number / 10, "a": number, "b": 2.0} for number in range(12)])
        finally:
            sys.setprofile(None)
    assert out.results["a"].to_pylist() == [0]
    return list(calls)


def test_a_tuple_passes_what_the_page_says(tmp_path: Path) -> None:
    steps, calls = [step for step in walk("tuple") if step not in ON_SPARK], passed(tmp_path)
    assert [step for step in steps if step not in calls] == []
    assert steps == sorted(steps, key=calls.index)


def test_the_page_counts_right() -> None:
    steps = walk("tuple")
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert f"{len(steps)} functions in {len({path for path, _ in steps})} files" in text
    assert f"{len(walk('metric')) - 1} functions" in text


def test_each_step_exists() -> None:
    for path, name in {*walk("tuple"), *walk("metric")}:
        value: Any = import_module(f"skytide.{path.removesuffix('.py').replace('/', '.')}")
        for part in name.split("."):
            value = getattr(value, part)
