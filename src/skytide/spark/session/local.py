"""A local Spark for tests, benchmarks and first steps: quiet, on loopback only, tuned for small micro-batches."""

import os
import secrets
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from skytide.errors.checks import check_integer, check_text
from skytide.errors.limits import MAX_CORES
from skytide.spark.session.java import use_java
from skytide.spark.session.quick import QUICK_TASKS

SOCKET_TIMEOUT_S = 300  # of both sides: a worker may take long to answer on a busy machine
_WAREHOUSE = secrets.token_hex(8)  # nobody else can make a folder of that name before
_STREAMING = "spark.sql.streaming"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"


def local_session(name: str, *, cores: int = 2, **settings: str) -> SparkSession:
    """Return a session of a Spark on this machine, or the one that runs already.

    It listens on loopback only, logs warnings only, and has the settings that make small micro-batches quick (`QUICK_TASKS`). More in
    [start.md](start.md); a session of your own needs the settings in [cluster.md](cluster.md).

    Parameters
    ----------
    name
        The name of the application, as Spark shows it.
    cores
        How many tasks run at once, whatever the machine has.
    settings
        Settings of Spark, as texts, which override the ones chosen here. Those of the Java process, such as `spark.driver.memory`, count
        only for the first session of a process. Rows of more than 200 KB each need
        `**{"spark.sql.execution.arrow.maxBytesPerBatch": "67108864"}`: a batch of 1,000 of them is more than Java's memory holds.

    Returns
    -------
    SparkSession
        A session like any other; `stop()` ends it.

    Raises
    ------
    InvalidInput
        If a setting is not a text, `cores` is out of range, or this machine has no Java that is new enough for Spark.

    Examples
    --------
    ```python
    spark = skytide.spark.local_session("first steps", cores=4, **{"spark.driver.memory": "2g"})
    spark.range(3).count()  # 3
    ```
    """
    check_text("name", name, "first steps")
    check_integer("cores", cores, 1, MAX_CORES)
    for key, value in settings.items():
        check_text(key, value, "true")
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # started without spark-submit, Spark reads no setting for this
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", str(SOCKET_TIMEOUT_S))
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in (_settings(cores) | settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _settings(cores: int) -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # Stopping a query inside foreachBatch overflows the default stack.
        "spark.driver.extraJavaOptions": f"-Xss8m -Dlog4j2.configurationFile={log4j}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **QUICK_TASKS,
        "spark.python.authenticate.socketTimeout": f"{SOCKET_TIMEOUT_S}s",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(cores),
        # Spark makes it only when a table is saved.
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir(), f"skytide-warehouse-{_WAREHOUSE}")),
        # Plain renames: the log writes of a micro-batch take a third of the time.
        f"{_STREAMING}.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
        f"{_STREAMING}.checkpoint.fileChecksum.enabled": "false",
    }
