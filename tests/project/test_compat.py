"""Only spark/compat.py knows the private parts of Spark, so that another version of Spark changes one file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "skytide"
COMPAT = PACKAGE / "spark" / "compat.py"
PRIVATE = {"_jvm", "_jsparkSession", "_jsc", "_jdf", "_jsq", "_gateway", "_active_spark_context"}
MODULES = ("pyspark.sql.pandas", "pyspark.java_gateway", "py4j")


def private_parts(text: str) -> Iterator[str]:
    """Return what a module says of Spark's private parts: attributes, also by `getattr` and `hasattr`, and imports."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(attr=name) if name in PRIVATE:
                yield name
            case ast.Call(func=ast.Name("getattr" | "hasattr"), args=[_, ast.Constant(str(name)), *_]) if name in PRIVATE:
                yield name
            case ast.ImportFrom(module=str(module)) if module.startswith(MODULES):
                yield module
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name.startswith(MODULES))


def test_no_other_module_knows_them() -> None:
    guilty = {
        str(path.relative_to(PACKAGE)): parts
        for path in PACKAGE.rglob("*.py")
        if path != COMPAT and (parts := sorted(private_parts(path.read_text())))
    }
    assert guilty == {}


def test_compat_does() -> None:
    assert {"_jvm", "_jsparkSession", "_jsc", "_jdf", "_jsq", "_gateway"} <= set(private_parts(COMPAT.read_text()))


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("spark._jvm.java.lang.Class", "_jvm"),
        ("if hasattr(df, '_jdf'): pass", "_jdf"),
        ("from pyspark.sql.pandas.types import to_arrow_type", "pyspark.sql.pandas.types"),
        ("import py4j.java_gateway", "py4j.java_gateway"),
    ],
)
def test_a_guilty_module_is_caught(line: str, part: str) -> None:
    assert list(private_parts(line)) == [part]
