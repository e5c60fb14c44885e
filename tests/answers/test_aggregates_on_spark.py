"""Aggregates of windows against Spark's own: the same values, types, names and errors, for every type and odd values."""

import decimal
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import skytide
from skytide import InvalidInput
from skytide.spark.api.stream import Windowed

NUMBER = ("count", "sum", "avg", "min", "max")
ORDERED = ("count", "min", "max")
ENDS = ("first", "last")
ROUNDED = ("sum_float", "avg_float", "sum_double", "avg_double", "avg_micros")
"""Sums of floats, and averages of integers whose sum is beyond 2^53, depend on the order in Spark."""

Values = list[str | None]
MOST, LEAST = "9223372036854775807", "-9223372036854775808"
"""What a bigint can hold."""
COLUMNS: dict[str, tuple[str, tuple[str, ...], list[Values]]] = {
    "tinyint": ("tinyint", NUMBER, [["127", "127", "-128"], ["-128", None], [None]]),
    "smallint": ("smallint", NUMBER, [["32767", "32767", "1"], ["-32768"], [None, None]]),
    "int": ("int", NUMBER, [["2147483647", "2147483647", "2147483647"], ["-2147483648", "-2147483648"], []]),
    "bigint": ("bigint", NUMBER + ENDS, [["4611686018427387904", "4611686018427387903"], ["-4611686018427387904"] * 2, [None]]),
    "beyond": ("bigint", NUMBER, [["9007199254740993"] * 3, ["9007199254740995", "-1", "-1"], ["9223372036854775807"]]),
    "overflowing": ("bigint", ("avg",), [[MOST] * 3, [LEAST, LEAST, "-1024"], [MOST, LEAST, MOST]]),
    "micros": ("bigint", NUMBER, [["1700000000000001", "1700000000000003", "1699999999999999"] * 2, [], []]),
    "float": ("float", NUMBER, [["0.1", "0.2", "NaN"], ["-0.0", "-0.0"], ["Infinity", "-1e38", "3.4e38"]]),
    "double": ("double", NUMBER + ENDS, [["NaN", "NaN"], ["0.1", "0.2", "0.3", "-Infinity"], ["NaN", "1e308", "Infinity", None]]),
    "zeros": ("double", NUMBER, [["-0.0", None], ["0.0", "1.0"], ["-0.0", "-1.0", "NaN"]]),
    "decimal_5_2": ("decimal(5,2)", NUMBER, [["999.99", "999.99", "0.01"], ["0.01", "0.02", "0.02"], ["-0.01", "-0.02", "-0.02"]]),
    "decimal_18_6": ("decimal(18,6)", NUMBER, [["0.000001", "0", "0"], ["-0.000005", "0"], [None]]),
    "decimal_19_0": ("decimal(19,0)", NUMBER, [["9" * 19, "9" * 19, "1"], ["-" + "9" * 19], [None]]),
    "decimal_20_0": ("decimal(20,0)", NUMBER, [["9" * 20, "9" * 20, "1"], ["-" + "9" * 20], [None]]),
    "decimal_28_10": ("decimal(28,10)", NUMBER, [["1.0000000001", "2", "2"], ["9" * 18, "9" * 18], [None]]),
    "decimal_34_0": ("decimal(34,0)", NUMBER, [["9" * 34, "9" * 34, "2"], ["7", "0", "0"], []]),
    "decimal_38_0": ("decimal(38,0)", NUMBER, [["3" * 34, "3" * 34, "2"], ["1", "0", "1"], [None]]),
    "decimal_38_18": (
        "decimal(38,18)",
        NUMBER + ENDS,
        [["9" * 15 + ".000000000000000001", "1", "1"], ["-0.000000000000000001", "0"], []],
    ),
    "decimal_38_37": ("decimal(38,37)", NUMBER, [["0." + "3" * 37, "0.1", "0.2"], ["0." + "0" * 36 + "1", "0"], [None]]),
    "decimal_38_38": (
        "decimal(38,38)",
        NUMBER,
        [["0." + "4" * 38, "0.2"], ["0." + "0" * 37 + "1", "0"], ["-0." + "0" * 37 + "1", "0"]],
    ),
    "string": ("string", ORDERED + ENDS, [["b", "é", "Z", ""], [None, None], ["\U0001f600", "\uffff"]]),
    "binary": ("binary", ORDERED, [["b", "é", ""], [None], ["\U0001f600", "\uffff"]]),
    "boolean": ("boolean", ORDERED + ENDS, [["true", "false", None], ["false"], [None]]),
    "date": ("date", ORDERED + ENDS, [["1582-10-01", "2026-01-01"], [None], ["9999-12-31", "0001-01-01"]]),
    "timestamp": ("timestamp", ORDERED, [["1969-12-31 23:59:59.999999", "2026-01-01"], [None], ["2262-04-12", "1600-01-01"]]),
    "ntz": ("timestamp_ntz", ORDERED + ENDS, [["1969-12-31 23:59:59.999999", "2026-01-01"], [None], ["2262-04-12", "1600-01-01"]]),
    "interval": ("interval day to second", ORDERED, [["1 02:03:04.000005", "-1 00:00:00"], [None], ["0 00:00:00.000001"]]),
    "hours": ("interval hour", ORDERED + ENDS, [["3", "-2"], [None], ["5"]]),
    "nothing": ("void", ("count",), [[None], [], []]),
    "array": ("array<int>", ("count",), [["[1]", None], ["[]"], []]),
}
MEASURES = [(f"{function}_{name}", function, name) for name, (_, functions, _) in COLUMNS.items() for function in functions]


