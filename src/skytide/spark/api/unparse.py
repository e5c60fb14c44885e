"""From a node of Spark's tree back to SQL that means the same; Spark's own `sql()` cannot be read again for lambdas and EXTRACT."""

from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skytide.spark.compat import analysed_plan, jvm, scala_list

_PIECE = "__skytide_piece{}_"


def sql_of(node: Any, df: DataFrame) -> str | None:
    """Return an expression over the rows of a DataFrame in SQL, or None if there is none, as for a Python function without a registered name."""
    classes = {str(each.getClass().getSimpleName()) for each in _nodes(node)}
    functions = classes & {"PythonUDF", "ScalaUDF"}
    plain = not functions and not classes & {"LambdaFunction", "Extract"}
    text = str(node.sql()) if plain else _Unparser(df).text(node)
    try:
        again = analysed_plan(df.select(F.expr(text).alias("again"))).projectList().apply(0).child()
    except (AnalysisException, ParseException):
        return None
    # A function may have the name of another one, which would be called instead.
    return text if plain or again.semanticEquals(node) else None


class _Unparser:
    """Writes an expression in pieces: what Spark writes badly is written here, and stands in the rest as a column of a name to be replaced."""

    def __init__(self, df: DataFrame) -> None:
        self._spark, self._java = df.sparkSession, jvm(df.sparkSession)
        self._columns = {name.lower() for name in df.columns}
        self._pieces: list[str] = []
        self._variables: dict[str, str] = {}

    def text(self, node: Any) -> str:
        """Return a node in SQL."""
        node_class = str(node.getClass().getSimpleName())
        children = list(_items(node.children()))
        if node_class == "NamedLambdaVariable":
            return self._variable(node)
        if node_class == "LambdaFunction":
            names = [self._variable(argument) for argument in _items(node.arguments())]
            body = self.text(node.function())
            head = names[0] if len(names) == 1 else f"({', '.join(names)})"  # Spark reads no brackets around one name
            return f"{head} -> {body}" if names else body
        if node_class == "Extract":
            return f"date_part({self.text(node.field())}, {self.text(node.source())})"
        if not children:
            return str(node.sql())
        before = len(self._pieces)
        stand_ins = [self._stand_in(child) for child in children]
        text = str(node.withNewChildren(scala_list(self._spark, stand_ins)).sql())
        for number in reversed(range(before, len(self._pieces))):
            text = text.replace(_PIECE.format(number), self._pieces[number])
        del self._pieces[before:]
        return text

    def _stand_in(self, child: Any) -> Any:
        """Return a child itself, or a column in its place if something below it is written here."""
        special = ("NamedLambdaVariable", "LambdaFunction", "Extract")
        if not any(str(each.getClass().getSimpleName()) in special for each in _nodes(child)):
            return child
        text = self.text(child)
        self._pieces.append(text)
        types = self._java.org.apache.spark.sql.types
        field = types.StructField(_PIECE.format(len(self._pieces) - 1), child.dataType(), True, types.Metadata.empty())
        return self._java.org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttribute(field)

    def _variable(self, node: Any) -> str:
        """Return the name of a lambda's variable: by its place, as Spark counts those of Columns anew in each session."""
        identity = node.exprId().toString()
        if identity not in self._variables:
            number = len(self._variables) + 1
            while f"x{number}" in self._columns | set(self._variables.values()):
                number += 1
            self._variables[identity] = f"x{number}"
        return self._variables[identity]


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(place) for place in range(sequence.length()))


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _items(node.children()):
        yield from _nodes(child)
