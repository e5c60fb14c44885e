"""The state of an auto-scaler in a file that is always complete."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from skytide.errors import InvalidInput
from skytide.errors.checks import refused

KNOWN = {"controllers", "guard"}
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
            state = json.loads(self._path.read_text() or "{}")
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise InvalidInput(
                value=f"store={str(self._path)!r}",
                reason=f"holds something else ({error})",
                remedy="name another file, or remove this one to learn again",
            ) from error
        if not isinstance(state, dict) or not state.keys() <= KNOWN:
            raise InvalidInput(
                value=f"store={str(self._path)!r}", reason="holds something else, which would be lost", remedy="name another file"
            )
        return state

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
