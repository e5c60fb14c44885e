import os
import subprocess
from pathlib import Path

import pytest

from skytide.errors import InvalidInput
from skytide.spark.session import java


def fake_java(home: Path, says: str, status: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {status}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java: tests add what they need."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "_pypi_java", lambda: None)


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_391"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25" 2025-09-16', 25),
        ("No Java runtime present, requesting install.", None),
    ],
)
def test_reads_the_version(tmp_path: Path, says: str, version: int | None) -> None:
    assert java._version(fake_java(tmp_path, says)) == version


def test_java_home_goes_before_path(tmp_path: Path, no_java: None, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home = fake_java(tmp_path / "home", 'version "17"')
    on_path = fake_java(tmp_path / "path", 'version "21"')
    monkeypatch.setattr(java.shutil, "which", lambda name: str(on_path))
    assert java.find_java() == on_path
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.find_java() == at_home


@pytest.mark.parametrize("says", ['version "11.0.2"', "broken"])
def test_an_unfit_java_home_is_passed_over(tmp_path: Path, no_java: None, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    fake_java(tmp_path / "home", says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    pypi = tmp_path / "pypi"
    monkeypatch.setattr(java, "_pypi_java", lambda: pypi)
    assert java.find_java() == pypi


def test_says_what_was_found_and_what_to_install(tmp_path: Path, no_java: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"Java: Spark needs 17 or newer, but there is none; install .*skytide\[java"):
        java.find_java()
    old = fake_java(tmp_path / "old", 'version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(InvalidInput, match=f"but {old} is 11;"):
        java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="nowhere/bin/java is not working;"):
        java.find_java()


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    program = tmp_path / "a folder" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    wrapper = os.path.join(java._wrapped(program), "bin", "java")
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "it's $HOME", "--add-modules=other"]
    output = subprocess.run([wrapper, *given], check=True, capture_output=True, text=True).stdout
    assert output.splitlines() == ["-cp", "a b", "", "it's $HOME", "--add-modules=other"]
