"""Law: whatever people can import says what it does, what each of its parameters means, and shows an example where that needs no Spark."""

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.public import public_names

PUBLIC = {name: value for name, value in public_names().items() if getattr(value, "__module__", "").startswith("skytide")}
"""All but aliases of types, which have no docstring of their own."""
MADE_HERE = {
    name: value
    for name, value in PUBLIC.items()
    if not name.startswith("skytide.typing.")
    and name.rpartition(".")[2]
    not in ("BrokenLaw", "CheckpointIdentity", "ContinuousQuery", "Fleet", "InProcess", "Outputs", "Run", "Scaler", "Staged")
}
"""What people call or make themselves; the others are handed to them."""
SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)


def documented(value: Any) -> set[str]:
    """Return the parameters that a docstring explains, those of the classes above included."""
    texts = (
        [text for each in value.__mro__ for text in (each.__doc__, each.__init__.__doc__)]
        if inspect.isclass(value)
        else [value.__doc__]
    )
    found: set[str] = set()
    for text in filter(None, texts):
        for _, section in SECTION.findall(inspect.cleandoc(text)):
            found |= {name.strip() for line in re.findall(r"^(\w[\w, ]*)$", section, re.MULTILINE) for name in line.split(",")}
    return found


def explained_fields(kind: type) -> Iterator[str]:
    """Yield the fields of a class, and of those above it, that have a text below them."""
    for each in kind.__mro__:
        if each.__module__.startswith("skytide"):
            [tree] = ast.parse(inspect.cleandoc("\n" + inspect.getsource(each))).body
            assert isinstance(tree, ast.ClassDef)
            for field, text in zip(tree.body, tree.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text(text):
                    yield field.target.id


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def parameters_of(value: Any) -> set[str]:
    """Return what has to be explained: not what an object is made of if people never make one."""
    if inspect.isclass(value) and (inspect.isabstract(value) or (issubclass(value, Exception) and "__init__" not in vars(value))):
        return set()
    return {name for name in inspect.signature(value).parameters if name not in ("self", "args", "kwargs", "df")}


def unexplained(value: Any) -> set[str]:
    explained = documented(value) | (set(explained_fields(value)) if inspect.isclass(value) else set())
    return parameters_of(value) - explained


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring(name: str) -> None:
    text = PUBLIC[name].__doc__ or ""
    assert text.strip() and not text.startswith(f"{PUBLIC[name].__name__}("), "none, or only the one of a dataclass"


@pytest.mark.parametrize("name", MADE_HERE)
def test_every_parameter_is_explained(name: str) -> None:
    assert unexplained(MADE_HERE[name]) == set()


@pytest.mark.parametrize("name", [name for name, value in MADE_HERE.items() if not value.__module__.startswith("skytide.spark")])
def test_what_needs_no_spark_has_an_example(name: str) -> None:
    assert ">>>" in MADE_HERE[name].__doc__


def test_the_law_finds_what_is_missing() -> None:
    def guilty(rows: int, other: int) -> None:
        """Do something.

        Parameters
        ----------
        rows
            How many.
        """

    assert unexplained(guilty) == {"other"}
