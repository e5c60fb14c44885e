"""Every call into Spark's private parts: the only module that knows the Java objects behind sessions, DataFrames and queries.

What differs between versions of Spark belongs here, too. Java objects that are returned have the type Any.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.streaming.listener import JStreamingQueryListener, QueryProgressEvent, StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.types import DataType

JAVA_GONE = (Py4JNetworkError, ConnectionError)
"""What calls raise if the Java process of this session has ended."""
# Types


def to_arrow(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a type of Spark's; raise what Spark raises if there is none."""
    return to_arrow_type(data_type, timezone="UTC")


def from_arrow(data_type: pa.DataType) -> DataType:
    """Return the type of Spark's for an Arrow type."""
    return from_arrow_type(data_type)


# Sessions


def jvm(spark: SparkSession) -> Any:
    """Return the packages of Java, as attributes."""
    return spark._jvm


def scala_context(spark: SparkSession) -> Any:
    """Return the SparkContext of Java's side."""
    return spark.sparkContext._jsc.sc()


def scala_list(spark: SparkSession, values: Sequence[Any]) -> Any:
    """Return a sequence of Scala's."""
    return jvm(spark).PythonUtils.toSeq(list(values))


def hadoop_settings(spark: SparkSession) -> Any:
    """Return the settings of Hadoop's file systems, those of this session included."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def hadoop_setting(spark: SparkSession) -> Callable[[str], str | None]:
    """Return a function that looks up a setting of Hadoop's file systems."""
    settings = hadoop_settings(spark)
    return lambda key: settings.get(key, None)


def hadoop_version(spark: SparkSession) -> str:
    """Return the version of Hadoop's libraries that Spark has."""
    return str(jvm(spark).org.apache.hadoop.util.VersionInfo.getVersion())


def short_name(spark: SparkSession, format: str) -> str | None:
    """Return Spark's short name of a format, or None if Spark does not find it."""
    try:
        sources = jvm(spark).org.apache.spark.sql.execution.datasources.DataSource
        source = sources.lookupDataSource(format, spark._jsparkSession.sessionState().conf())
    except Exception:
        return None
    try:
        return str(source.newInstance().shortName())
    except Exception:  # a source that is written in Python, or has no short name
        return format


def located(spark: SparkSession, locations: Sequence[str]) -> Any:
    """Return one row per location as an RDD of Java's: the number of the location in a partition that prefers it."""
    java, array = jvm(spark), spark.sparkContext._gateway.new_array  # type: ignore[union-attr]
    rows = []
    for number, location in enumerate(locations):
        values = array(java.java.lang.Object, 1)
        values[0] = number
        rows.append(java.scala.Tuple2(java.org.apache.spark.sql.RowFactory.create(values), scala_list(spark, [location])))
    any_class = getattr(java.scala.reflect, "ClassTag$").__getattr__("MODULE$").Any()
    return scala_context(spark).makeRDD(scala_list(spark, rows), any_class).toJavaRDD()


def numbers_of(spark: SparkSession, rows: Any) -> DataFrame:
    """Return what `located` returned as a DataFrame with the column `id`."""
    session = spark._jsparkSession
    schema = session.parseDataType('{"type":"struct","fields":[{"name":"id","type":"integer","nullable":false,"metadata":{}}]}')
    return DataFrame(session.createDataFrame(rows, schema), spark)


