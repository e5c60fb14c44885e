"""The contracts of pyproject.toml hold, and each one catches a guilty specimen."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LINTER = Path(sys.executable).with_name("lint-imports")
LAYERS = "Each layer imports only those below it"
PYSPARK = "Only skytide.spark imports pyspark"
NUMBA = "Only skytide.kernels imports numba"


def broken_contracts(folder: Path) -> set[str]:
    output = subprocess.run(
        [LINTER, "--no-cache", "--no-logo", "--config", REPOSITORY / "pyproject.toml"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    verdicts = [line.split() for line in output.splitlines() if line.endswith((" KEPT", " BROKEN"))]
    assert {" ".join(words) for *words, _ in verdicts} == {LAYERS, PYSPARK, NUMBA}, output
    return {" ".join(words) for *words, verdict in verdicts if verdict == "BROKEN"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(REPOSITORY / "src" / "skytide", tmp_path / "skytide", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    assert broken_contracts(copy) == set()


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("kernels/guilty.py", "import skytide.queries", LAYERS),
        ("spark/guilty.py", "import skytide.sim", LAYERS),
        ("sim/guilty.py", "import skytide.spark", LAYERS),
        ("control/guilty.py", "import skytide.routing", LAYERS),
        ("admission/guilty.py", "import skytide.control", LAYERS),
        ("loop/guilty.py", "import skytide.cli", LAYERS),
        ("routing/guilty.py", "import skytide.keyed", LAYERS),
        ("nowhere/__init__.py", "", LAYERS),
        ("__init__.py", "import pyspark", PYSPARK),
        ("lab/guilty.py", "import pyspark", PYSPARK),
        ("sim/guilty.py", "from pyspark.sql import SparkSession", PYSPARK),
        ("windows/guilty.py", "import numba", NUMBA),
    ],
)
def test_a_guilty_module_is_caught(copy: Path, module: str, line: str, broken: str) -> None:
    guilty = copy / "skytide" / module
    guilty.parent.mkdir(exist_ok=True)
    guilty.write_text(f"{line}\n")
    assert broken_contracts(copy) == {broken}