def table_of(spark: SparkSession, columns: dict[str, tuple[str, list[Values]]]) -> DataFrame:
    """Return the values of each column by group `g`, at times a few seconds apart, which some share."""
    rows = []
    for group in range(3):
        for i in range(max(len(groups[group]) for _, groups in columns.values())):
            values = [groups[group][i] if i < len(groups[group]) else None for _, groups in columns.values()]
            rows.append((group, f"2026-01-01 00:00:{5 + 13 * (i // 2):02d}", *values))
    texts = spark.createDataFrame(rows, ", ".join(f"`{name}` string" for name in ("g", "ts", *columns)))
    special = {"void": "NULL", "array<int>": "from_json({}, 'array<int>')"}  # Spark casts no string to these
    forms = [special.get(kind, f"CAST({{}} AS {kind})").format(f"`{name}`") for name, (kind, _) in columns.items()]
    casts = [f"{form} AS `{name}`" for form, name in zip(forms, columns, strict=True)]
    return texts.selectExpr("CAST(g AS int) AS g", "CAST(ts AS timestamp) AS ts", *casts)


def windowed(df: DataFrame) -> Windowed:
    return skytide.stream(df).window("1 minute", slide="20 seconds")  # three panes per window


def spark_measure(function: str, column: str) -> str:
    """Return an aggregate in Spark's words; it has no first and last by time that leave NULL out."""
    if function in ("first", "last"):
        by = {"first": "min_by", "last": "max_by"}[function]
        return f"{by}(`{column}`, struct(ts, `{column}`)) FILTER (WHERE `{column}` IS NOT NULL)"
    return f"{function}(`{column}`)"


def spark_windows(df: DataFrame, measures: list[tuple[str, str, str]], *keys: str) -> DataFrame:
    """Compute the same as `.aggregate`, with Spark alone."""
    asked = [F.expr(f"{spark_measure(function, column)} AS `{name}`") for name, function, column in measures]
    found = df.groupBy(F.window("ts", "1 minute", "20 seconds"), *keys).agg(*asked)
    bounds = [F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")]
    return found.select(*bounds, *keys, *(name for name, _, _ in measures))


def our_windows(df: DataFrame, measures: list[tuple[str, str, str]], *keys: str) -> Any:
    return windowed(df).aggregate(*(f"{function}({column}) AS {name}" for name, function, column in measures), keys=keys)


def types(df: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, repr(field.dataType)) for field in df.schema]


