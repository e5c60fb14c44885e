"""An environment for each peer, in .cache/peers, with the versions that were measured. None of them is a dependency of skytide."""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "peers"

REQUIREMENTS = {
    "bytewax": ["bytewax==0.21.1", "moocore==0.3.2", "numba==0.68.1", "numpy==2.4.6"],
    "flink": ["apache-flink==2.3.0", "moocore==0.3.2", "numba==0.68.1", "numpy==2.1.3"],
    "pathway": ["pathway==0.33.0", "moocore==0.3.2", "numba==0.68.1", "numpy==2.4.6"],
    "loop": ["polars==2.1.0", "moocore==0.3.2", "numba==0.68.1", "numpy==2.4.6"],
}


def python(name: str) -> Path:
    """Return the interpreter of an environment; "skytide" is the one that runs now."""
    return FOLDER / name / "bin" / "python" if name in REQUIREMENTS else Path(sys.executable)


def packages(name: str) -> Path | None:
    """Return where an environment has its packages, for an interpreter that is started in another way."""
    return next((FOLDER / name / "lib").glob("python*/site-packages"), None)


def is_ready(name: str) -> bool:
    """Say if an environment has been made, with the versions wanted now."""
    return name not in REQUIREMENTS or (_note(name).is_file() and _note(name).read_text() == _wanted(name))


def make(name: str) -> None:
    """Make an environment, if there is none with these versions."""
    if is_ready(name):
        return
    print(f"Making {FOLDER / name} with {', '.join(REQUIREMENTS[name])} ...", flush=True)
    venv.create(FOLDER / name, with_pip=True, clear=True)
    unpinned = {key: value for key, value in os.environ.items() if not key.endswith("_CONSTRAINT")}  # those of make are skytide's
    install = [str(python(name)), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *REQUIREMENTS[name]]
    subprocess.run(install, check=True, env=unpinned)
    _note(name).write_text(_wanted(name))


def _note(name: str) -> Path:
    return FOLDER / name / "made-of"


def _wanted(name: str) -> str:
    return "\n".join(REQUIREMENTS[name])
