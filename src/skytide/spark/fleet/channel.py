"""A folder on the driver's machine through which a `Fleet` and the readers of its queries communicate: Spark runs them in two processes."""

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather

from skytide.admission import Profile

CONTROL, STATUS, STREAMS = "control.json", "status.json", "streams.arrow"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Control:
    """What people want: profiles of streams, and which of them are suspended, or no longer."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    suspended: Mapping[str, bool] = field(default_factory=dict)


class Channel:
    """The folder, with a file for what people want, and files for how the fleet is doing."""

    def __init__(self, path: str) -> None:
        """Use a folder that exists."""
        self.path = path
        self._read_version: tuple[int, int] | None = None
        self._control = Control()

    def write_control(self, control: Control) -> None:
        """Write what people want; readers follow it from their next batch on."""
        profiles = {name: profile.to_json() for name, profile in control.profiles.items()}
        self._write(CONTROL, json.dumps({"profiles": profiles, "suspended": dict(control.suspended)}).encode())

    def control(self) -> Control:
        """Return what people want; what they wanted before, if that cannot be read now."""
        try:
            file_stat = os.stat(self._file(CONTROL))
            version = file_stat.st_ino, file_stat.st_mtime_ns
            if self._read_version == version:
                return self._control
            with open(self._file(CONTROL), "rb") as file:
                values = json.load(file)
        except OSError:
            return self._control
        profiles = {name: Profile.from_json(profile) for name, profile in values["profiles"].items()}
        self._control, self._read_version = Control(profiles, values["suspended"]), version
        return self._control

    def write_status(self, status: Mapping[str, Any], streams: pa.Table | None = None) -> None:
        """Write how the fleet is doing, and now and then how each stream is. If that is not possible, a query goes on without."""
        try:
            if streams is not None:  # first, as who sees a status may ask for the streams
                data = pa.BufferOutputStream()
                feather.write_feather(streams, data, compression="lz4")
                self._write(STREAMS, data.getvalue())
            self._write(STATUS, json.dumps(status).encode())
        except OSError as error:
            _log.warning("cannot write the status of the fleet to %s: %s; the query continues", self.path, error)

    def status(self) -> dict[str, Any] | None:
        """Return how the fleet is doing, or None before the first batch."""
        try:
            with open(self._file(STATUS), "rb") as file:
                status: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return None
        return status

    def streams(self) -> pa.Table | None:
        """Return how each stream is doing, or None before the first batch."""
        try:
            return feather.read_table(self._file(STREAMS), memory_map=False)
        except FileNotFoundError:
            return None

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _write(self, name: str, data: Any) -> None:
        if not os.path.isdir(self.path):  # nobody is there to read it any more
            return
        number, draft = tempfile.mkstemp(dir=self.path)
        try:
            with open(number, "wb") as file:
                file.write(data)
            os.replace(draft, self._file(name))
        except OSError:
            os.unlink(draft)
            raise
