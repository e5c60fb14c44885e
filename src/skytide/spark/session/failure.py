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
