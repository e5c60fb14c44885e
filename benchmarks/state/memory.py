"""The memory of all processes, and the files of a checkpoint, watched while a query runs."""

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.stream.measure import family

EVERY_S = 0.5


@dataclass
class Peaks:
    """The highest values so far."""

    mb: dict[str, float] = field(default_factory=dict)
    """Of this Python, Java, the Python workers, and all together; what processes share counts once."""
    files: int = 0
    """Of skytide's part of a checkpoint."""
    manifest_kb: float = 0.0

    def note_memory(self) -> None:
        """Look at the memory of all processes now."""
        now = resident_mb()
        for kind, mb in {**now, "all": sum(now.values())}.items():
            self.mb[kind] = max(self.mb.get(kind, 0.0), mb)

    def note_files(self, checkpoint: Path) -> None:
        """Look at a checkpoint now."""
        files, manifest_kb = files_of(checkpoint)
        self.files, self.manifest_kb = max(self.files, files), max(self.manifest_kb, manifest_kb)


def resident_mb() -> dict[str, float]:
    """Return the megabytes of this Python, of Java, and of the Python workers."""
    found = {"driver": 0.0, "Java": 0.0, "workers": 0.0}
    for pid in family():
        with contextlib.suppress(OSError):  # it ended meanwhile
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
            kind = "driver" if pid == os.getpid() else "Java" if b"java" in command else "workers"
            found[kind] += _proportional_kb(pid) / 1e3
    return found


def _proportional_kb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return float(line.split()[1])
    return 0.0


def files_of(checkpoint: Path) -> tuple[int, float]:
    """Return the number of files of skytide's part of a checkpoint, and the size of its largest manifest in kB."""
    count, largest = 0, 0
    for folder, _, names in os.walk(checkpoint / "skytide"):
        count += len(names)
        if folder.endswith("manifests"):
            for name in names:
                with contextlib.suppress(OSError):
                    largest = max(largest, Path(folder, name).stat().st_size)
    return count, largest / 1e3


@contextmanager
def watched(checkpoint: Path | None = None) -> Iterator[Peaks]:
    """Yield the peaks of the memory and of a checkpoint, which grow while the block runs."""
    peaks, ended = Peaks(), threading.Event()

    def look() -> None:
        while not ended.wait(EVERY_S):
            peaks.note_memory()
            if checkpoint is not None:
                peaks.note_files(checkpoint)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()
        peaks.note_memory()
