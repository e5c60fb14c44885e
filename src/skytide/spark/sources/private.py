"""Sources with values that must not be options, as Spark prints options with its plans."""

import hashlib
import secrets
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

_KEY = secrets.token_bytes(16)  # a name must not help to guess what it stands for


def register_private(spark: SparkSession, source: type[DataSource], **held: Any) -> str:
    """Register a copy of a source whose class holds some values, and return the name of its format.

    Spark keeps the pickled class in memory, and prints only its name. The same values have the same name, so that what is started again
    and again takes no more room.
    """
    data = cloudpickle.dumps(held)  # type: ignore[no-untyped-call]
    name = f"{source.name()}-{hashlib.blake2b(data, digest_size=8, key=_KEY).hexdigest()}"
    holder = type(source.__name__, (source,), {**held, "name": classmethod(lambda cls: name)})
    spark.dataSource.register(holder)
    return name
