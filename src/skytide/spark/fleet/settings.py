"""The settings of a fleet, which the source gets as its options."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from skytide.admission import STRATEGIES
from skytide.errors import InvalidInput
from skytide.errors.checks import check_choice, check_number, check_text, check_type, given_if, is_integer, read_number, refused
from skytide.errors.limits import MAX_SLOTS
from skytide.records.secret import Address, Secret
from skytide.spark.arrow import arrow_schema
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import real_uri
from skytide.spark.fleet.feeds import Feed
from skytide.spark.fleet.feeds.arrow_streams import ArrowFolder
from skytide.spark.fleet.feeds.kafka import Kafka
from skytide.spark.fleet.feeds.lines import CsvFolder, JsonFolder
from skytide.spark.fleet.feeds.redis import Redis
from skytide.spark.fleet.formats import check_readable
from skytide.windows import duration_us

FOLDER, REDIS, KAFKA = "a folder", "Redis", "Kafka"
SCHEMES = {"file": FOLDER, "redis": REDIS, "rediss": REDIS, "kafka": KAFKA}
FOLDERS = {folder.extension: folder for folder in (JsonFolder, CsvFolder, ArrowFolder)}
FORMATS = {FOLDER: tuple(FOLDERS), REDIS: tuple(Redis.parsers), KAFKA: tuple(Kafka.parsers)}
"""The formats of each system that streams may be in; the first is the default."""
STARTS = ("earliest", "latest")
YES_OR_NO = {"true": True, "false": False}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the streams are, what they hold, and how they are let in."""

    place: str
    schema: str
    format: str | None = None
    streams: str | None = None
    topics: str | None = None
    header: bool = False
    starting: str = "earliest"
    splits: int | None = None
    interval_us: int = 1_000_000
    latency_us: int = 5_000_000
    strategy: str = "drfm"
    capacity_hz: float | None = None
    hold_us: int | None = None
    invalid: str | None = None
    channel: str | None = None
    notes: str | None = None
    password: Secret | None = None
    """Of the server; it is no part of the place, and Spark prints options."""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        check_text("place", self.place, "/data/feeds")
        address = Address.of(self.place)
        if address.password is not None:
            raise refused("place", address.plain, "a password in it would be printed", 'give .option("password", ...) instead')
        check_text("schema", self.schema, "ts timestamp, x double")
        check_choice("starting", self.starting, STARTS)
        self._check_system()
        self._check_invalid()
        check_choice("strategy", self.strategy, STRATEGIES)
        if self.capacity_hz is not None:
            check_number("capacity_hz", self.capacity_hz, above=0, meaning="tuples per second that a split takes, more than 0")
        if self.splits is not None and not is_integer(self.splits, 1, MAX_SLOTS):
            raise refused(
                "splits", self.splits, "out of range", f"give the maximum number of tasks of a batch, from 1 to {MAX_SLOTS}"
            )

    def _check_invalid(self) -> None:
        """Refuse a folder for broken records whose files would be streams."""
        if self.invalid is not None and self.system == FOLDER:
            ours, streams = (real_uri(Files(folder).uri) for folder in (self.invalid, self.place))
            if ours == streams:
                raise refused("invalid", self.invalid, "the streams are in this folder", "choose another folder")

    def _check_system(self) -> None:
        """Refuse settings that belong to another system."""
        system = self.system
        for name, of in (("streams", REDIS), ("topics", KAFKA)):
            given_if(system == of, name, getattr(self, name), because=f"a fleet in {system}")
        if self.password is not None and system != REDIS:
            raise refused("place", self.place, f"{system} is read without a password", "leave the password out")
        if self.format is not None:
            check_choice("format", self.format, FORMATS[system])
        if self.header and self.format != CsvFolder.extension:
            raise refused("header", self.header, "only CSV files have one", 'leave it out, or read a folder with format="csv"')

    @property
    def system(self) -> str:
        """The system that the streams are in."""
        scheme, separator, _ = self.place.partition("://")
        system = SCHEMES.get(scheme) if separator else FOLDER
        if system is None:
            schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise refused("place", self.place, "not a supported system", f"name a folder, or a server with {schemes}")
        return system

    def feed(self, columns: StructType) -> Feed:
        """Return the feed of the streams, which have these columns; the last, the stream's name, is not read."""
        schema = pa.schema(list(arrow_schema(columns))[:-1])
        check_readable(schema)
        format = self.format or FORMATS[self.system][0]
        if self.system == REDIS:
            return Redis(self.place, str(self.streams), schema, format, self.password)
        if self.system == KAFKA:
            return Kafka(self.place.removeprefix("kafka://").rstrip("/"), str(self.topics), schema, format)
        path = os.path.abspath(self.place.removeprefix("file://"))
        return CsvFolder(path, schema, header=self.header) if format == "csv" else FOLDERS[format](path, schema)

    def options(self) -> dict[str, str]:
        """Return the settings as options of the source, except the password: Spark prints options.

        >>> Settings(place="/data/feeds", schema="ts timestamp, x double", splits=4).options()
        {'path': '/data/feeds', 'schema': 'ts timestamp, x double', 'splits': '4'}
        """
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        given.pop("password", None)
        return {"path": given.pop("place")} | dict(_option(name, value) for name, value in given.items())

    @staticmethod
    def from_options(options: Mapping[str, str]) -> "Settings":
        """Return the settings from the options of the source.

        >>> Settings.from_options({"path": "/data/feeds", "schema": "x double", "speed": "3"})
        Traceback (most recent call last):
        ...
        skytide.errors.InvalidInput: option='speed': not known; choose one of path, schema, format, ...
        """
        names = {"path": "place"} | {_option(f.name, "")[0]: f.name for f in fields(Settings) if f.name != "place"}
        values: dict[str, Any] = {}
        for option, text in options.items():
            check_choice("option", option, names)
            values[names[option]] = _value(option, text)
        for name in ("place", "schema"):
            if name not in values:
                missing = "path" if name == "place" else name
                raise InvalidInput(
                    value=f"a fleet without {missing}",
                    reason="nothing else says what to read",
                    remedy=f'give .option("{missing}", ...)',
                )
        return Settings(**values)


def _option(name: str, value: Any) -> tuple[str, str]:
    """Return the name and the text of a setting as an option."""
    if name.endswith("_us"):
        return name.removesuffix("_us"), f"{value} us"
    return name, str(value).lower() if isinstance(value, bool) else str(value)


def _value(option: str, text: str) -> Any:
    if option in ("interval", "latency", "hold"):
        return duration_us(text, option)
    if option == "password":
        return Secret(text)
    if option == "capacity_hz":
        return read_number(option, text)
    if option == "splits":
        if not text.isdecimal():
            raise refused(option, text, "not a whole number", "write digits only")
        return int(text)
    if option == "header":
        check_choice(option, text.lower(), YES_OR_NO)
        return YES_OR_NO[text.lower()]
    return text


def schema_text(schema: str | StructType) -> str:
    """Return the columns of the streams as Spark's DDL writes them."""
    check_type(
        "schema",
        schema,
        (str, StructType),
        reason="not columns",
        remedy='write them as "ts timestamp, x double", or as a StructType',
    )
    text = schema if isinstance(schema, str) else ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in schema.fields)
    check_text("schema", text, "ts timestamp, x double")
    return text
