"""The Arrow counterparts of Spark's types."""

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema; types that Arrow lacks appear as null."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type, or null if there is none."""
    try:
        return to_arrow_type(kind, timezone="UTC")
    except Exception:
        return pa.null()
