"""Why a query failed, in a line."""

import re


def reason(failure: str) -> str:
    """Find in what Spark tells of a failed query the line that says why.

    >>> reason("Traceback ...\\n  File ...\\nskytide.errors.InvalidInput: NULL in x: not a number\\n=== Streaming Query ===\\n...")
    'InvalidInput: NULL in x: not a number'
    """
    told = failure.partition("=== Streaming Query ===")[0].strip()
    errors = re.findall(r"^(?:\w+\.)*([A-Z]\w+: .+)$", told, re.MULTILINE)
    return errors[-1] if errors else told.partition("\n")[0]
