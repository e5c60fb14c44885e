"""A local Spark for tests, benchmarks and first steps: quiet, on loopback only, tuned for small micro-batches."""

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from skytide.errors.checks import whole, words
from skytide.spark.session.java import use_java

_STREAMING = "spark.sql.streaming"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"


def local_session(name: str, *, cores: int = 2, **settings: str) -> SparkSession:
    """Start Spark on this machine, or give the session that runs; `settings` win over the ones chosen here.

    Settings of the Java process, such as `spark.driver.memory`, count only for the first session of a process.
    """
    words("name", name, "first steps")
    whole("cores", cores, 1, 10_000)
    for key, value in settings.items():
        words(key, value, "true")
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # started without spark-submit, Spark reads no setting for this
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "300")  # seconds, as on the other side
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
        "spark.python.daemon.module": "skytide.spark.daemon",
        # Over TCP, what is small waits up to 40 ms for a delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
        # A worker may take long to answer on a machine that is busy.
        "spark.python.authenticate.socketTimeout": "300s",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(cores),
        # Made by Spark only when a table is saved.
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir(), f"skytide-warehouse-{os.getpid()}")),
        # Plain renames: the log writes of a micro-batch take a third of the time.
        f"{_STREAMING}.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
        f"{_STREAMING}.checkpoint.fileChecksum.enabled": "false",
    }
