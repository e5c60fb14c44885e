"""The folder for records that cannot be read belongs to one query, as the folders of results do."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fleet_model import Asked
from fleet_query import Query, write_times
from pyspark.sql import SparkSession

import skytide
from skytide.errors import InvalidInput
from skytide.lateness import FixedSlack
from skytide.spark.checkpoint.back import go_back
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.checkpoint.sink_notes import noted_sinks
from skytide.spark.engine.engine import Engine

SCHEMA = "ts timestamp, a bigint"


def broken(feeds: Path, *names: str) -> None:
    """Append broken records to a stream."""
    feeds.mkdir(exist_ok=True)
    with (feeds / "s.jsonl").open("a") as file:
        file.writelines(f"{name}\n" for name in names)


def kept(folder: Path) -> dict[str, list[str]]:
    """Return the records that the folder has, by batch."""
    files = sorted(folder.glob("batch=*/*.jsonl"))
    return {file.parent.name: [json.loads(line)["record"] for line in file.read_text().splitlines()] for file in files}


def of_spark(tmp_path: Path, notes: str | None = "notes") -> Asked:
    return Asked(notes and tmp_path / notes, place=str(tmp_path / "feeds"), invalid=str(tmp_path / "invalid"), splits=1)


@pytest.mark.parametrize("inline", [True, False])
def test_a_second_query_of_spark_is_refused_and_the_first_goes_on_after_a_restart(tmp_path: Path, inline: bool) -> None:
    broken(tmp_path / "feeds", "one")
    first = of_spark(tmp_path, None if inline else "notes")
    first.batch(crash="before the commit")
    second = of_spark(tmp_path, "other")
    with pytest.raises(InvalidInput, match="belongs to another query"):
        second.batch()
    second.start(invalid=str(tmp_path / "another"))
    second.batch()
    assert kept(tmp_path / "another") == {"batch=1": ["one"]}
    first.start()
    first.batch()
    broken(tmp_path / "feeds", "two")
    first.batch()
    assert kept(tmp_path / "invalid") == {"batch=1": ["one"], "batch=2": ["two"]}


def test_a_folder_with_anything_else_is_refused(tmp_path: Path) -> None:
    broken(tmp_path / "feeds", "one")
    (tmp_path / "invalid").mkdir()
    (tmp_path / "invalid" / "000000000001-0.jsonl").write_text("{}\n")
    with pytest.raises(InvalidInput, match="not empty"):
        of_spark(tmp_path).batch()


def test_a_query_that_an_earlier_version_began_goes_on_in_its_folder(tmp_path: Path) -> None:
    broken(tmp_path / "feeds", "one")
    query = of_spark(tmp_path)
    query.batch()
    shutil.rmtree(tmp_path / "invalid")
    (tmp_path / "invalid").mkdir()
    (tmp_path / "invalid" / "000000000001-0.jsonl").write_text("{}\n")
    query.log[0].pop("owner")
    query.start()
    broken(tmp_path / "feeds", "two")
    query.batch()
    assert kept(tmp_path / "invalid") == {"batch=2": ["two"]}


def test_the_folder_of_the_streams_is_refused(tmp_path: Path) -> None:
    (tmp_path / "feeds").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "feeds")
    with pytest.raises(InvalidInput, match="the streams are in this folder"):
        skytide.fleet(f"file://{tmp_path}/feeds", schema=SCHEMA, invalid=tmp_path / "link")


def test_what_the_checkpoint_does_not_know_is_removed_at_the_start(tmp_path: Path) -> None:
    """As for results, the batch has the number of the query's output: so it is known after going back, too."""
    write_times(tmp_path, "s", [0.0])
    query = Query(tmp_path, FixedSlack(0), 1_000, invalid=str(tmp_path / "invalid"))
    sinks = replace(query.outputs.sinks, unread=OwnedFolder(tmp_path / "invalid"))
    query.store.release()
    Engine(query.engine.spec, query.engine.rules, query.store, sinks)
    for name in ("one", "two", "three"):
        broken(tmp_path / "feeds", name)
        query.batch()
    assert kept(tmp_path / "invalid") == {"batch=0": ["one"], "batch=1": ["two"], "batch=2": ["three"]}
    query.store.forget_after(0)
    query.start()
    Engine(query.engine.spec, query.engine.rules, query.store, sinks)
    assert kept(tmp_path / "invalid") == {"batch=0": ["one"]}
    assert ("unread", f"file://{tmp_path}/invalid") in {(sink.role, sink.uri) for sink in noted_sinks(query.store.files) or ()}


def test_a_start_refuses_folders_of_others_and_its_own_sinks(spark: SparkSession, tmp_path: Path) -> None:
    broken(tmp_path / "feeds", "one")
    fleet = skytide.fleet(tmp_path / "feeds", schema=SCHEMA, invalid=tmp_path / "invalid")
    asked = skytide.stream(fleet, time="ts").window("30 s", "10 s").skyline(skytide.low("a"))
    for sinks in ({"late": tmp_path / "invalid"}, {"invalid": tmp_path / "invalid" / "inside"}):
        with pytest.raises(InvalidInput, match="the fleet's invalid"):
            asked.start("memory", checkpoint=tmp_path / "c", trigger="availableNow", **sinks)  # type: ignore[arg-type]
    asked.start("memory", checkpoint=tmp_path / "c", trigger="availableNow").await_termination()
    assert kept(tmp_path / "invalid") == {"batch=0": ["one"]}
    with pytest.raises(InvalidInput, match="belongs to another query"):
        asked.start("memory", checkpoint=tmp_path / "other", trigger="availableNow")


def test_who_goes_back_hears_of_the_folder_that_spark_writes_to(spark: SparkSession, tmp_path: Path) -> None:
    """If tuples are shuffled, the fleet's batches are Spark's, and have other numbers than those of the query."""
    write_times(tmp_path, "s", [0.0, 1.0])
    broken(tmp_path / "feeds", "one")
    fleet = skytide.fleet(tmp_path / "feeds", schema=SCHEMA, invalid=tmp_path / "invalid")
    asked = skytide.stream(fleet, time="ts").window("30 s", "10 s").skyline(skytide.low("a"))
    asked.start("memory", checkpoint=tmp_path / "c", trigger="availableNow", splitting="TB_RR").await_termination()
    assert kept(tmp_path / "invalid") == {"batch=1": ["one"]}
    (left,) = go_back(tmp_path / "c", 0).left
    assert (left.role, left.uri) == ("unread", f"file://{tmp_path}/invalid")
