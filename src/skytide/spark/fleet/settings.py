"""What a fleet is, as it travels to the source by its options."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from skytide.errors import InvalidInput
from skytide.errors.checks import is_whole, kind_of, one_of, refused, words
from skytide.spark.binding import arrow_schema
from skytide.spark.fleet.feeds import Feed
from skytide.spark.fleet.feeds.arrow_streams import ArrowFolder
from skytide.spark.fleet.feeds.lines import CsvFolder, JsonFolder
from skytide.spark.fleet.formats import check_readable
from skytide.windows import duration_us

STREAM = "stream"
FOLDERS = {kind.extension: kind for kind in (JsonFolder, CsvFolder, ArrowFolder)}
STARTS = ("earliest", "latest")
YES_OR_NO = {"true": True, "false": False}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the streams are, what they hold, and how they are let in."""

    place: str
    schema: str
    format: str = "jsonl"
    header: bool = False
    starting: str = "earliest"
    splits: int | None = None
    interval_us: int = 1_000_000
    latency_us: int = 5_000_000
    invalid: str | None = None
    board: str | None = None
    notes: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no fleet can be."""
        words("place", self.place, "/data/feeds")
        words("schema", self.schema, "ts timestamp, x double")
        one_of("starting", self.starting, STARTS)
        one_of("format", self.format, FOLDERS)
        if self.header and self.format != CsvFolder.extension:
            raise refused("header", self.header, f"files of format {self.format!r} have none", "leave it out, or read CSV")
        if self.splits is not None and not is_whole(self.splits, 1, 100_000):
            raise refused("splits", self.splits, "out of range", "give the most tasks of a batch, from 1 to 100000")

    def feed(self, columns: StructType) -> Feed:
        """Return the place of the streams, which have these columns; the last is the stream's name, which is not read."""
        schema = pa.schema(list(arrow_schema(columns))[:-1])
        check_readable(schema)
        path = os.path.abspath(self.place.removeprefix("file://"))
        if self.format == CsvFolder.extension:
            return CsvFolder(path, schema, header=self.header)
        return FOLDERS[self.format](path, schema)

    def options(self) -> dict[str, str]:
        """Return the options that tell the source all this.

        >>> Settings(place="/data/feeds", schema="ts timestamp, x double", splits=4).options()
        {'path': '/data/feeds', 'schema': 'ts timestamp, x double', 'format': 'jsonl', 'splits': '4'}
        """
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        named = {"path": given.pop("place"), "schema": given.pop("schema"), "format": given.pop("format")}
        for f in fields(self):
            if f.name in given and given[f.name] != f.default:
                named |= dict([_option(f.name, given[f.name])])
        return named

    @staticmethod
    def from_options(options: Mapping[str, str]) -> "Settings":
        """Read the options of the source.

        >>> Settings.from_options({"path": "/data/feeds", "schema": "x double", "speed": "3"})
        Traceback (most recent call last):
        ...
        skytide.errors.InvalidInput: option='speed': not known; choose one of path, schema, format, ...
        """
        known = {"path": "place"} | {_option(f.name, "")[0]: f.name for f in fields(Settings) if f.name != "place"}
        values: dict[str, Any] = {}
        for option, text in options.items():
            one_of("option", option, known)
            values[known[option]] = _value(option, text)
        for name in ("place", "schema"):
            if name not in values:
                missing = "path" if name == "place" else name
                raise InvalidInput(
                    value=f"a fleet without {missing}", reason="it says what to read", remedy=f'give .option("{missing}", ...)'
                )
        return Settings(**values)

    def with_(self, **values: Any) -> "Settings":
        """Return the same with other values."""
        return replace(self, **values)


def _option(name: str, value: Any) -> tuple[str, str]:
    """Return a setting as an option is named and written."""
    if name.endswith("_us"):
        return name.removesuffix("_us"), f"{value} us"
    return name, str(value).lower() if isinstance(value, bool) else str(value)


def _value(option: str, text: str) -> Any:
    if option in ("interval", "latency"):
        return duration_us(text, option)
    if option == "splits":
        if not text.isdecimal():
            raise refused(option, text, "not a whole number", "write digits only")
        return int(text)
    if option == "header":
        one_of(option, text.lower(), YES_OR_NO)
        return YES_OR_NO[text.lower()]
    return text


def schema_text(schema: str | StructType) -> str:
    """Return the columns of the streams as Spark's DDL writes them, and the stream's name after them."""
    kind_of(
        "schema",
        schema,
        (str, StructType),
        reason="no columns",
        remedy='write them as "ts timestamp, x double", or as a StructType',
    )
    text = schema if isinstance(schema, str) else ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in schema.fields)
    words("schema", text, "ts timestamp, x double")
    return text
