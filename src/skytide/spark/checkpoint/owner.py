"""Who may write to a checkpoint: the driver that took it over last."""

import json
import os
import socket
import uuid
from typing import Any

from skytide.errors import InvalidInput, SkytideError
from skytide.spark.checkpoint.files import Files
from skytide.spark.clock import now_us

OWNER, IN_USE = "owner.json", "in-use"


class Owner:
    """Takes a checkpoint over, which shuts out whoever had it before; held until it is released or the process ends."""

    def __init__(self, files: Files) -> None:
        """Take the checkpoint over, unless it is going back."""
        self._files, self._token = files, uuid.uuid4().hex
        try:
            self._held = files.lock(IN_USE, alone=False)
        except BlockingIOError:
            raise InvalidInput(
                value=files.uri,
                reason="`skytide checkpoint back` works on this checkpoint",
                remedy="start the query when it has ended",
            ) from None
        note = {"token": self._token, "host": socket.gethostname(), "process": os.getpid(), "since_us": now_us()}
        files.put(OWNER, json.dumps(note).encode(), durable=False)

    def check(self) -> None:
        """Raise if another driver has taken over."""
        now = _read(self._files)
        if now.get("token") != self._token:
            raise taken_over(self._files)

    def release(self) -> None:
        """Let go of the checkpoint: it is no longer in use."""
        if self._held is not None:
            self._held.close()


def taken_over(files: Files) -> SkytideError:
    """Return the error for a driver that another one has shut out."""
    now = _read(files)
    by = f"process {now['process']} on {now['host']}" if "host" in now and "process" in now else "another driver"
    return SkytideError(
        f"{files.uri}: {by} took this checkpoint over, so this query stops; "
        "run one query per checkpoint, and start a second one with a checkpoint of its own"
    )


def _read(files: Files) -> dict[str, Any]:
    try:
        note = json.loads(files.read_if_there(OWNER) or b"{}")
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}
