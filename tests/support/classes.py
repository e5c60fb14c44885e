"""Java's classes, ready for use: with them, those of tests start in half the time. `python classes.py` puts them there."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from skytide.spark.session.cluster import QUICK

ARCHIVE = Path(__file__).parents[2] / ".cache" / "driver.jsa"
JOB = Path(__file__).with_name("streaming_job.py")


def archive() -> Path | None:
    """Return the archive, if it is there; a Java that finds it unfit does without."""
    return ARCHIVE if ARCHIVE.exists() else None


def java_options() -> str:
    """Return options for a Java that lives for seconds, and shares two cores with others."""
    return f"{QUICK} -Xlog:disable" + (f" -XX:SharedArchiveFile={ARCHIVE}" if archive() else "")


def main() -> None:
    """Let a streaming job leave its classes behind."""
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="skytide-classes-", dir=ARCHIVE.parent) as folder:
        draft = Path(folder, "classes.jsa")
        options = {"spark": {"spark.driver.defaultJavaOptions": f"{QUICK} -Xlog:disable -XX:ArchiveClassesAtExit={draft}"}}
        command = [sys.executable, JOB, Path(folder, "checkpoint"), Path(folder, "out"), json.dumps(options)]
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_SUBMIT_OPTS"}
        # Java writes the archive when it ends, which is when nobody can write to its output any more.
        subprocess.run(command, input="go\n", stdout=subprocess.PIPE, text=True, check=True, env=environment)
        if draft.exists():  # not every Java can do this
            draft.rename(ARCHIVE)


if __name__ == "__main__":
    main()
