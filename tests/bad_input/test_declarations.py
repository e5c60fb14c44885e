"""What is declared in one place is the same everywhere: queries as functions, methods and SQL; limits; names in messages."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import skytide
from skytide.errors import InvalidInput, limits
from skytide.queries import QUERIES, Query, Queryable, high, low
from skytide.spark.api.sql import built

PACKAGE = Path(skytide.__file__).parent
CHECKS = {
    **dict.fromkeys(
        (
            "refused",
            "check_text",
            "check_integer",
            "check_number",
            "check_choice",
            "check_type",
            "check_bool",
            "check_count",
            "check_slots",
        ),
        0,
    ),
    **dict.fromkeys(("duration_us", "duration_s"), 1),
}
"""Functions that write errors, and which of their arguments is the name of a parameter."""
ENTRIES = {"characteristic", "option", "field", "group_by"}
"""Names of entries of a text or a dict, and of a method that takes any number of values, which are no parameters."""


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_has_the_same_arguments_everywhere(name: str) -> None:
    declared = list(inspect.signature(getattr(Queryable, name)).parameters.values())[1:]
    function = inspect.signature(getattr(skytide, name))
    assert list(function.parameters.values())[1:] == declared and next(iter(function.parameters)) == "df"
    about_rows = "df\n    The rows: a DataFrame that does not stream.\n"
    assert getattr(skytide, name).__doc__.replace(about_rows, "") == inspect.cleandoc(getattr(Queryable, name).__doc__)
    for kind in (skytide.typing.Windowed, skytide.typing.KeyedWindowed, skytide.ContinuousQuery, skytide.typing.AggregatedFrame):
        assert getattr(kind, name) is getattr(Queryable, name)


def test_arguments_of_a_start_are_the_same_one_by_one_and_as_objects() -> None:
    start = inspect.signature(skytide.ContinuousQuery.start).parameters
    for group in (skytide.Sides, skytide.Parallelism):
        given = inspect.signature(group).parameters
        assert all(str(start[name].annotation) == str(given[name].annotation) for name in given) and set(given) < set(start)
    table = inspect.signature(skytide.ContinuousQuery.to_table).parameters
    assert all(str(table[name]) == str(start[name]) for name in set(table) & set(start) - {"self"})


@pytest.mark.parametrize("old", ["AggregatedKeys", "AggregatedQuery", "KeyedQuery"])
def test_queries_of_all_kinds_are_one_class(old: str) -> None:
    with pytest.warns(DeprecationWarning, match="ContinuousQuery"):
        assert getattr(skytide, old) is skytide.ContinuousQuery


class Built(Queryable[Query]):
    def apply(self, query: Query) -> Query:
        return query


def test_sql_follows_from_the_declaration() -> None:
    both = low("price") * high("stars")
    text = "price MIN, stars MAX"
    assert built("skyline", [text, True], {}) == Built().skyline(both, distinct=True)
    assert built("skyband", [text, 3], {"nulls": "drop"}) == Built().skyband(both, k=3, nulls="drop")
    assert built("levels", [text], {"up_to": 2}) == Built().levels(both, up_to=2)
    assert built("k_dominant", [text], {"k": 2}) == Built().k_dominant(both, k=2)
    assert built("top_delta", [text, 5, "worst"], {}) == Built().top_delta(both, delta=5, nulls="worst")
    assert built("top_k", ["stars MAX", 4], {}) == Built().top_k(4, by=high("stars"))
    with pytest.raises(InvalidInput, match=r"missing a required argument: 'k'; give TABLE\(...\), preferences, k, nulls"):
        built("skyband", [text], {})


def trees() -> Iterator[tuple[Path, ast.Module]]:
    return ((path, ast.parse(path.read_text())) for path in sorted(PACKAGE.rglob("*.py")))


def parameters_of(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found |= {
                each.arg for each in (*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs, node.args.vararg) if each
            }
        elif isinstance(node, ast.ClassDef):
            found |= {each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}
    return found


def named(tree: ast.Module) -> set[str]:
    """Return the names of parameters in the errors of a module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            at = CHECKS.get(function)
            of_ours = at is not None and any(
                isinstance(each, ast.Name) and each.id.isupper() for each in node.args[:at]
            )  # a constant
            if at is not None and not of_ours and len(node.args) > at and isinstance(node.args[at], ast.Constant):
                found |= set(str(ast.literal_eval(node.args[at])).split(", "))
    return {name for name in found if re.fullmatch(r"[a-z_]+", name)}


def test_messages_name_parameters_that_exist() -> None:
    """Those of the module that checks, or of the public function that passes a value on; in the command line, its options."""
    public: set[str] = set()
    for name in ("autoscale", "stream", "skyline", "skyband", "workload", "fleet"):
        public |= set(inspect.signature(getattr(skytide, name)).parameters)
    public |= set(inspect.signature(skytide.ContinuousQuery.start).parameters) | {"preferences"}
    options = set(re.findall(r"--([a-z]+)", (PACKAGE / "cli" / "main.py").read_text()))
    wrong = {}
    for path, tree in trees():
        known = parameters_of(tree) | public | ENTRIES | (options if path.parent.name == "cli" else set())
        if named(tree) - known:
            wrong[str(path)] = named(tree) - known
    assert wrong == {}


def test_the_check_finds_a_name_that_is_none() -> None:
    guilty = ast.parse("def sliding(length): duration_us(length, 'window_length')")
    assert named(guilty) - parameters_of(guilty) == {"window_length"}


def test_limits_are_in_one_place() -> None:
    """Every named limit of a count is in `errors.limits`."""
    elsewhere = []
    for path, tree in trees():
        own = {t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("check_integer", "positive_us"):
                elsewhere += [f"{path}: {each.id}" for each in node.args[2:] if isinstance(each, ast.Name) and each.id in own]
    assert elsewhere == []
    assert all(value > 0 for name, value in vars(limits).items() if name.startswith("MAX_"))