def by_key(rows: list[Row]) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[:3]): row for row in rows}


def same(ours: Any, theirs: Any, rounded: bool = False) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if rounded and math.isfinite(theirs):
            return math.isclose(ours, theirs, rel_tol=1e-14)
        return repr(ours) == repr(theirs)  # tells -0.0 from 0.0, and NaN is NaN
    return type(ours) is type(theirs) and bool(ours == theirs)


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> tuple[dict[tuple[Any, ...], Row], dict[tuple[Any, ...], Row]]:
    df = table_of(spark, {name: (kind, groups) for name, (kind, _, groups) in COLUMNS.items()})
    ours, theirs = our_windows(df, MEASURES, "g"), spark_windows(df, MEASURES, "g")
    assert types(ours) == types(theirs)
    return by_key(ours.collect()), by_key(theirs.collect())


@pytest.mark.parametrize("column", COLUMNS)
def test_values_are_sparks(results: tuple[dict[tuple[Any, ...], Row], dict[tuple[Any, ...], Row]], column: str) -> None:
    ours, theirs = results
    assert set(ours) == set(theirs) and len(ours) > 6
    names = [name for name, _, of in MEASURES if of == column]
    different = {
        (key, name): (ours[key][name], theirs[key][name])
        for key in ours
        for name in names
        if not same(ours[key][name], theirs[key][name], rounded=name in ROUNDED)
    }
    assert not different


def test_a_stream_gives_the_same(spark: SparkSession, tmp_path: Path, results: Any) -> None:
    columns = {
        name: (kind, groups) for name, (kind, _, groups) in COLUMNS.items() if not kind.startswith(("void", "array", "interval"))
    }
    table_of(spark, columns).repartition(2).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema(table_of(spark, columns).schema).parquet(str(tmp_path / "in"))
    measures = [measure for measure in MEASURES if measure[2] in columns]
    out = str(tmp_path / "out")
    asked = our_windows(rows, measures, "g")
    run = asked.start("parquet", path=out, checkpoint=str(tmp_path / "checkpoint"), trigger="availableNow", flush=True)
    assert run.await_termination()
    streamed = spark.read.parquet(out)
    expected = spark_windows(table_of(spark, columns), measures, "g")
    assert dict(types(streamed.drop("batch"))) == dict(types(expected))
    ours, theirs = by_key(streamed.collect()), results[1]
    assert set(ours) == set(theirs)
    for key, row in ours.items():
        assert [name for name, _, _ in measures if not same(row[name], theirs[key][name], rounded=name in ROUNDED)] == []


