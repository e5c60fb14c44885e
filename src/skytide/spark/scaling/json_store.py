"""The state of an auto-scaler in a file that is always complete, wherever a checkpoint may be."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.loop.ports import StateStore
from skytide.spark.checkpoint.files import Files
from skytide.spark.checkpoint.place import place_of

KNOWN = {"controllers", "guard", "size"}
"""What the state of an auto-scaler consists of; a file with anything else belongs to somebody else."""


class JsonStore:
    """A JSON file, replaced by a rename."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Refuse a file that cannot be written, now rather than in the middle of the night."""
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise refused("store", path, "not a path", "name a file in a folder of yours")
        try:
            self._path = Path(os.path.realpath(path))
            if self._path.exists() and not self._path.is_file():
                raise refused("store", str(path), "not a plain file", "name a file in a folder of yours")
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._write(self.load())
        except InvalidInput:
            raise
        except (OSError, ValueError) as error:
            raise InvalidInput(
                value=f"store={str(path)!r}", reason=f"cannot be written ({error})", remedy="name a file in a folder of yours"
            ) from error

    def load(self) -> dict[str, Any]:
        """Return what was saved last, or an empty dict."""
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise _something_else(str(self._path), str(error)) from error
        return _state(text, str(self._path))

    def save(self, state: dict[str, Any]) -> None:
        """Save a state completely, or not at all."""
        self._write(state)

    def _write(self, state: dict[str, Any]) -> None:
        number, draft = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
        try:
            with open(number, "w") as file:
                file.write(json.dumps(state))
            if self._path.exists():
                shutil.copymode(self._path, draft)
            os.replace(draft, self._path)
        except BaseException:
            os.unlink(draft)
            raise


class ObjectStore:
    """A JSON object in an object store or on another file system than a disk; each is replaced as a whole."""

    def __init__(self, files: Files, name: str) -> None:
        """Refuse a place that cannot be written, now rather than in the middle of the night."""
        self._files, self._name, self._uri = files, name, f"{files.uri}/{name}"
        try:
            self.save(self.load())
        except OSError as error:
            raise InvalidInput(
                value=f"store={self._uri!r}",
                reason=f"cannot be written ({str(error).splitlines()[0]})",
                remedy="name a file in a folder of yours, and check the settings of its file system (spark.hadoop.fs.*)",
            ) from None

    def load(self) -> dict[str, Any]:
        """Return what was saved last, or an empty dict."""
        data = self._files.read_if_there(self._name)
        return {} if data is None else _state(data.decode(errors="replace"), self._uri)

    def save(self, state: dict[str, Any]) -> None:
        """Save a state completely, or not at all."""
        self._files.put(self._name, json.dumps(state).encode())


def store_of(spark: SparkSession, store: Any) -> StateStore:
    """Return the file that was named as the option `store`: on a disk, or wherever else a checkpoint may be."""
    text = os.fspath(store) if isinstance(store, str | os.PathLike) else None
    if not isinstance(text, str) or not text.rpartition("/")[2]:
        raise refused("store", store, "not the name of a file", 'name one in a folder of yours, such as "/data/scaler.json"')
    folder, slash, name = text.rpartition("/")
    place = place_of(spark, folder or slash or ".", "store")
    local = place.uri.startswith("file:")
    return JsonStore(f"{place.uri.removeprefix('file://')}/{name}") if local else ObjectStore(Files(place.uri, place.options), name)


def _state(text: str, where: str) -> dict[str, Any]:
    try:
        state = json.loads(text or "{}")
    except ValueError as error:
        raise _something_else(where, str(error)) from error
    if not isinstance(state, dict) or not state.keys() <= KNOWN:
        raise InvalidInput(value=f"store={where!r}", reason="holds something else, which would be lost", remedy="name another file")
    return state


def _something_else(where: str, why: str) -> InvalidInput:
    return InvalidInput(
        value=f"store={where!r}",
        reason=f"holds something else ({why})",
        remedy="name another file, or remove this one to learn again",
    )
