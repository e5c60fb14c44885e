"""The CPU frequency of this machine, through Linux cpufreq, and the way back to what it was."""

import os
import subprocess
from pathlib import Path

import numpy as np

STEPS = 9
"""Where a machine takes any frequency between two ends, so many are considered, as in P2."""
RESTORE_S = 10.0
RESTORE = 'read -r _; while [ $# -gt 1 ]; do printf %s "$2" > "$1"; shift 2; done'
"""Waits for the end of its input, which comes when this process closes it or ends in whatever way; then writes values to files."""


class CpuFrequency:
    """The frequency of all CPUs of this machine. What it was before the first change comes back with `restore()`.

    A small process of its own does that, so it also comes back if this one fails or is killed. It does not if that one is killed, too,
    as when a container or a service is killed as a whole, or if the machine loses its power (a start of the machine sets its own).

    `scaling_max_freq` caps the frequency under any governor; under "userspace" it is set by `scaling_setspeed`.
    """

    def __init__(self, root: Path) -> None:
        """Look for cpufreq below `root`, which is /sys."""
        folders = sorted((root / "devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
        self._policies = list({folder.resolve(): folder for folder in folders}.values())  # CPUs may share one
        self._set_ghz: float | None = None
        self._restorer: subprocess.Popen[bytes] | None = None

    @property
    def choices_ghz(self) -> tuple[float, ...]:
        """The frequencies that can be chosen, slowest first; none if that is not possible or not allowed."""
        if not self._policies or not all(os.access(_knob(policy), os.W_OK) for policy in self._policies):
            return ()
        listed = read(self._policies[0] / "scaling_available_frequencies")
        if listed is not None:
            return tuple(sorted(int(khz) / 1e6 for khz in listed.split() if khz.isdigit()))
        ends = [read(self._policies[0] / f"cpuinfo_{end}_freq") for end in ("min", "max")]
        if not all(end and end.isdigit() for end in ends):
            return ()
        slowest, fastest = (int(end or 0) for end in ends)
        return tuple((np.unique(np.rint(np.linspace(slowest, fastest, STEPS))) / 1e6).tolist())

    @property
    def ghz(self) -> float | None:
        """The frequency that the CPUs may have, or have under "userspace"; None if it cannot be chosen."""
        if not self.choices_ghz:
            return None
        khz = read(_knob(self._policies[0]))
        return int(khz) / 1e6 if khz and khz.isdigit() else self._set_ghz

    def set(self, wanted_ghz: float) -> float:
        """Set all CPUs to the possible frequency that is nearest to the wanted one, and return it."""
        chosen = min(self.choices_ghz, key=lambda ghz: abs(ghz - wanted_ghz))
        self._remember()
        for policy in self._policies:
            _knob(policy).write_text(str(round(chosen * 1e6)))
        self._set_ghz = chosen
        return chosen

    def restore(self) -> None:
        """Set all CPUs to what they had before the first change; without one, nothing happens."""
        restorer, self._restorer, self._set_ghz = self._restorer, None, None
        if restorer is not None:
            restorer.communicate(timeout=RESTORE_S)

    def _remember(self) -> None:
        """Start the process that knows what all CPUs had."""
        if self._restorer is not None:
            return
        knobs = [_knob(policy) for policy in self._policies]
        values = [(str(knob), value) for knob in knobs if (value := read(knob)) and value.isdigit()]
        self._restorer = subprocess.Popen(
            ["/bin/sh", "-c", RESTORE, "sh", *(word for pair in values for word in pair)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is meant for this process, not for that one
        )


def read(file: Path) -> str | None:
    """Return the text of a file, or None if it cannot be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return None


def _knob(policy: Path) -> Path:
    return policy / ("scaling_setspeed" if read(policy / "scaling_governor") == "userspace" else "scaling_max_freq")
