"""Commands are found by entry points: each is loaded when it is asked for, and without the laboratory the core's are there."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skytide.cli import main
from skytide.loop.recording import save
from skytide.records import Allocation, Observation

command_line = import_module("skytide.cli.main")  # `skytide.cli.main` is its function
CORE = ("checkpoint", "replay", "submit")
WITHOUT_THE_LABORATORY = """
import sys

sys.modules |= dict.fromkeys(("matplotlib", "rich", "skytide_lab"))  # as if they were not installed
"""


@pytest.fixture
def no_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    core = [entry for entry in command_line.entry_points(group=command_line.COMMANDS) if entry.name in CORE]
    monkeypatch.setattr(command_line, "entry_points", lambda group: core)
    monkeypatch.setattr(command_line, "find_spec", lambda name: None)


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    return ended.value.code, " ".join((printed.out + printed.err).split())


@pytest.mark.usefixtures("no_laboratory")
@pytest.mark.parametrize("command", ["run", "fleet", "trading", "traffic", "hotels", "lab"])
def test_without_the_laboratory_its_commands_say_how_to_get_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = said([command, "--out", "x"], capsys)
    assert status == 2
    assert f"{command}: no such command; there are checkpoint, replay, submit;" in printed
    assert "pip install 'skytide[lab]'" in printed


@pytest.mark.usefixtures("no_laboratory")
def test_without_the_laboratory_the_help_says_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = said(["--help"], capsys)
    assert status == 0 and "pip install 'skytide[lab]'" in printed
    assert all(command in printed for command in CORE) and "hotels" not in printed


def test_with_the_laboratory_all_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = said(["--help"], capsys)
    assert status == 0 and "pip install" not in printed
    assert all(f" {command} " in printed for command in (*CORE, "fleet", "hotels", "lab", "run", "trading"))
    status, printed = said(["walk"], capsys)
    assert status == 2 and "walk: no such command" in printed and "pip install" not in printed


def test_only_the_command_that_is_asked_for_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def add_arguments(parser: Any) -> None:
        parser.add_argument("n", type=int)
        parser.set_defaults(run=lambda options: options.n)

    def refuse() -> Any:
        raise AssertionError("nobody asked for it")

    mine = SimpleNamespace(name="mine", load=lambda: SimpleNamespace(HELP="of somebody", add_arguments=add_arguments))
    other = SimpleNamespace(name="other", load=refuse)
    monkeypatch.setattr(command_line, "entry_points", lambda group: [other, mine])
    assert main(["mine", "7"]) == 7
    with pytest.raises(AssertionError, match="nobody"):
        main(["--help"])  # which lists all


def test_the_help_loads_neither_spark_nor_what_draws() -> None:
    code = """
import sys
from skytide.cli import main

try:
    main(["--help"])
except SystemExit:
    pass
print([name for name in ("matplotlib", "numba", "pyarrow", "pyspark", "rich") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_replay_needs_nothing_of_the_laboratory(tmp_path: Path) -> None:
    save([Observation(10.0 * n, 10.0, Allocation(2), 100, 100, 0.5) for n in range(1, 9)], tmp_path / "seen.parquet")
    code = f"""{WITHOUT_THE_LABORATORY}
from skytide.cli import main

asked = ["replay", {str(tmp_path / "seen.parquet")!r}, "--controller", "rules"]
assert main(asked) == 0
assert main([*asked, "--picture", {str(tmp_path / "seen.png")!r}]) == 1
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "as recorded" in ran.stdout and "worker seconds" in ran.stdout
    assert "seen.png: matplotlib is not installed; pip install matplotlib" in ran.stderr
