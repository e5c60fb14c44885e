"""Types and schemas between Spark and Arrow, and tasks over batches of Arrow."""

import re
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from skytide.queries.aggregate import ORIGIN
from skytide.spark.compat import from_arrow, to_arrow

HELPER = "__skytide_"
"""How names of columns begin that are ours."""
Batches = Iterator[pa.RecordBatch]


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema; types that Arrow lacks appear as null."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def arrow_type(spark_type: DataType) -> pa.DataType:
    """Return the Arrow type, or null if there is none."""
    try:
        return to_arrow(spark_type)
    except Exception:
        return pa.null()


def spark_schema(rows: StructType, columns: pa.Schema) -> StructType:
    """Return the Spark schema of some Arrow columns: fields of the rows as they are, and others by their Arrow type."""
    own = {(field.name, arrow_type(field.dataType)): field for field in rows.fields}

    def found(column: pa.Field) -> StructField:
        origin = (column.metadata or {}).get(ORIGIN, column.name.encode()).decode()
        field = own.get((origin, column.type))
        if field is None or field.name == column.name:
            return field or StructField(column.name, from_arrow(column.type))
        return StructField(column.name, field.dataType)

    return StructType([found(column) for column in columns])


def bounded(rows: StructType, time: str) -> StructType:
    """Return the schema with the bounds of a window, which have the type of a tuple's time."""
    time_type = rows[time].dataType
    return StructType([StructField("window_start", time_type), StructField("window_end", time_type), *rows.fields])


def map_in_arrow(df: DataFrame, work: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
    """Return `df.mapInArrow(work, schema)`, for columns of any name: PySpark reads `a.b` as the field b of a column a."""
    plain, names = plainly_named(df), df.columns
    if plain is df:
        return df.mapInArrow(work, schema)
    return plain.mapInArrow(lambda batches: work(batch.rename_columns(names) for batch in batches), schema)


def plainly_named(df: DataFrame) -> DataFrame:
    """Return a DataFrame whose columns have plain names, in the same order: itself, if they are plain already."""
    if all(re.fullmatch(r"\w+", name) for name in df.columns):
        return df
    return df.toDF(*(f"{HELPER}column{number}" for number in range(len(df.columns))))
