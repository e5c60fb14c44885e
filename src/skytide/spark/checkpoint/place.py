"""Where a checkpoint is: one place for Spark's notes and ours. If not all of Spark, this process and all hosts can reach it, it is refused."""

import os
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from skytide.errors import InvalidInput
from skytide.records.secret import HIDDEN
from skytide.spark.checkpoint.files import Files
from skytide.spark.checkpoint.options import arrow_options
from skytide.spark.compat import hadoop_setting, hadoop_settings, hadoop_version, jvm

PROBES = "probe"
MAX_PROBES = 16
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "gs": "org.apache.hadoop:hadoop-gcp",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
}


@dataclass(frozen=True)
class Place:
    """A folder for Spark's notes and ours, by its full URI as Hadoop writes it, with the options of Arrow's file system."""

    uri: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def spark(self) -> str:
        """The folder of Spark's notes."""
        return f"{self.uri}/spark"

    def files(self, folder: str) -> Files:
        """Return the files of a folder in it: "skytide" or "spark"."""
        return Files(f"{self.uri}/{folder}", self.options)


def checkpoint_place(spark: SparkSession, checkpoint: Any) -> Place:
    """Return the place of a checkpoint; refuse it if Spark, this process or a task cannot read and write there.

    A path without a scheme is on Spark's default file system; if that is the local one, it is relative to Python's current folder.
    """
    place = place_of(spark, checkpoint, "checkpoint")
    uri, token = place.uri, uuid.uuid4().hex
    files, name = place.files("skytide"), f"{PROBES}/{token}"
    try:
        files.put(name, token.encode(), durable=False)
    except OSError as error:
        reason = f"nothing can be written there: {str(error).splitlines()[0]}"
        raise InvalidInput(value=f"checkpoint={uri!r}", reason=reason, remedy="choose a folder to write to") from None
    try:
        _check_spark_sees(spark, f"{uri}/skytide/{name}")
        _check_executors_see(spark, files, token)
    finally:
        files.delete_folder(PROBES)
    return place


def place_of(spark: SparkSession, folder: Any, name: str) -> Place:
    """Return the place of a folder that was given as the option `name`; nothing is written."""
    uri = _qualified(spark, folder_text(folder, name), name)
    return Place(uri, arrow_options(uri, hadoop_setting(spark)))


def folder_text(folder: Any, name: str) -> str:
    """Return the name of a folder that was given as the option `name`; refuse what is none, and one with a password."""
    text = os.fspath(folder) if isinstance(folder, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidInput(
            value=f"{name}={folder!r}",
            reason="not the name of a folder",
            remedy=f'name one that stays, such as {name}="/data/{name}"',
        )
    if _has_password(text):
        raise InvalidInput(
            value=f"{name}={HIDDEN}",
            reason="it has a password in it, which everything that names the folder would show",
            remedy="leave it out, and give it to the file system: spark.hadoop.fs.s3a.secret.key, spark.hadoop.fs.ftp.password.HOST and their like",
        )
    return text


def _has_password(uri: str) -> bool:
    """Return whether a folder is named with a user and a password.

    >>> [_has_password(uri) for uri in ("ftp://me:secret@host:21/x", "abfss://box@account:443/x", "hdfs://host:8020/a@b", "/data/a:b@c")]
    [True, False, False, False]
    """
    _, scheme, rest = uri.partition("://")
    port = rest.partition("/")[0].partition(":")[2]
    return bool(scheme and port and not port.isdigit() and "@" in rest)


def _qualified(spark: SparkSession, text: str, name: str) -> str:
    """Return the full URI, as Hadoop writes it."""
    conf, hadoop = hadoop_settings(spark), jvm(spark).org.apache.hadoop.fs
    scheme = _SCHEME.match(text)
    default = hadoop.FileSystem.getDefaultUri(conf).getScheme()
    if (scheme and scheme[1].lower() == "file") or (not scheme and default == "file"):
        return Files(text).uri
    try:
        path = hadoop.Path(text)
        return str(path.getFileSystem(conf).makeQualified(path).toString()).rstrip("/")
    except Exception as error:
        raise _not_sparks(spark, f"{name}={text!r}", scheme[1] if scheme else default, error) from None


def _not_sparks(spark: SparkSession, value: str, scheme: str, error: Exception) -> InvalidInput:
    package = _PACKAGES.get(scheme.lower())
    if scheme in ("s3", "s3n"):
        remedy = "write s3a:// instead"
    elif package:
        version = hadoop_version(spark)
        remedy = (
            f'start Spark with it: .config("spark.jars.packages", "{package}:{version}"), or choose a folder that all hosts share'
        )
    else:
        remedy = "choose a folder that all hosts share, or one on s3a://, hdfs://, gs:// or abfss://"
    return InvalidInput(value=value, reason=f"Spark cannot use it: {_java_reason(error)}", remedy=remedy)


def _check_spark_sees(spark: SparkSession, file: str) -> None:
    """Refuse a place where Spark does not see what we wrote: its notes and ours would be in two places."""
    try:
        path = jvm(spark).org.apache.hadoop.fs.Path(file)
        if path.getFileSystem(hadoop_settings(spark)).exists(path):
            return
        reason = "Spark does not see what skytide writes there"
    except Exception as error:
        reason = f"Spark cannot read there: {_java_reason(error)}"
    raise InvalidInput(
        value=f"checkpoint={file.rpartition('/skytide/')[0]!r}",
        reason=reason,
        remedy="check the settings of its file system (spark.hadoop.fs.*), or choose another folder",
    )


def _check_executors_see(spark: SparkSession, files: Files, token: str) -> None:
    """Refuse a place that tasks on a cluster cannot reach, or where they see a different folder of the same name."""
    context = spark.sparkContext
    if re.match(r"local(\[|$)", context.master or ""):
        return
    count = min(max(context.defaultParallelism, 2), MAX_PROBES)

    def probe(numbers: Iterable[int]) -> Iterable[tuple[int, str, str | None]]:
        yield from (_probed(files, token, number) for number in numbers)

    seen = context.parallelize(range(count), count).mapPartitions(probe).collect()
    there = set(files.names(PROBES))
    for number, host, failure in seen:
        if failure or f"{PROBES}/{token}-{number}" not in there:
            raise InvalidInput(
                value=f"checkpoint={files.uri.removesuffix('/skytide')!r}",
                reason=f"the executor on {host} cannot reach it: {failure or 'what it writes there is not seen here'}",
                remedy="choose a folder that all hosts share under the same name, or one on s3a:// or hdfs://",
            )


def _probed(files: Files, token: str, number: int) -> tuple[int, str, str | None]:
    """Return why a task cannot read what the driver wrote, or write next to it; None if it can."""
    host = os.uname().nodename
    try:
        if files.read_if_there(f"{PROBES}/{token}") != token.encode():
            return number, host, "what the driver wrote there is not seen"
        files.put(f"{PROBES}/{token}-{number}", b"", durable=False)
    except OSError as error:
        return number, host, str(error).splitlines()[0]
    return number, host, None


def _java_reason(error: Exception) -> str:
    """Return the line of a Java error that says what is wrong."""
    java = getattr(error, "java_exception", None)
    return str(java.toString() if java is not None else error).splitlines()[0]
