"""The Arrow counterparts of Spark's types."""

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from skytide.spark.compat import to_arrow


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema; types that Arrow lacks appear as null."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type, or null if there is none."""
    try:
        return to_arrow(kind)
    except Exception:
        return pa.null()
