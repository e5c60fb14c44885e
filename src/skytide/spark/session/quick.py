"""Settings of Spark that make Python tasks quick: every session that skytide makes has them, and yours should too."""

QUICK_TASKS = {
    # Workers are forked from a process that has everything imported, and collect no garbage of it after each task.
    "spark.python.daemon.module": "skytide.spark.daemon",
    # Over TCP, small messages wait up to 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # With a lower limit, Spark adds up the size of a batch after every row, which takes longer than sending it; it still has at most 10,000 rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}

SECOND_TRIES = {
    # A task that takes twice as long as half of the others did is started again elsewhere: the first task of a new executor takes seconds.
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "2",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.speculation.efficiency.enabled": "false",
}