KEYS = {
    "double": ("double", [["-0.0", "0.0", "NaN"], ["NaN", None, "1.5"], ["0.0", "-0.0", None]]),
    "float": ("float", [["-0.0", "0.0", "NaN"], ["NaN", None, "1.5"], ["0.0", "-0.0", None]]),
    "string": ("string", [["a", "A", ""], [None, "a", "é"], [None]]),
    "decimal": ("decimal(38,2)", [["1.00", "1", "0.01"], [None, "-1"], ["1.00"]]),
    "boolean": ("boolean", [["true", "false", None], ["true"], [None]]),
    "timestamp": ("timestamp", [["2026-01-01", "2026-01-01 00:00:00.000001", None], ["2026-01-01"], []]),
    "binary": ("binary", [["a", "A", ""], [None, "a", "é"], [None]]),
    "interval": ("interval hour", [["1", "2", None], ["1"], []]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_groups_are_sparks(spark: SparkSession, kind: str) -> None:
    df = table_of(spark, {"k": KEYS[kind]})
    measures = [("rows", "count", "ts"), ("total", "sum", "g")]
    for keys in (("k",), ("k", "g")):
        ours, theirs = our_windows(df, measures, *keys), spark_windows(df, measures, *keys)
        assert types(ours) == types(theirs)
        assert sorted(map(repr, ours.collect())) == sorted(map(repr, theirs.collect()))


def test_names_may_be_written_in_another_case(spark: SparkSession) -> None:
    df = table_of(spark, {"Price": ("int", [["1", "2"], ["3"], [None]])})
    measures = [("mean", "avg", "PRICE"), ("n", "count", "price"), ("most", "max", "pRICE")]
    ours, theirs = our_windows(df, measures, "G"), spark_windows(df, measures, "G")
    assert types(ours) == types(theirs)
    assert by_key(ours.collect()) == by_key(theirs.collect())
    assert windowed(df).aggregate("sum(PRICE)").columns == ["window_start", "window_end", "sum_PRICE"]


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield spark
    spark.conf.set("spark.sql.caseSensitive", "false")


def test_another_case_is_another_column_where_spark_says_so(case_sensitive: SparkSession) -> None:
    df = table_of(case_sensitive, {"price": ("int", [["1"], ["2"], []]), "PRICE": ("int", [["3"], ["4"], []])})
    found = windowed(df).aggregate("sum(price)", "sum(PRICE) AS loud", keys="g").collect()
    assert {(row["g"], row["sum_price"], row["loud"]) for row in found} == {(0, 1, 3), (1, 2, 4)}
    with pytest.raises(InvalidInput, match="there is no column 'Price'"):
        windowed(df).aggregate("sum(Price)")
    with pytest.raises(InvalidInput, match="there is no column 'G'"):
        windowed(df).aggregate("count(*)", keys="G")


NINES = "9" * 38
OVERFLOWS = [
    ("bigint", "sum", ["9223372036854775807", "1"]),
    ("bigint", "sum", ["-9223372036854775808", "-1"]),
    ("decimal(38,0)", "sum", [NINES, "1"]),
    ("decimal(38,0)", "sum", ["-" + NINES, "-" + NINES]),
    ("decimal(38,38)", "sum", ["0.9", "0.9"]),
    ("decimal(38,38)", "avg", ["0.9", "0.9"]),
    ("decimal(38,0)", "avg", [NINES]),
    ("decimal(38,36)", "avg", ["9"]),
]


@pytest.mark.parametrize(("kind", "function", "values"), OVERFLOWS)
def test_what_does_not_fit_is_an_error_in_both(spark: SparkSession, kind: str, function: str, values: Values) -> None:
    df = table_of(spark, {"v": (kind, [values, ["0"], [None]])}).coalesce(1)
    measures = [("x", function, "v")]
    with pytest.raises(ArithmeticException, match=r"OVERFLOW|OUT_OF_RANGE"):
        spark_windows(df, measures, "g").collect()
    with pytest.raises(
        PythonException,
        match=rf"{function}\(v\) of a window: -?[0-9.]+ overflows (bigint|decimal)\S*, .*; write try_{function}\(v\), which is NULL there",
    ):
        our_windows(df, measures, "g").collect()


def test_a_total_that_fits_is_given_though_a_part_of_it_did_not(spark: SparkSession) -> None:
    groups: list[Values] = [["9223372036854775807", "9223372036854775807", "-9223372036854775807"], [], []]
    wide: list[Values] = [[NINES, NINES, "-" + NINES], [], []]
    df = table_of(spark, {"v": ("bigint", groups), "d": ("decimal(38,0)", wide)}).coalesce(1)
    with pytest.raises(ArithmeticException, match="OVERFLOW"):
        spark_windows(df, [("x", "sum", "v")]).collect()
    [row] = skytide.stream(df).window("1 minute").aggregate("sum(v)", "sum(d)").collect()
    assert (row["sum_v"], row["sum_d"]) == (2**63 - 1, decimal.Decimal(NINES))


def test_an_average_of_integers_has_no_limit_in_both(spark: SparkSession) -> None:
    """Windows of keys are answered in another way than those of time, which are compared above."""
    groups: list[Values] = [[MOST] * 3, [LEAST, LEAST, "-1024"], ["9007199254740993"] * 3]
    df = table_of(spark, {"v": ("bigint", groups)}).coalesce(1)
    ours = skytide.stream(df).keyed("g").count_window(3).aggregate("avg(v) AS x").collect()
    theirs = df.groupBy("g").agg(F.avg("v").alias("x")).collect()
    assert {row.g: row.x for row in ours} == {row.g: row.x for row in theirs} == {0: 2.0**63, 1: -(2.0**64) / 3, 2: 2.0**53}


def test_an_overflow_ends_a_stream_and_says_why(spark: SparkSession, tmp_path: Path) -> None:
    df = table_of(spark, {"v": ("bigint", [["9223372036854775807", "1"], [], []])})
    df.write.parquet(str(tmp_path / "in"))
    asked = windowed(spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))).aggregate("sum(v)")
    run = asked.start("memory", checkpoint=str(tmp_path / "checkpoint"), trigger="availableNow", flush=True)
    with pytest.raises((InvalidInput, StreamingQueryException, PythonException), match="9223372036854775808 overflows bigint"):
        run.await_termination()


