"""Settings of Spark for a builder: `QUICK_TASKS` make Python tasks quick, `SPECULATION` keeps batches from waiting for one slow task."""

_JIT = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=50000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Few batches per second call the code that plans and schedules them just often enough for Java's second compiler, which then takes more
processor time than the batches do: it is left the loops over rows."""

QUICK_TASKS = {
    # Workers are forked from a process that has everything imported, and collect no garbage of it after each task.
    "spark.python.daemon.module": "skytide.spark.daemon",
    # Over TCP, small messages wait up to 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # With a lower limit, Spark adds up the size of a batch after every row, which takes longer than sending it. So batches are limited by
    # rows: with long strings, 10,000 of them (Spark's own limit) are more than Java and Arrow can hold.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    # Defaults come before extraJavaOptions, so that those of a user win.
    "spark.driver.defaultJavaOptions": _JIT,
    "spark.executor.defaultJavaOptions": _JIT,
}
"""What makes Python tasks quick: every session that skytide makes has it, and yours should too ([cluster.md](cluster.md)).

```python
spark = SparkSession.builder.config(map={**QUICK_TASKS, **SPECULATION}).getOrCreate()
```
"""

SPECULATION = {
    # A task that takes twice as long as half of the others did is started again elsewhere: the first task of a new executor takes seconds.
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "2",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.speculation.efficiency.enabled": "false",
}
"""What lets no batch wait for a cold executor, if there are several hosts: Spark's speculative execution, tuned for short tasks."""
