"""The kernels load wherever they are, whatever can be written to."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skytide

SCRIPT = "from skytide.kernels import skyline; print(skytide.__file__, skyline([[1, 4], [2, 2], [3, 3]]).tolist())"
FOLDER = f"skytide-numba-{os.geteuid()}"

pytestmark = pytest.mark.slow


@pytest.fixture
def sealed(tmp_path: Path) -> dict[str, str]:
    """A copy of the package in which nothing can be cached, a home that is not a folder, and an empty temporary folder.

    Files are where folders would have to be created: that stops even root, whom no permissions stop.
    """
    copy, home, temporary = tmp_path / "site" / "skytide", tmp_path / "home", tmp_path / "tmp"
    shutil.copytree(Path(skytide.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(each for each in copy.rglob("*") if each.is_dir())]:
        (folder / "__pycache__").touch()
    home.touch()
    temporary.mkdir()
    lacking = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": str(copy.parent)}
    return {**{name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}, **lacking}


def load_and_ask(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import skytide; {SCRIPT}"],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=500,
    )


def answers_quietly(done: subprocess.CompletedProcess[str], environment: dict[str, str]) -> bool:
    return done.stdout == f"{environment['PYTHONPATH']}/skytide/__init__.py [True, True, False]\n" and done.stderr == ""


def test_without_a_writable_home_or_package_the_code_is_kept_in_a_temporary_folder(sealed: dict[str, str]) -> None:
    done = load_and_ask(sealed)
    assert answers_quietly(done, sealed), done
    folder = Path(sealed["TMPDIR"], FOLDER)
    assert folder.stat().st_mode & 0o077 == 0
    assert list(folder.rglob("*.nbc"))


@pytest.mark.parametrize("taken", ["by a file", pytest.param("by others", marks=pytest.mark.long)])
def test_without_any_place_each_process_compiles_for_itself(sealed: dict[str, str], taken: str) -> None:
    folder = Path(sealed["TMPDIR"], FOLDER)
    if taken == "by a file":
        folder.touch()
    else:
        folder.mkdir()
        folder.chmod(0o777)
    done = load_and_ask(sealed)
    assert answers_quietly(done, sealed), done
    assert not list(Path(sealed["TMPDIR"]).rglob("*.nb?"))
