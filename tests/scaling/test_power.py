"""The CPU frequency and power of a machine, with files that are made up."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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
    power.close()


def test_the_userspace_governor_has_a_file_of_its_own(root: Path) -> None:
    for folder in root.glob("devices/system/cpu/*/cpufreq"):
        (folder / "scaling_governor").write_text("userspace\n")
        (folder / "scaling_setspeed").write_text("1200000")
    power = Power(executors(FakeCluster(1)), root)
    power.request(Allocation(1, frequency_ghz=9.0), 0)
    assert {file.read_text() for file in root.glob("**/scaling_setspeed")} == {"2000000"}
    power.close()
    assert {file.read_text() for file in root.glob("**/scaling_setspeed")} == {"1200000"}
    assert {file.read_text() for file in root.glob("**/scaling_max_freq")} == {"2000000"}


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
    assert seen.frequencies_ghz == (1.2, 1.6, 2.0)


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


def any_frequency(root: Path) -> None:
    """Turn the CPUs into those of a driver that names only the ends."""
    for folder in root.glob("devices/system/cpu/*/cpufreq"):
        (folder / "scaling_available_frequencies").unlink()
        for name, khz in (("cpuinfo_min_freq", "800000"), ("cpuinfo_max_freq", "3500000"), ("scaling_max_freq", "3500000")):
            (folder / name).write_text(f"{khz}\n")


def caps(root: Path) -> list[str]:
    return [file.read_text().strip() for file in sorted(root.glob("devices/system/cpu/cpu[01]/cpufreq/scaling_max_freq"))]


def test_a_machine_that_names_only_the_ends_has_frequencies_between_them(root: Path) -> None:
    any_frequency(root)
    power = Power(executors(FakeCluster(1)), root)
    choices = power.frequencies_ghz
    assert (choices[0], choices[-1]) == (0.8, 3.5) and len(choices) == 9 and list(choices) == sorted(set(choices))
    assert power.size().frequency_ghz == 3.5, "what it has is one of those that can be chosen"
    for folder in root.glob("devices/system/cpu/*/cpufreq"):
        (folder / "cpuinfo_min_freq").unlink()
    assert power.frequencies_ghz == ()


def test_cpus_that_share_their_frequency_are_set_once(root: Path) -> None:
    (root / "devices/system/cpu/cpu2").mkdir()
    (root / "devices/system/cpu/cpu2/cpufreq").symlink_to(root / "devices/system/cpu/cpu1/cpufreq")
    power = Power(executors(FakeCluster(1)), root)
    power.request(Allocation(1, frequency_ghz=1.2), 0)
    assert caps(root) == ["1200000", "1200000"] and len(power._cpu._policies) == 2
    power.close()


@pytest.mark.parametrize("sets", [(), (1.2,), (1.6, 1.2)])
def test_closing_restores_what_was_there_before(root: Path, sets: tuple[float, ...]) -> None:
    """Each CPU has what it had: not the highest frequency, and not that of its neighbour."""
    (root / "devices/system/cpu/cpu1/cpufreq/scaling_max_freq").write_text("1600000")
    live = FakeLive()
    power = Power(executors(FakeCluster(1), live=live), root)
    for ghz in sets:
        assert power.request(Allocation(1, frequency_ghz=ghz), 0).kind == "done"
        assert set(caps(root)) == {f"{round(ghz * 1e6)}"}
    power.close()
    assert caps(root) == ["2000000", "1600000"] and live.closed
    power.close()
    assert caps(root) == ["2000000", "1600000"]


def test_a_plant_that_cannot_be_closed_keeps_no_frequency(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = executors(FakeCluster(1))
    power = Power(below, root)
    power.request(Allocation(1, frequency_ghz=1.2), 0)

    def fails() -> None:
        raise RuntimeError("no cluster")

    monkeypatch.setattr(below, "close", fails)
    with pytest.raises(RuntimeError):
        power.close()
    assert set(caps(root)) == {"2000000"}


DRIVER = """
import sys
from pathlib import Path
from skytide.spark.scaling.cpufreq import CpuFrequency
CpuFrequency(Path(sys.argv[1])).set(1.2)
print("set", flush=True)
{then}
"""
ENDS: dict[str, tuple[str, Callable[[int], None] | None]] = {
    "returns": ("", None),
    "raises": ("raise SystemError", None),
    "exits at once": ("import os; os._exit(3)", None),
    "interrupted": ("sys.stdin.read()", lambda pid: os.killpg(pid, signal.SIGINT)),
    "terminated": ("sys.stdin.read()", lambda pid: os.kill(pid, signal.SIGTERM)),
    "killed": ("sys.stdin.read()", lambda pid: os.kill(pid, signal.SIGKILL)),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", ENDS)
def test_a_driver_that_ends_in_any_way_leaves_the_machine_as_it_was(root: Path, how: str) -> None:
    then, end = ENDS[how]
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(then=then), str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert driver.stdout is not None and driver.stdout.readline() == b"set\n"
    if end is not None:
        assert set(caps(root)) == {"1200000"}
        end(driver.pid)
    driver.communicate(timeout=30)
    deadline = time.monotonic() + 30
    while set(caps(root)) != {"2000000"}:
        assert time.monotonic() < deadline, f"still {caps(root)}"
        time.sleep(0.01)
