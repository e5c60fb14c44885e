"""Sends tuples to slots inside the JVM: the slot of each is looked up in the plan of the driver by an expression of Spark."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, TimestampNTZType

from skytide.routing import Owners
from skytide.spark.engine.panes import PARTITION, SLOT
from skytide.windows import Windows

UNHASHED = ("variant", "geometry", "geography", "interval")
"""The beginnings of the names of simple types that Spark does not hash, or not everywhere."""


def with_slots(batch: DataFrame, owners: Owners, time: str, windows: Windows) -> DataFrame:
    """Return tuples with their slots, and with the partitions that they are in.

    The slot follows from the content of a tuple, as in `Owners.slots_of`, but by Spark's own hash of it. The table is a literal: Spark
    compiles the same code for every batch, whatever is planned.
    """
    cells = ",".join(str(slot) for row in owners.rows for slot in row)
    table = F.split(F.lit(cells), ",").cast("array<int>")
    row = F.pmod(_pane(batch, time, windows), F.lit(len(owners.rows)).cast("bigint"))
    grain = F.pmod(F.xxhash64(*_hashed(batch)), F.lit(owners.grains).cast("bigint"))
    place = F.coalesce(row * F.lit(owners.grains) + grain, F.lit(0)).cast("int")  # without a time, a tuple belongs to no pane
    slot = F.coalesce(F.get(table, place), F.lit(0))
    return batch.withColumns({SLOT: slot, PARTITION: F.spark_partition_id()})


def _hashed(batch: DataFrame) -> list[Column]:
    """Return the columns of simple types: a time is among them."""
    simple = [
        field.name
        for field in batch.schema.fields
        if isinstance(field.dataType, AtomicType) and not field.dataType.simpleString().startswith(UNHASHED)
    ]
    return [_column(name) for name in simple]


def _pane(batch: DataFrame, time: str, windows: Windows) -> Column:
    """Return the pane of each tuple, as `Windows.pane_of`."""
    column = _column(time)
    if isinstance(batch.schema[time].dataType, TimestampNTZType):
        time_us = F.timestamp_diff("MICROSECOND", F.lit("1970-01-01").cast("timestamp_ntz"), column)
    else:
        time_us = F.unix_micros(column)
    length = F.lit(windows.slide_us).cast("bigint")
    within = F.pmod(time_us, length)
    slide = F.call_function("div", time_us - within, length)
    if windows.panes_per_slide == 1:
        return slide
    return slide * 2 + (within >= F.lit(windows.first_pane_us)).cast("bigint")


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")
