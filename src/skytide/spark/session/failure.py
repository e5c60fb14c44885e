"""Why a query failed, in one line."""

import re


def reason(failure: str) -> str:
    """Return the line that says why, of all that Spark reports about a failed query.

    >>> reason("Traceback ...\\n  File ...\\nskytide.errors.InvalidInput: NULL in x: not a number\\n=== Streaming Query ===\\n...")
    'InvalidInput: NULL in x: not a number'
    """
    report = failure.partition("=== Streaming Query ===")[0].strip()
    errors = re.findall(r"^(?:\w+\.)*([A-Z]\w+: .+)$", report, re.MULTILINE)
    return errors[-1] if errors else report.partition("\n")[0]


def by_end_of_spark(failure: str) -> bool:
    """Return whether a query of a Spark that was stopped failed only by that: its messages, other than a stack, are about Spark itself.

    >>> by_end_of_spark("Job 7 cancelled because SparkContext was shut down")
    True
    >>> by_end_of_spark("RuntimeError: full\\n\\tat org.apache.spark.SparkContext.runJob(SparkContext.scala)")
    False
    """
    report = failure.partition("=== Streaming Query ===")[0].splitlines()
    return any(text in line for line in report if not line.strip().startswith("at ") for text in ENDS_OF_SPARK)


ENDS_OF_SPARK = ("SparkContext", "RpcEnv already stopped")
INTERRUPTIONS = ("java.lang.InterruptedException", "java.io.InterruptedIOException", "java.nio.channels.ClosedByInterruptException")
KEPT_CHARACTERS = 500


class CutOff(Exception):
    """A batch that was cut off as its query was stopped."""


def cut_off(error: Exception) -> CutOff | None:
    """Return a short error if a job of a batch was interrupted, otherwise None.

    Spark searches the whole text of the error for the name of an interruption, in a way that overflows Java's stack if the text has many
    lines; the query would then end with a page of Java. Here, the name comes first, and little follows.

    >>> str(cut_off(RuntimeError("An error occurred while calling o1.toArrow: java.lang.InterruptedException" + " at ..." * 10_000)))[:98]
    'py4j.protocol.Py4JJavaError: An error occurred while calling Spark: java.lang.InterruptedException'
    """
    text = str(error)
    interruption = next((name for name in INTERRUPTIONS if name in text), None)
    if interruption is None:
        return None
    return CutOff(f"py4j.protocol.Py4JJavaError: An error occurred while calling Spark: {interruption}: {text[:KEPT_CHARACTERS]}")
