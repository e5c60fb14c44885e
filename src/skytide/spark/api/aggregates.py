"""From aggregates as Spark users write them to a query: Spark's analyser resolves names, types and casts, and its tree is read here.

An expression inside an aggregate becomes a column that Spark computes first; one over aggregates is evaluated next to them
(`queries/formula.py`), so that windows share panes as always.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import _parse_datatype_json_string

from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.queries import Aggregate, Measure
from skytide.queries.aggregate import Result
from skytide.queries.arithmetic import Mode, can_cast, is_number
from skytide.queries.formula import Call, Constant, Field, Formula
from skytide.queries.functions import FUNCTIONS, SKETCHES
from skytide.queries.measure import default_name
from skytide.queries.sketches import DEFAULT_ACCURACY, Sketch
from skytide.spark.api.unparse import sql_of
from skytide.spark.arrow import HELPER, arrow_type
from skytide.spark.compat import analysed_plan, is_connect, jvm
from skytide.spark.engine.spec import BOUNDS

AGGREGATES = {name: function for function in FUNCTIONS.values() for name in function.spark}
"""Spark's classes of aggregates, and the equivalent functions here."""
SKETCHED = {name: sketch for sketch in SKETCHES.values() for name in sketch.spark}
CALLS = {
    "Add": "add",
    "Subtract": "subtract",
    "Multiply": "multiply",
    "Divide": "divide",
    "IntegralDivide": "divide_whole",
    "Remainder": "remainder",
    "UnaryMinus": "negate",
    "Abs": "abs",
    "Sqrt": "sqrt",
    "Round": "round",
    "Greatest": "greatest",
    "Least": "least",
    "EqualTo": "equal",
    "LessThan": "less",
    "GreaterThan": "greater",
    "LessThanOrEqual": "at_most",
    "GreaterThanOrEqual": "at_least",
    "And": "and",
    "Or": "or",
    "Not": "not",
    "IsNull": "is_null",
    "IsNotNull": "is_not_null",
    "Coalesce": "coalesce",
    "If": "case",
    "CaseWhen": "case",
}
"""Spark's classes of expressions that are known over aggregates."""
WITH_MODE = ("Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "Cast")
EXACT_QUANTILES = ("Percentile", "Median", "PercentileCont", "PercentileDisc")


def aggregate_of(df: DataFrame, measures: Sequence[str | Column | Measure], keys: tuple[str, ...], time: str) -> Aggregate:
    """Return the query for aggregates as written: texts, Columns, or a user's own functions."""
    if not measures:
        raise InvalidInput(value="aggregate()", reason="nothing to aggregate", remedy='name some: aggregate("count(*)")')
    asked: list[Measure | Result] = []
    hidden: list[Measure] = []
    for measure in measures:
        if isinstance(measure, Measure):
            asked.append(measure)
        elif isinstance(measure, str) and Measure.is_plain(measure):
            asked.append(Measure.parse(measure))
        elif isinstance(measure, str | Column) and (not isinstance(measure, str) or measure.strip()):
            asked.append(_Reader(df, keys, hidden, measure).read())
        else:
            raise refused(
                "measures", measure, "not an aggregate", 'give a text such as "count(*)", or a Column such as F.sum("size")'
            )
    for named in (each for each in asked if each.name.lower() in BOUNDS):
        reason, remedy = "the results have a column of that name already", 'give it another name: "min(ts) AS earliest"'
        raise InvalidInput(value=f"result {named.name}", reason=reason, remedy=remedy)
    if all(isinstance(each, Measure) for each in asked):
        return Aggregate(tuple(each for each in asked if isinstance(each, Measure)), keys, time)
    results = tuple(
        Result(each.name, Field(_hidden(each, hidden)), each.text) if isinstance(each, Measure) else each for each in asked
    )
    return Aggregate(tuple(hidden), keys, time, results=results)


def _hidden(measure: Measure, hidden: list[Measure]) -> str:
    """Return the name under which a measure is kept for the expressions over it; equal ones are kept once."""
    for known in hidden:
        if replace(measure, name=known.name) == known:
            return known.name
    hidden.append(replace(measure, name=f"{HELPER}measure{len(hidden)}"))
    return hidden[-1].name


def expression_of(answer: DataFrame, written: str | Column) -> Formula:
    """Return an expression over columns of an answer."""
    reader = _Reader(answer, tuple(answer.columns), [], written)
    plan = reader.analysed(answer.select)
    [node] = _items(plan.projectList())
    return reader.expression(node.child() if _class(node) == "Alias" else node)


class _Reader:
    """Reads an aggregate, or an expression over aggregates, from the tree of Spark's analyser."""

    def __init__(self, df: DataFrame, keys: tuple[str, ...], hidden: list[Measure], written: str | Column) -> None:
        self._df, self._keys, self._hidden, self._written = df, keys, hidden, written
        self._shown = written if isinstance(written, str) else str(written).removeprefix("Column<'").removesuffix("'>")
        self._common: dict[str, Formula] = {}

    def read(self) -> Measure | Result:
        """Return the aggregate, or the expression over aggregates."""
        plan = self.analysed(lambda column: self._df.groupBy(*map(_quoted, self._keys)).agg(column))
        node = list(_items(plan.aggregateExpressions()))[-1] if _class(plan) == "Aggregate" else None
        if node is None or _class(node) != "Alias":
            raise self._refused("not an aggregate", f"write one of {', '.join(FUNCTIONS)} of a column")
        name = None if "autoGeneratedAlias" in node.explicitMetadata().toString() else node.name()
        child = node.child()
        if _class(child) == "AggregateExpression":
            measure = self._measure(child)
            return replace(measure, name=name or self._default_name(measure))
        if name is None:
            raise self._refused("it has no name", 'give it one: "... AS vwap", or .alias("vwap")')
        expression = self.expression(child)
        if not self._has_aggregate(child):
            raise self._refused("there is no aggregate in it", f"write one of {', '.join(FUNCTIONS)} of a column")
        return Result(name, expression, node.child().sql())

    def analysed(self, select: Callable[[Column], DataFrame]) -> Any:
        """Return Spark's plan of what was written, with all names and types known."""
        try:
            found = select(F.expr(self._written) if isinstance(self._written, str) else self._written)
            if is_connect(found):
                raise self._refused("over Spark Connect only functions of one column are known", "compute the column first")
            return analysed_plan(found)
        except (AnalysisException, ParseException) as error:
            if error.getCondition() in ("MISSING_GROUP_BY", "MISSING_AGGREGATION"):
                raise self._refused("there is no aggregate in it", f"write one of {', '.join(FUNCTIONS)} of a column") from None
            if error.getCondition() == "UNRESOLVED_ROUTINE":
                raise self._refused("Spark knows no such function", f"write one of {', '.join(FUNCTIONS)} of a column") from None
            raise self._refused(str(error).strip().partition("\n")[0], f"use columns of {', '.join(self._df.columns)}") from None

    def _measure(self, node: Any) -> Measure:
        """Return an aggregate of a column, or of an expression that Spark computes first."""
        function = node.aggregateFunction()
        name = _class(function)
        condition = None if node.filter().isEmpty() else node.filter().get()
        children = list(_items(function.children()))
        if name == "CountIf":
            both = " AND ".join(self._sql(part) for part in (children[0], condition) if part is not None)
            return Measure("count", f"IF({both}, 1, NULL)", "")
        if name in EXACT_QUANTILES:
            raise self._refused(
                "exact quantiles would keep every value",
                f"write percentile_approx(x, 0.5): its rank is wrong by at most {1 / DEFAULT_ACCURACY:.2%}",
            )
        sketch = SKETCHED.get(name) or (SKETCHED.get(f"Distinct{name}") if node.isDistinct() else None)
        if sketch is not None:
            return self._sketch(sketch, children, condition)
        if name not in AGGREGATES or node.isDistinct():
            known = ", ".join((*FUNCTIONS, "count(distinct ...)", "percentile_approx"))
            raise self._refused(f"{node.sql()} is not known here", f"use {known}, or skytide.collect with a function of your own")
        aggregate, of = AGGREGATES[name], children[0]
        self._check_one(children[:1] if aggregate.by_time else children)
        if aggregate.ignores_cast and _class(of) == "Cast" and is_number(_kind(of.child())):
            of = of.child()
        if aggregate.takes_rows and _class(of) == "Literal" and of.value() is not None:
            return Measure(aggregate.name, "*" if condition is None else f"IF({self._sql(condition)}, 1, NULL)", "")
        tries = f"try_{aggregate.name}"
        is_try = tries in FUNCTIONS and function.prettyName().startswith("try_")
        return Measure(tries if is_try else aggregate.name, self._text(of, condition), "")

    def _text(self, node: Any, condition: Any) -> str:
        """Return what is inside an aggregate: the name of a column, or an expression in SQL."""
        if condition is not None:
            return f"IF({self._sql(condition)}, {self._sql(node)}, NULL)"
        if _class(node) == "Literal":
            return f"({node.sql()})"  # a word alone would be the name of a column
        return str(node.name() if _class(node) == "AttributeReference" else self._sql(node))

    def _sql(self, node: Any) -> str:
        """Return an expression of a row in SQL that means the same when it is read again."""
        text = sql_of(node, self._df)
        if text is None:
            raise self._refused(
                f"{node.sql()} cannot be written in SQL, as a Python function that is not registered",
                'compute a column first: df.withColumn("y", ...), and aggregate y',
            )
        return text

    def _sketch(self, sketch: type[Sketch], children: list[Any], condition: Any) -> Measure:
        """Return an approximate aggregate; what follows the column are constants."""
        self._check_one(children[: len(children) - sketch.arguments])
        arguments = (child.eval(None) for child in children[len(children) - sketch.arguments :])
        return Measure(sketch.name, self._text(children[0], condition), "", sketch.of_arguments(*arguments))

    def expression(self, node: Any) -> Formula:
        """Return what a node of Spark's tree means over keys and measures."""
        kind = _class(node)
        if kind == "AggregateExpression":
            return Field(_hidden(self._measure(node), self._hidden))
        if kind == "AttributeReference":
            same = [key for key in self._keys if key.lower() == node.name().lower()]
            return Field(node.name() if node.name() in same else same[0])
        if kind == "Literal":
            return self._constant(node)
        if kind == "CommonExpressionRef":
            return self._common[node.id().toString()]
        if kind == "With":
            self._common |= {each.id().toString(): self.expression(each.child()) for each in _items(node.defs())}
            return self.expression(node.child())
        if kind == "NullIfResult":
            condition, value = map(self.expression, _items(node.children()))
            return Call("case", (condition, Constant(None, _kind(node)), value), _kind(node))
        if self._is_replaceable(node):
            return self.expression(node.replacement())
        children = list(_items(node.children()))
        if kind == "Cast" and can_cast(_kind(children[0]), _kind(node)):
            return Call("cast", (self.expression(children[0]),), _kind(node), _mode(node))
        if kind not in CALLS:
            raise self._refused(f"{node.sql()} is not known over aggregates", "compute it from the results, or inside an aggregate")
        return Call(CALLS[kind], tuple(map(self.expression, children)), _kind(node), _mode(node))

    def _constant(self, node: Any) -> Constant:
        value = node.value()
        return Constant(value if value is None or isinstance(value, int | float | bool) else value.toString(), _kind(node))

    def _is_replaceable(self, node: Any) -> bool:
        classes = jvm(self._df.sparkSession).java.lang.Class
        return bool(classes.forName("org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable").isInstance(node))

    def _has_aggregate(self, node: Any) -> bool:
        return _class(node) == "AggregateExpression" or any(map(self._has_aggregate, _items(node.children())))

    def _default_name(self, measure: Measure) -> str:
        if measure.column != "*" and measure.column not in self._df.columns:
            raise self._refused("it has no name", f'give it one: "{self._shown} AS x", or .alias("x")')
        return default_name(measure.function, measure.column)

    def _check_one(self, children: list[Any]) -> None:
        if len(children) > 1:
            raise self._refused("several columns at once", "aggregate one, or an expression such as concat(a, b)")

    def _refused(self, reason: str, remedy: str) -> InvalidInput:
        return InvalidInput(value=repr(self._shown), reason=reason, remedy=remedy)


def _class(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(place) for place in range(sequence.length()))


def _kind(node: Any) -> pa.DataType:
    return arrow_type(_parse_datatype_json_string(node.dataType().json()))


def _mode(node: Any) -> Mode:
    if _class(node) in WITH_MODE:
        mode: Mode = node.evalMode().toString()
        return mode
    fails = {"UnaryMinus": "failOnError", "Abs": "failOnError", "Round": "ansiEnabled"}.get(_class(node))
    return "ANSI" if fails is None or getattr(node, fails)() else "LEGACY"


def _quoted(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")