def jobs_and_stages(spark: SparkSession) -> Callable[[int], tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Return a function that reads the newest jobs and stages from Spark's status store, as its REST interface describes them."""
    store, mapper = scala_context(spark).statusStore(), jvm(spark).org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
    gateway: Any = spark.sparkContext._gateway
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)

    def read(count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        jobs = mapper.writeValueAsString(
            store.jobsList(None).take(count)
        )  # first: all stages of a job that has ended are there then
        stages = mapper.writeValueAsString(store.stageList(None, False, False, no_quantiles, None).take(count))
        return json.loads(jobs), json.loads(stages)

    return read


# The scheduler


def scheduling_mode(spark: SparkSession) -> str:
    """Return how Spark divides its executors among jobs: FIFO or FAIR."""
    return str(scala_context(spark).getSchedulingMode().toString())


def scheduler_setting(spark: SparkSession, key: str) -> str | None:
    """Return a setting as the scheduler reads it; None if nobody has set it."""
    settings = scala_context(spark).conf()
    return str(settings.get(key)) if settings.contains(key) else None


def set_scheduler_setting(spark: SparkSession, key: str, value: str | None) -> None:
    """Change a setting that the scheduler reads again for every stage; None: as if nobody had set it."""
    settings = scala_context(spark).conf()
    if value is None:
        settings.remove(key)
    else:
        settings.set(key, value)


def set_weight(spark: SparkSession, pool: str, weight: int) -> None:
    """Set the weight of a pool of the scheduler, which is made if there is none of that name; its own jobs are served first come, first served."""
    root = scala_context(spark).taskScheduler().rootPool()
    there = root.getSchedulableByName(pool)
    if there is None:
        scheduler = jvm(spark).org.apache.spark.scheduler
        root.addSchedulable(scheduler.Pool(pool, scheduler.SchedulingMode.FIFO(), 0, weight))
    else:  # Spark itself sets it once
        field = there.getClass().getDeclaredField("weight")
        field.setAccessible(True)
        field.setInt(there, weight)


def pool_weight(spark: SparkSession, pool: str) -> int | None:
    """Return the weight of a pool of the scheduler; None if there is none of that name."""
    there = scala_context(spark).taskScheduler().rootPool().getSchedulableByName(pool)
    return None if there is None else int(there.weight())


def move_to_pool(query: StreamingQuery, pool: str) -> bool:
    """Let the next jobs of a query that runs go to a pool of the scheduler, and return whether that could be done.

    Its thread takes the pool from a property of its own, which only that thread can reach; so it is looked up in the thread.
    """
    try:
        spark = session_of(query)
        java, thread = jvm(spark).java.lang, query._jsq.streamingQuery().queryExecutionThread()
        locals_field = java.Class.forName("java.lang.Thread").getDeclaredField("inheritableThreadLocals")
        locals_field.setAccessible(True)
        table = locals_field.get(thread)
        lookup = table.getClass().getDeclaredMethod(
            "getEntry", _array(spark, java.Class, java.Class.forName("java.lang.ThreadLocal"))
        )
        lookup.setAccessible(True)
        entry = lookup.invoke(table, _array(spark, java.Object, scala_context(spark).localProperties()))
        value = entry.getClass().getDeclaredField("value")
        value.setAccessible(True)
        value.get(entry)["spark.scheduler.pool"] = pool
        return True
    except Exception:  # a Java that keeps its own parts to itself, or another version of Spark
        return False


def _array(spark: SparkSession, kind: Any, value: Any) -> Any:
    array = spark.sparkContext._gateway.new_array(kind, 1)  # type: ignore[union-attr]
    array[0] = value
    return array


# DataFrames


def is_connect(df: DataFrame) -> bool:
    """Return whether a DataFrame belongs to a session of Spark Connect, which shows no plans."""
    return not hasattr(df, "_jdf")


def analysed_plan(df: DataFrame) -> Any:
    """Return the plan of a DataFrame with all names and types resolved."""
    return df._jdf.queryExecution().analyzed()


def optimised_plan(df: DataFrame) -> Any:
    """Return the plan of a DataFrame after Spark's optimiser; it is fixed then, and does not notice a cache that comes later."""
    return df._jdf.queryExecution().optimizedPlan()


# Queries that run


def session_of(query: StreamingQuery) -> SparkSession:
    """Return the session that a query runs in."""
    return SparkSession(SparkContext._active_spark_context, query._jsq.sparkSession())  # type: ignore[arg-type]


def queries_of_session(query: StreamingQuery) -> StreamingQueryManager:
    """Return the manager of all queries of a query's session."""
    return StreamingQueryManager(query._jsq.sparkSession().streams())


def active_queries(spark: SparkSession) -> list[StreamingQuery]:
    """Return the queries of an application that run, in whatever session they were started."""
    queries, streams = [], spark._jsparkSession.sharedState().activeStreamingQueries().elements()
    while streams.hasMoreElements():
        stream = streams.nextElement()
        found = stream.sparkSession().streams().get(stream.id())
        if found is not None and found.isActive():  # it may have ended meanwhile
            queries.append(StreamingQuery(found))
    return queries


def session_key(spark: SparkSession) -> int:
    """Return a number of a session on Java's side: another for each."""
    return int(jvm(spark).java.lang.System.identityHashCode(spark._jsparkSession))


def spark_stopped(spark: SparkSession) -> bool:
    """Return whether a Spark was stopped."""
    return bool(scala_context(spark).isStopped())


def spark_ended(query: StreamingQuery) -> bool:
    """Return whether the Spark of a query was stopped. It leaves its queries as they are then: they say that they wait for their next batch."""
    return bool(query._jsq.sparkSession().sparkContext().isStopped())


def java_ends() -> bool:
    """Return whether the Java process of this session ends, or has ended: then nobody stopped Spark in it."""
    try:
        return bool(SparkContext._jvm.org.apache.spark.util.ShutdownHookManager.inShutdown())  # type: ignore[union-attr]
    except JAVA_GONE:
        return True


class _AsJson(JStreamingQueryListener):
    def __init__(self, listener: "JsonListener") -> None:
        super().__init__(listener)
        self._listener = listener

    def onQueryProgress(self, jevent: Any) -> None:
        self._listener.progressed(jevent.progress().json())

    def onQueryIdle(self, jevent: Any) -> None:
        pass


class JsonListener(StreamingQueryListener):
    """Listens to queries, and gets their progress as JSON.

    Spark takes each progress apart for its listeners, by some hundred calls to Java, and while the next batch is planned; here it is two.
    """

    def progressed(self, text: str) -> None:
        """Take in the progress of any query."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take in the progress of any query, where Spark did take it apart."""
        self.progressed(event.progress.json)

    @property
    def _jlistener(self) -> Any:
        if not hasattr(self, "_jlistenerobj"):
            self._jlistenerobj = SparkContext._jvm.PythonStreamingQueryListenerWrapper(_AsJson(self))  # type: ignore[union-attr]
        return self._jlistenerobj


def progress_since(query: StreamingQuery, batch: int) -> list[dict[str, Any]]:
    """Return the progress of the batches after one, oldest first, without asking for that of all that Spark remembers."""
    if not hasattr(query, "_jsq"):
        return [json.loads(progress.json) for progress in query.recentProgress]
    remembered, found = query._jsq.recentProgress(), []
    for place in reversed(range(len(remembered))):
        if remembered[place].batchId() <= batch:
            break
        found.append(json.loads(remembered[place].json()))
    return found[::-1]


def found_nothing_new(query: StreamingQuery) -> bool:
    """Return whether a query has looked for a further batch, and there was none; False if Spark itself has ended."""
    try:
        return bool(query._jsq.streamingQuery().noNewData())
    except Exception:
        return False


_PYTHON = re.compile(r"PythonUDF|PythonMap|InArrow|InPandas|ArrowEval|InPySpark|PythonStream|python\.|ForeachBatch")


def runs_python(query: StreamingQuery) -> bool:
    """Return whether the tasks of a query need Python, as far as its plan shows; what a function of `foreachBatch` does is not known, and counts."""
    try:
        stream = query._jsq.streamingQuery()
        return bool(_PYTHON.search(f"{stream.logicalPlan().toString()} {stream.sink().getClass().getName()}"))
    except Exception:  # another kind of query, or another version of Spark
        return True


def trigger_s(query: StreamingQuery) -> float | None:
    """Return the interval of a query's trigger; None if it has none, or it is not known."""
    try:
        return float(query._jsq.streamingQuery().trigger().intervalMs()) / 1e3 or None
    except Exception:  # another trigger than ProcessingTime
        return None