@pytest.mark.parametrize(
    ("kind", "ask", "reason"),
    [
        ("string", lambda w: w.aggregate("sum(v)"), "sum(v): string does not add up; cast the column to a number first"),
        ("date", lambda w: w.aggregate("avg(v)"), "avg(v): date32[day] does not add up"),
        ("boolean", lambda w: w.aggregate("sum(V)"), "sum(v): bool does not add up"),
        ("timestamp", lambda w: w.aggregate("avg(v)"), "does not add up"),
        ("interval day to second", lambda w: w.aggregate("sum(v)"), "does not add up"),
        ("void", lambda w: w.aggregate("sum(v)"), "null does not add up"),
        ("array<int>", lambda w: w.aggregate("min(v)"), "cannot be compared"),
        ("struct<a: int>", lambda w: w.aggregate("first(v)"), "cannot be compared"),
        ("map<int, int>", lambda w: w.aggregate("count(*)", keys="v"), "key v: rows cannot be grouped by map"),
        ("variant", lambda w: w.aggregate("count(*)", keys="v"), "key v: rows cannot be grouped by"),
        (
            "string collate utf8_lcase",
            lambda w: w.aggregate("count(*)", keys="v"),
            "v of type string collate UTF8_LCASE: strings are",
        ),
        ("string collate utf8_lcase", lambda w: w.aggregate("min(v)"), "not by a collation"),
        ("int", lambda w: w.aggregate("sum(v) AS Window_Start"), "result Window_Start: the results have a column of that name"),
        ("int", lambda w: w.aggregate("sum(v) AS x", "min(v) AS X"), "result x: named twice"),
        ("int", lambda w: w.aggregate("sum(v) AS g", keys="G"), "result g: named twice"),
        ("int", lambda w: w.aggregate("count(*)", keys="v + 1"), "there is no column 'v + 1'"),
        ("int", lambda w: w.aggregate("count(*)", keys=[F.col("v")]), "keys=a Column: not a text"),
    ],
)
def test_what_differs_from_spark_is_refused_before_any_job(
    spark: SparkSession, kind: str, ask: Callable[[Windowed], Any], reason: str
) -> None:
    df = spark.sql(f"SELECT 1 AS g, TIMESTAMP '2026-01-01' AS ts, CAST(NULL AS {kind}) AS v")
    with pytest.raises(InvalidInput) as error:
        ask(windowed(df))
    assert reason in str(error.value)
