"""Moves the wall clock of a Python process away from the true time, as a file says; jobs and their workers load it as `sitecustomize`.

Java keeps the true time: libfaketime, which could move its clock too, makes its timed waits spin.
"""

import os
import time

_true = time.time


def _shifted() -> float:
    with open(os.environ["CAMPAIGN_CLOCK"]) as offset:
        return _true() + float(offset.read())


if "CAMPAIGN_CLOCK" in os.environ:
    time.time = _shifted
    time.time_ns = lambda: round(_shifted() * 1e9)
