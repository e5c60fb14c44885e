"""Processes that are not our children: what /proc shows of them, and how they end."""

import os
import select
import signal
from pathlib import Path


def command(pid: int) -> str:
    """Return the words a process was started with; none if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def stat(pid: int) -> list[str]:
    """Return what /proc shows of a process, from its state on; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def of_session(leader: int) -> dict[int, list[str]]:
    """Return the living processes of a session, each with what /proc shows of it."""
    found = {int(entry): stat(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()}
    return {pid: known for pid, known in found.items() if known and int(known[3]) == leader and known[0] != "Z"}


def end(pid: int, patience_s: float = 60.0) -> None:
    """Wait for a process to end by itself, and kill it if it does not."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([watched], [], [], patience_s)[0]:
            signal.pidfd_send_signal(watched, signal.SIGKILL)
    finally:
        os.close(watched)
