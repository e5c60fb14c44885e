"""`import skytide` loads next to nothing, and what needs no Spark works where Spark is not installed."""

import subprocess
import sys

import pytest

WITHOUT_SPARK = """
import sys

class NoSpark:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoSpark())
"""

USES = {
    "control": """
from skytide import Guard
from skytide.controllers import Mpc, UtilisationThresholds
from skytide.control import Controller
from skytide.records import Allocation, Evaluation, Observation
import skytide.control as control

for kind in (Mpc.latency("2 s"), UtilisationThresholds()):
    assert isinstance(kind, Controller) and kind.build().snapshot() is not None
assert Guard(minimum=1, maximum=4)
assert all(getattr(control, name) is not None for name in control.__all__)
""",
    "admission": """
import numpy as np
from skytide import Profile
from skytide.admission import Admission, Sample

none = np.zeros(2, np.int64)
plan = Admission(capacity_hz=100).build().plan(Sample(0.0, ("a", "b"), none, none, np.zeros(2, np.bool_)), {"a": Profile(max_hz=60), "b": Profile(max_hz=50)})
assert plan.splits.tolist() == [0, 1]
""",
    "queries": """
import pyarrow as pa
from skytide import high, low
from skytide.queries import Aggregate, Measure, Skyline

hotels = pa.table({"price": [50, 60, 70], "stars": [3, 5, 4]})
assert Skyline(low("price") * high("stars")).window(hotels).num_rows == 2
total = Aggregate((Measure.parse("sum(price) AS total"),))
assert total.window(total.pane(hotels)).to_pylist() == [{"total": 180}]
""",
    "what is missing": """
import skytide

try:
    skytide.skyline
except ImportError as error:
    assert "skytide.skyline" in str(error) and "pip install" in str(error), error
else:
    raise AssertionError("skytide.skyline works without Spark?")
assert not hasattr(skytide, "no_such_name")
""",
}


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120)


def test_importing_the_package_imports_none_of_what_it_builds_on() -> None:
    heavy = "'pyspark', 'py4j', 'numpy', 'pyarrow', 'pandas', 'numba', 'datasketches', 'matplotlib', 'rich', 'asyncio'"
    found = run(f"import sys, skytide; dir(skytide); print([name for name in ({heavy}) if name in sys.modules])")
    assert found.stdout.strip() == "[]", found.stderr  # what is left takes some hundredths of a second


def test_preferences_and_controllers_do_not_import_spark() -> None:
    found = run(
        "import sys, skytide; skytide.low, skytide.controllers.Mpc, skytide.slacks.KSlack, skytide.Profile; print('pyspark' in sys.modules)"
    )
    assert found.stdout.strip() == "False", found.stderr


def test_processes_that_plan_a_query_or_read_its_source_import_no_compiler() -> None:
    sources = "skytide.spark.sources.panes, skytide.spark.sources.workload, skytide.spark.fleet.source, skytide.spark.api.stream"
    found = run(f"import sys, {sources}; print([name for name in ('numba', 'pandas', 'matplotlib') if name in sys.modules])")
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize("part", USES)
def test_it_works_without_spark(part: str) -> None:
    found = run(WITHOUT_SPARK + USES[part])
    assert found.returncode == 0, found.stderr


def test_the_specimen_that_needs_spark_is_caught() -> None:
    assert "No module named 'pyspark'" in run(WITHOUT_SPARK + "import skytide.spark.api.stream").stderr
