"""A table in Spark's catalog: batches are appended."""

from collections.abc import Mapping

from pyspark.sql import DataFrameWriter

from skytide.errors.checks import check_text
from skytide.spark.sinks.format import Format


class Table(Format):
    """Appends batches to a table of Spark's catalog, which is created if it does not exist."""

    def __init__(self, table: str, format: str | None = None, options: Mapping[str, str] | None = None) -> None:
        """Append to a table.

        Parameters
        ----------
        table
            Its name, perhaps with a catalog and a database in front of it.
        format
            The format of the table if it has to be created.
        options
            Options of the writer; they appear in no plan and no message.
        """
        check_text("table", table, "best_hotels")
        super().__init__("table" if format is None else format, None, options)
        self._table, self._format = table, format

    def describe(self) -> str:
        """Return the name of the table."""
        return f"table {self._table}"

    def _save(self, writer: DataFrameWriter) -> None:
        writer.saveAsTable(self._table)
