"""Expressions over aggregates without ANSI mode, against Spark's own, over odd values: integers wrap around, floats become the nearest, the rest is NULL."""

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide

WHOLE = ("tinyint", "smallint", "int", "bigint")
# No decimals of more than 34 digits: Spark itself fails where it negates or rounds them.
SOURCES = {
    "d": (
        "double",
        [
            "NaN",
            "Infinity",
            "-Infinity",
            "-0.0",
            "0.9",
            "-0.9",
            "127.5",
            "-129",
            "300",
            "32768.9",
            "-40000",
            "3e9",
            "-3e9",
            "2147483647.5",
            "-2147483648.5",
            "9007199254740993",
            "9.3e18",
            "-9.3e18",
            "1e40",
            "4.9e-324",
            None,
        ],
    ),
    "f": ("float", ["NaN", "Infinity", "-Infinity", "-0.0", "128", "65536.5", "3e9", "-3e9", "2147483647", "1e20", "-1e38", None]),
    "l": ("bigint", ["9223372036854775807", "-9223372036854775808", "4294967296", "2147483648", "-129", "32768", "0", "-1", None]),
    "i": ("int", ["2147483647", "-2147483648", "65535", "128", "0", "-1", None]),
    "s": ("smallint", ["32767", "-32768", "255", "0", None]),
    "b": ("tinyint", ["127", "-128", "0", "-1", None]),
    "cents": ("decimal(12,2)", ["9999999999.99", "-9999999999.99", "127.99", "-128.99", "0.005", "999.99", "0", None]),
    "huge": ("decimal(38,0)", ["9" * 34, "-" + "9" * 34, "18446744073709551617", "-9223372036854775809", "1", "0", None]),
}
TARGETS = (*WHOLE, "float", "double", "decimal(5,2)", "decimal(38,30)")
CALLS = [
    *(f"max({x}) {sign} min({y})" for x, y in ("dl", "ff", "ll", "li", "ii", "ss", "bb", "bi") for sign in ("+", "-", "*", "/", "%", "div")
      if not (sign == "div" and {x, y} & {"d", "f"})),
    *(f"max({x}) {sign} {y}" for x in ("d", "l", "cents", "huge") for sign in ("/", "%") for y in ("0", "-1", "7")),
    *(f"max({x}) {sign} max({y})" for x, y in (("huge", "huge"), ("huge", "cents"), ("cents", "cents")) for sign in "+-*/%"),
    *(f"max({x}) div {y}" for x in ("l", "i", "b", "cents", "huge") for y in ("0", "-1", "-1L", "0.01BD")),
    *(f"{function}(max({x}))" for x in SOURCES for function in ("-", "abs")),
    *(f"round(max({x}), {digits})" for x in SOURCES for digits in (-1, -2, -10, 0, 1)),
    "CAST(sum(d) AS int)",
    "CAST(sum(i) AS tinyint)",
    "CAST(count(*) * 4294967297 AS int)",
    "CAST(CAST(max(d) AS int) AS tinyint) + 1",
    "try_divide(max(l), 0)",
    "try_add(max(l), 1)",
    "try_multiply(max(huge), 10)",
]  # fmt: skip
ASKED = [*(f"CAST(max({x}) AS {kind})" for x in SOURCES for kind in TARGETS), *CALLS]


@pytest.fixture
def lenient(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", str(before))


@pytest.fixture
def odd_rows(lenient: SparkSession) -> DataFrame:
    """One row per odd value; each is a key of its own, so that its aggregates are the values."""
    rows = [
        (str(place), *(values[place % len(values)] for _, values in SOURCES.values()))
        for place in range(max(len(values) for _, values in SOURCES.values()))
    ]
    texts = lenient.createDataFrame(rows, ", ".join(f"{name} string" for name in ("place", *SOURCES)))
    casts = (f"CAST({name} AS {kind}) AS {name}" for name, (kind, _) in SOURCES.items())
    return texts.selectExpr("place", "TIMESTAMP '2026-01-01' AS ts", *casts).coalesce(1)


def test_expressions_over_aggregates_are_sparks(odd_rows: DataFrame) -> None:
    named = [f"{text} AS v{number}" for number, text in enumerate(ASKED)]
    ours = skytide.stream(odd_rows).window("1 minute").aggregate(*named, keys="place")
    theirs = odd_rows.groupBy("place").agg(*map(F.expr, named))
    assert [(field.name, field.dataType) for field in ours.schema][3:] == [(f.name, f.dataType) for f in theirs.schema][1:]
    expected = {row["place"]: row for row in theirs.collect()}
    found = {row["place"]: row for row in ours.collect()}
    assert set(found) == set(expected)
    different = {
        (text, place): (found[place][f"v{number}"], row[f"v{number}"])
        for number, text in enumerate(ASKED)
        for place, row in expected.items()
        if repr(found[place][f"v{number}"]) != repr(row[f"v{number}"])  # tells -0.0 from 0.0, and NaN is NaN
    }
    assert different == {}
