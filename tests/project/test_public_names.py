"""What can be imported from where: the tables of names agree with each other, with type checkers and with the registries."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import skytide
from skytide import MOVED, NAMESPACES, control, lateness, queries
from skytide.queries.functions import SKETCHES
from skytide.spark.sinks.registry import CLASSES


def for_type_checkers() -> dict[str, str]:
    """Return the names that a type checker finds in `skytide`, and their modules."""
    [block] = [
        node
        for node in ast.parse(Path(skytide.__file__).read_text()).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {name.name: str(node.module).removeprefix("skytide").removeprefix(".") for node in imports for name in node.names}


def test_the_tables_of_names_agree() -> None:
    expected = skytide._HOME | dict.fromkeys(NAMESPACES, "")  # type: ignore[attr-defined]
    assert for_type_checkers() == expected
    assert sorted(skytide.__all__) == sorted(set(expected) - {*NAMESPACES})
    assert not {*skytide.__all__} & {*MOVED} and {*NAMESPACES, *skytide.__all__} <= {*dir(skytide)}


def test_most_programs_need_few_names() -> None:
    assert len(skytide.__all__) <= 30


@pytest.mark.parametrize("name", MOVED)
def test_a_name_that_has_moved_says_where_it_is(name: str) -> None:
    module, _, current = f"skytide.{MOVED[name]}".rpartition(".")
    with pytest.warns(DeprecationWarning, match=rf"skytide\.{name} has moved: write skytide\.{MOVED[name]}$"):
        found = getattr(skytide, name)
    assert found is getattr(import_module(module), current)
    assert current in import_module(module).__all__


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_everything_in_a_namespace_is_there(namespace: str) -> None:
    module = import_module(f"skytide.{namespace}")
    assert getattr(skytide, namespace) is module
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(module.__all__) == len(set(module.__all__))


def test_namespaces_have_what_the_registries_have() -> None:
    controllers, slacks = import_module("skytide.controllers"), import_module("skytide.slacks")
    assert {type(make()) for make in control.CONTROLLERS.values()} == classes_of(controllers, control.Controller)
    assert {*lateness.SLACKS} == classes_of(slacks, lateness.Slack)
    assert {kind.__name__ for kind in (*queries.QUERIES.values(), *SKETCHES.values())} <= {*queries.__all__}
    assert {*queries.PREFERENCES} <= {*queries.__all__}


def classes_of(module: object, base: type) -> set[type]:
    found = {getattr(module, name) for name in getattr(module, "__all__", ())}
    return {each for each in found if inspect.isclass(each) and issubclass(each, base) and each is not base}


def test_type_checkers_find_what_namespaces_have() -> None:
    assert {*import_module("skytide.controllers").__all__} <= {*control.__all__}
    assert {*import_module("skytide.slacks").__all__} <= {*import_module("skytide.lateness.slack").__all__}


def test_every_query_is_a_method_and_every_method_a_query() -> None:
    methods = {name for name, _ in inspect.getmembers(queries.Queryable, inspect.isfunction) if not name.startswith("_")}
    assert methods == {*queries.QUERIES, "apply"}


def test_every_sink_of_the_table_is_in_the_namespace() -> None:
    assert {sink.__name__ for sink in CLASSES} <= {*skytide.sinks.__all__}
    assert all(getattr(skytide.sinks, sink.__name__) is sink for sink in CLASSES)
