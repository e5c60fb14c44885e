"""The reference page has every public name: it is written from the namespaces and registries, by `python tests/project/test_reference.py`."""

import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # if it is run as a program

from support.public import public_names

from skytide.control import CONTROLLERS
from skytide.queries import PREFERENCES, QUERIES, Queryable
from skytide.queries.functions import FUNCTIONS, SKETCHES

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
INTRODUCTION = """# Reference

Made from the docstrings and from the tables of what there is: nothing is missing. A name without a place is imported from `skytide`."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Preferences": (
        *(f"skytide.{name}" for name in PREFERENCES),
        "skytide.queries.Preference",
        "skytide.queries.Expression",
        "skytide.queries.Nulls",
    ),
    "Queries": ("Queryable", *(f"skytide.{name}" for name in QUERIES), "skytide.apply", "skytide.register", "skytide.Query"),
    "Queries as objects": tuple(f"skytide.queries.{query.__name__}" for query in QUERIES.values()),
    "Aggregates": (
        *("skytide.queries.Measure", "skytide.Mergeable", "skytide.collect"),
        *(f"skytide.queries.{sketch.__name__}" for sketch in SKETCHES.values()),
    ),
    "Streams": (
        *(
            "skytide.stream",
            "skytide.typing.Stream",
            "skytide.typing.Windowed",
            "skytide.typing.Grouped",
            "skytide.typing.Keyed",
            "skytide.typing.KeyedWindowed",
        ),
        *(
            "skytide.KeyedOperator",
            "skytide.typing.AggregatedFrame",
            "skytide.ContinuousQuery",
            "skytide.Sides",
            "skytide.Parallelism",
            "skytide.Run",
            "skytide.typing.Status",
        ),
        *("skytide.typing.WindowRow", "skytide.typing.RoutingTable", "skytide.typing.Splitting", "skytide.typing.Duration"),
        *("skytide.workload", "skytide.typing.WorkloadStream"),
    ),
    "Late tuples": ("skytide.slacks.*",),
    "Sinks": ("skytide.sinks.*", "skytide.typing.SinkFunction", "skytide.typing.SideSink"),
    "Auto-scaling": (
        *(
            "skytide.autoscale",
            "skytide.Scaler",
            "skytide.typing.ScalerStatus",
            "skytide.typing.ScalingEvent",
            "skytide.typing.History",
        ),
        *("skytide.typing.Cycle", "skytide.Guard"),
    ),
    "Controllers": ("skytide.controllers.*",),
    "Fleets": ("skytide.fleet", "skytide.Fleet", "skytide.Profile", "skytide.typing.FleetStatus", "skytide.typing.SplitStatus"),
    "Errors": ("skytide.InvalidInput", "skytide.SkytideError"),
    "A local Spark": ("skytide.spark.local_session",),
    "Tests": ("skytide.testing.*",),
    "Watching": ("skytide.watch.server.Page", "skytide.watch.exporter.Exporter"),
}
"""What is on the page, in this order; `*` is whatever a namespace has."""
MEMBERS = {"ContinuousQuery": "start, to_table", "Page": "url, is_up, stop", "Exporter": "url, is_up, stop"}
NAMESPACES = {"Late tuples": "slacks", "Sinks": "sinks", "Tests": "testing"}
DEFINED = {
    "Queryable": f"{Queryable.__module__}.{Queryable.__qualname__}",
    "skytide.queries.Expression": "skytide.queries.preferences.Expression",
    "skytide.queries.Nulls": "skytide.queries.columns.Nulls",
    "skytide.typing.Duration": "skytide.windows.duration.Duration",
    "skytide.typing.SideSink": "skytide.spark.sinks.base.SideSink",
    "skytide.typing.SinkFunction": "skytide.spark.sinks.base.SinkFunction",
    "skytide.spark.local_session": "skytide.spark.session.local.local_session",
}
"""Where something is defined that does not know it itself."""


def names_of(section: str) -> Iterator[str]:
    """Yield the names of a section."""
    for pattern in SECTIONS[section]:
        matching = [name for name in public_names() if fnmatch(name, pattern)]
        yield from matching if "*" in pattern else [pattern]


def entry(name: str, values: dict[str, Any]) -> str:
    """Return what makes mkdocstrings write the documentation of a name."""
    value = values.get(name)
    defined = DEFINED.get(name) or (name if value is None else f"{value.__module__}.{value.__qualname__}")
    members = MEMBERS.get(name.rpartition(".")[2])
    return f"::: {defined}" + (f"\n    options:\n      members: [{members}]" if members else "")


def before(section: str) -> list[str]:
    """Return what stands at the beginning of a section."""
    if section == "Queries":
        listed = ", ".join(f"`{name}`" for name in QUERIES)
        return [f"The functions {listed} take a DataFrame first, and then the arguments of the methods here."]
    if section == "Aggregates":
        rows = [f"| `{name}` | {', '.join(function.spark)} |" for name, function in {**FUNCTIONS, **SKETCHES}.items()]
        return ["\n".join(["| function | what Spark's analyser calls it |", "|---|---|", *rows])]
    if section == "Controllers":
        rows = [f"| `{type(make()).__name__}` | `{name}` |" for name, make in CONTROLLERS.items()]
        return ["\n".join(["| in `skytide.controllers` | on a command line |", "|---|---|", *rows])]
    return [f"In `skytide.{NAMESPACES[section]}`."] if section in NAMESPACES else []


def page() -> str:
    """Return the page."""
    values = public_names()
    parts = [INTRODUCTION]
    for section in SECTIONS:
        names = [name for name in names_of(section) if name.removeprefix("skytide.") not in QUERIES]
        parts += [f"## {section}", *before(section), "\n".join(dict.fromkeys(entry(name, values) for name in names))]
    return "\n\n".join(parts) + "\n"


def test_the_page_is_what_the_registries_have() -> None:
    assert PAGE.read_text() == page(), f"run: python {Path(__file__).relative_to(Path.cwd())}"


def test_every_public_name_is_on_the_page_once() -> None:
    listed = [name for section in SECTIONS for name in names_of(section)]
    assert sorted(set(public_names()) - set(listed)) == []
    assert len(listed) == len(set(listed))


def test_what_a_name_stands_for_is_where_the_page_says() -> None:
    for path in DEFINED.values():
        module, _, last = path.rpartition(".")
        assert hasattr(import_module(module), last), path


if __name__ == "__main__":
    PAGE.write_text(page())
