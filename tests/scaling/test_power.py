"""The CPU frequency and power of a machine, with files that are made up."""

from pathlib import Path

import pytest
from support.fake_cluster import FakeCluster, FakeLive, executors

from skytide.records import Allocation, Outcome
from skytide.spark.scaling.pool import FIRST_LEAD_S
from skytide.spark.scaling.power import ESTIMATED, MEASURED, Power


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the files that Linux has."""
    for cpu in (0, 1):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/cpufreq"
        folder.mkdir(parents=True)
        files = {
            "scaling_available_frequencies": "2000000 1600000 1200000\n",
            "scaling_max_freq": "2000000",
            "scaling_governor": "schedutil",
        }
        for name, text in files.items():
            (folder / name).write_text(text)
    for zone, energy in (("intel-rapl:0", "1000000"), ("intel-rapl:0:0", "900000"), ("intel-rapl:1", "5000000")):
        folder = tmp_path / "class/powercap" / zone
        folder.mkdir(parents=True)
        (folder / "energy_uj").write_text(energy)
    return tmp_path


def test_the_nearest_frequency_is_set_on_all_cpus(root: Path) -> None:
    cluster = FakeCluster(2)
    power = Power(executors(cluster), root)
    assert power.frequencies_ghz == (1.2, 1.6, 2.0)
    assert power.size() == Allocation(2, frequency_ghz=2.0)
    assert power.request(Allocation(2, frequency_ghz=1.5), 0) == Outcome("done", "setting the CPU frequency to 1.6 GHz")
    assert (power.size().frequency_ghz, cluster.requested) == (1.6, [])
    assert {file.read_text() for file in root.glob("**/scaling_max_freq")} == {"1600000"}
    assert power.request(Allocation(2, frequency_ghz=1.6), 0).kind == "kept"
    asked = power.request(Allocation(3, frequency_ghz=1.6), 0)
    assert asked == Outcome("asked", "requesting 1 more executor (3 in total), keeping the CPU frequency at 1.6 GHz")
    assert cluster.requested == [3]
    cluster.accepts = False
    assert power.request(Allocation(4, frequency_ghz=1.2), 0).kind == "done"
    assert power.request(Allocation(4, frequency_ghz=1.2), 0).kind == "refused"


def test_the_userspace_governor_has_a_file_of_its_own(root: Path) -> None:
    for folder in root.glob("devices/system/cpu/*/cpufreq"):
        (folder / "scaling_governor").write_text("userspace\n")
        (folder / "scaling_setspeed").write_text("1200000")
    power = Power(executors(FakeCluster(1)), root)
    power.request(Allocation(1, frequency_ghz=9.0), 0)
    assert {file.read_text() for file in root.glob("**/scaling_setspeed")} == {"2000000"}


def test_power_is_measured_or_estimated_and_says_which(root: Path) -> None:
    power = Power(executors(FakeCluster(2)), root)
    first = power.power(10.0)
    assert first is not None and first.source == ESTIMATED and first.watts > 0
    (root / "class/powercap/intel-rapl:0/energy_uj").write_text("31000000")
    (root / "class/powercap/intel-rapl:1/energy_uj").write_text("25000000")
    read = power.power(20.0)
    assert read is not None and (read.watts, read.source) == (5.0, MEASURED)
    (root / "class/powercap/intel-rapl:1/energy_uj").write_text("0")  # it wrapped around
    wrapped = power.power(30.0)
    assert wrapped is not None and wrapped.source == ESTIMATED


def test_where_there_is_nothing_nothing_is_claimed(tmp_path: Path) -> None:
    power = Power(executors(FakeCluster(1)), tmp_path)
    assert (power.frequencies_ghz, power.size(), power.power(0)) == ((), Allocation(1), None)
    refused = power.request(Allocation(1, frequency_ghz=2.0), 0)
    assert refused.kind == "refused" and "no cpufreq" in refused.text
    assert power.summary() == "the CPU frequency cannot be set here; power is not known"


def test_what_is_seen_has_the_frequency_and_the_power(root: Path) -> None:
    power = Power(executors(FakeCluster(2)), root)
    seen = power.observe(10.0)
    assert seen is not None and seen.allocation == Allocation(2, frequency_ghz=2.0) and (seen.power_w or 0) > 0


def test_everything_else_is_left_to_the_plant_below(root: Path) -> None:
    live, cluster = FakeLive(), FakeCluster(2)
    below = executors(cluster, live=live)
    power = Power(below, root)
    power.request(Allocation(3, frequency_ghz=2.0), 0)
    assert (power.lead_s, power.is_changing, power.what) == (FIRST_LEAD_S, True, "executors")
    cluster.settle()
    power.track(1)
    power.keep(Allocation(2))
    assert power.size().workers == 3 and below._pool.wanted == {below: 2}
    power.request(Allocation(3, frequency_ghz=1.2), 2)
    assert below._pool.wanted == {below: 3}, "what is there is wanted, and another query must not take it away"
    power.close()
    assert live.closed and below._pool.wanted == {}
