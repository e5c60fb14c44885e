"""Where a checkpoint is: the same place for Spark and for us, or it is refused before anything starts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import skytide
from skytide import low
from skytide.errors import InvalidInput
from skytide.records.secret import revealed
from skytide.spark.checkpoint import checkpoint_place
from skytide.spark.checkpoint.options import arrow_options


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another current folder than the one that Spark was started in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def default_fs(spark: SparkSession) -> Iterator[Any]:
    """Set `fs.defaultFS`, for as long as a test runs."""
    conf = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    before = conf.get("fs.defaultFS")
    yield lambda uri: conf.set("fs.defaultFS", uri)
    conf.set("fs.defaultFS", before)


def files_below(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


NAMES = ["plain", "two words", "per%20cent", "ümläut", "a#b?c", "[x]{y}*", "a:b", "~", "a+b&c=d'e\"f"]


@pytest.mark.parametrize("name", NAMES)
def test_spark_and_we_see_the_same_folder(spark: SparkSession, elsewhere: Path, name: str) -> None:
    absolute = elsewhere / "deep" / name
    for checkpoint in (f"deep/{name}", absolute, f"file:{absolute}", f"file://{absolute}"):
        place = checkpoint_place(spark, checkpoint)
        assert place.uri == f"file://{absolute}"
        path = spark._jvm.org.apache.hadoop.fs.Path(place.spark)  # type: ignore[union-attr]
        path.getFileSystem(spark._jsc.hadoopConfiguration()).mkdirs(path)  # type: ignore[attr-defined]
        assert files_below(absolute) >= {"spark"}
    assert files_below(absolute / "skytide") == set()  # nothing is left of the tries


@pytest.mark.parametrize("name", ["two words", "per%20cent ü#?"])
def test_a_query_with_a_relative_checkpoint_keeps_all_in_pythons_current_folder(
    spark: SparkSession, elsewhere: Path, name: str
) -> None:
    source = skytide.workload(rate=1_000, dimensions=2, pace="fast", batch="500 ms", duration="2 s", start=1_700_000_000_000_000)
    asked = skytide.stream(source).window("1 s").skyline(low("x0"), low("x1"))
    run = asked.start("parquet", path=f"{name}/out", checkpoint=f"{name}/ck", trigger="availableNow", flush=True)
    run.await_termination()
    assert files_below(elsewhere) == {name} and files_below(elsewhere / name) == {"ck", "out"}
    assert files_below(elsewhere / name / "ck") == {"spark", "skytide"}
    assert {"offsets", "commits"} <= files_below(elsewhere / name / "ck" / "spark")
    assert spark.read.parquet(str(elsewhere / name / "out").replace("[", "\\[")).count() > 0


def test_a_path_without_a_scheme_is_on_sparks_default_file_system(spark: SparkSession, tmp_path: Path, default_fs: Any) -> None:
    default_fs("hdfs://127.0.0.1:1/")
    with pytest.raises(InvalidInput, match=r"hdfs://127.0.0.1:1/data/ck.*(libhdfs|libjvm|HDFS)"):
        checkpoint_place(spark, "/data/ck")
    assert checkpoint_place(spark, f"file://{tmp_path}/ck").uri == f"file://{tmp_path}/ck"  # ours, whatever the default is


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("s3a://bucket/ck", r"Spark cannot use it: .*S3AFileSystem.* start Spark with it: .*hadoop-aws:3\.\d+\.\d+"),
        ("s3://bucket/ck", r"Spark cannot use it: .*; write s3a:// instead"),
        ("gs://bucket/ck", r"Spark cannot use it: .*GoogleHadoopFileSystem.* start Spark with it: .*hadoop-gcp:3\."),
        ("abfss://c@a.dfs.core.windows.net/ck", r"Spark cannot use it: .*hadoop-azure"),
        ("nowhere://x/ck", r'Spark cannot use it: .*No FileSystem for scheme "nowhere"; choose a folder that all hosts share'),
        ("hdfs://127.0.0.1:1/ck", r"(libhdfs|libjvm|HDFS).*; set HADOOP_HOME and CLASSPATH"),
        ("s3a://key:Zq7@bucket/ck", r"^checkpoint=\*\*\*: it has a password in it"),
        (None, "not the name of a folder; name one"),
        ("", "not the name of a folder"),
        ("  ", "not the name of a folder"),
        (7, "not the name of a folder"),
        (b"/tmp/x", "not the name of a folder"),
        (["/tmp/x"], "not the name of a folder"),
        ("/tmp/a\0b", "not the name of a folder"),
        ("/proc/nothing/ck", "nothing can be written there: .*; choose a folder to write to"),
        ("/dev/null/ck", "nothing can be written there: .*; choose a folder to write to"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(spark: SparkSession, checkpoint: Any, message: str) -> None:
    source = skytide.workload(rate=1_000, dimensions=2)
    asked = skytide.stream(source).window("1 s").skyline(low("x0"), low("x1"))
    with pytest.raises(InvalidInput, match=f"(?s){message}"):
        asked.start(print, checkpoint=checkpoint)
    assert not spark.streams.active


def test_hadoops_settings_of_s3_become_arrows() -> None:
    known = {
        "fs.s3a.access.key": "me",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.session.token": "token",
        "fs.s3a.endpoint": "https://storage.example:9000/",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.bucket.mine.access.key": "another",
        "fs.s3a.bucket.open.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    }
    common = {
        "secret_key": "secret",
        "session_token": "token",
        "region": "eu-west-1",
        "endpoint_override": "storage.example:9000",
        "force_virtual_addressing": True,
    }
    assert revealed(arrow_options("s3a://mine/x", known.get)) == {"access_key": "another", **common}
    assert revealed(arrow_options("s3a://open/x", known.get)) == {"access_key": "me", **common, "anonymous": True}
    assert not {"secret", "token", "me"} & set(re.findall(r"\w+", repr(arrow_options("s3a://b/x", known.get).values())))
    plain = {"fs.s3a.connection.ssl.enabled": "false", "fs.s3a.endpoint": "127.0.0.1:9", "fs.s3a.path.style.access": "true"}
    assert arrow_options("s3a://b/x", plain.get) == {"endpoint_override": "127.0.0.1:9", "scheme": "http"}
    assert arrow_options("s3a://b/x", {}.get) == arrow_options("file:///x", known.get) == {}
    azure = {"fs.azure.account.key.a.dfs.core.windows.net": "key"}
    assert revealed(arrow_options("abfss://c@a.dfs.core.windows.net/x", azure.get)) == {"account_name": "a", "account_key": "key"}
