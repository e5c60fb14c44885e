"""An S3 server on loopback, in a process of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow.fs as pafs

BUCKET = "skytide-tests"


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """Run the server, and yield the options of Arrow's file system that reach it; there is a bucket."""
    command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]  # the system chooses the port
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        address = next(found[1] for line in process.stderr if (found := re.search(r"Running on http://(\S+)", line)))
        options = {
            "access_key": "anybody",
            "secret_key": "anything",
            "endpoint_override": address,
            "scheme": "http",
            "region": "us-east-1",
        }
        pafs.S3FileSystem(**options, allow_bucket_creation=True).create_dir(BUCKET)
        # Nobody reads on: the server logs each request, and would stop when the pipe is full.
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        try:
            yield options
        finally:
            process.terminate()
            process.wait()
            drain.wait()
            process.stderr.close()
    finally:
        process.kill()
        process.wait()
