"""A fresh machine: what is installed and when, and the Makefile under conditions that machines differ in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path
from threading import Thread

import check_pins
import environment
import pytest
from packaging.requirements import Requirement

from support import namespaces
from support.checkout import ROOT
from support.repo.packages import copy_sources
from support.waiting import wait_until

TARGETS = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a part of the checkout, in a path with blanks, as the current folder."""
    folder = tmp_path / "a path with blanks"
    folder.mkdir()
    copy_sources(folder)
    for name in ("Makefile", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(folder)
    for name in ("TOPIARIST_CACHE", "PYTHON", "MAKEFLAGS", "MAKELEVEL", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def installed(checkout: Path) -> Path:
    """Return such a checkout with a complete ``.venv``: links to the packages of this interpreter."""
    venv.create(environment.VENV, symlinks=True)
    packages = Path(sysconfig.get_path("purelib"))
    here = checkout / environment.VENV / packages.relative_to(sys.prefix)
    for each in packages.iterdir():
        if "topiarist" not in each.name:
            (here / each.name).symlink_to(each)
    (here / "topiarist.pth").write_text(f"{checkout}/operator\n")
    (environment.VENV / "made-for").write_text(environment.build_key(environment.VENV))
    for stage in environment.STAGES:
        (environment.VENV / stage).write_text(environment.stage_key(stage))
    return checkout


class Installer:
    """A replacement for the commands that install: records them, and makes the folders that they make."""

    def __init__(self, checkout: Path) -> None:
        self._venv = checkout / ".venv"
        self.commands: list[str] = []
        self.before: Callable[[], object] = lambda: None

    def run(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        """Record a command by the words that tell it from others."""
        self.before()
        words = [word for word in ("venv", "pip", "uv", "--editable", "--target") if word in map(_name, command)]
        self.commands.append(" ".join(words))
        if "venv" in words:
            (self._venv / "bin").mkdir(parents=True)


def _name(word: str) -> str:
    return Path(word).name


@pytest.fixture
def installer(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    """Replace the commands that install into a checkout."""
    found = Installer(checkout)
    monkeypatch.setattr(environment, "run", found.run)
    monkeypatch.setattr(environment, "pip_settings", dict)
    return found


STAGE = ["pip uv", "pip uv --editable"]


def make(*words: str, start: list[str] | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run make in the current folder."""
    return subprocess.run(
        [*(start or []), "make", *words],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def closure(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Return all installed packages that a package needs, from their metadata."""
    found = set[str]()
    for line in requires(name) or ():
        requirement = Requirement(line)
        wanted = (requirement.marker is None) or any(
            requirement.marker.evaluate({"extra": extra}) for extra in extras or {""}
        )
        if wanted:
            found |= {check_pins.package_name(requirement.name)} | closure(
                requirement.name, frozenset(requirement.extras)
            )
    return found


@pytest.mark.usefixtures("checkout")
def test_the_demo_installs_what_it_needs() -> None:
    """The pins of the demo are the command's packages and PySpark, which has ZooKeeper, by their metadata."""
    pins = check_pins.parse_pins(environment.stage_pins("demo"))
    assert set(pins) == closure("topiarist") | {"pyspark"} | closure("pyspark")
    assert "pytest" not in pins
    assert environment.stage_pins("demo").count("--hash=") >= len(pins)


def test_a_stage_is_installed_once(installer: Installer) -> None:
    """The demo's stage is completed by the second one, and nothing is installed twice."""
    assert environment.main(["demo"]) == environment.main(["demo"]) == 0
    assert installer.commands == ["venv", "pip", *STAGE]
    assert environment.main(["ready"]) == environment.main(["ready"]) == environment.main(["demo"]) == 0
    assert installer.commands == ["venv", "pip", *STAGE, *STAGE]


@pytest.mark.parametrize("file", ["constraints.txt", "pyproject.toml"])
def test_changed_pins_are_installed(installer: Installer, file: str) -> None:
    """A change of the pins or of the project installs again, into the same ``.venv``, whatever the time of the file."""
    environment.main(["ready"])
    del installer.commands[:]
    time = Path(file).stat().st_mtime
    content = Path(file).read_text().replace("click==8", "click==9").replace('name = "topiarist"', 'name = "other"')
    Path(file).write_text(content)
    os.utime(file, (time, time))
    assert environment.main(["ready"]) == 0
    assert installer.commands == STAGE * 2


def test_another_python_makes_it_anew(
    installer: Installer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ``.venv`` of another Python, or of another place, is not used: it is replaced, and a message says so."""
    environment.main(["ready"])
    Path(".venv", "of the first").touch()
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _name: "cpython-399-elsewhere")
    capsys.readouterr()
    assert environment.main(["demo"]) == 0
    assert ".venv is not for cpython-399-elsewhere" in capsys.readouterr().err
    assert not Path(".venv", "of the first").exists()
    assert installer.commands == ["venv", "pip", *STAGE, *STAGE, "venv", "pip", *STAGE]
    assert not Path(".venv", "ready").exists()


def test_an_interrupted_installation_is_completed(installer: Installer) -> None:
    """After a failure the next run installs what is missing, and the failed command is named."""
    failing = True

    def fail() -> None:
        if failing and len(installer.commands) == 2:
            raise subprocess.CalledProcessError(2, ["uv"])

    installer.before = fail
    assert environment.main(["demo"]) == 1
    failing = False
    assert environment.main(["demo"]) == 0
    assert installer.commands == ["venv", "pip", *STAGE]


def test_two_installations_at_once_are_one(installer: Installer, capsys: pytest.CaptureFixture[str]) -> None:
    """A second installation in the same checkout waits for the first, and finds nothing left to do."""
    said = ""

    def second_waits() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return "Waiting for another installation" in said

    threads = [Thread(target=environment.main, args=[["ready"]]) for _ in range(2)]
    installer.before = lambda: wait_until(second_waits, "the second installation")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert installer.commands == ["venv", "pip", *STAGE, *STAGE]


def test_a_folder_is_replaced_whole(installer: Installer) -> None:
    """The packages of a tool are put in place when they are complete, and installed again if the pins change."""
    environment.prepare_venv()
    folder, pins = Path("cache", "tool"), Path("pins")
    pins.write_text("one==1")
    assert environment.main([str(folder), str(pins)]) == environment.main([str(folder), str(pins)]) == 0
    assert installer.commands == ["venv", "pip", "pip uv --target"]
    (folder / "packages" / "old").touch()
    pins.write_text("one==2")
    assert environment.main([str(folder), str(pins)]) == 0
    assert list(folder.joinpath("packages").iterdir()) == []


def test_pip_settings_are_for_uv_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index and certificates that pip is configured with, by a file or a variable, are used."""
    monkeypatch.setattr(environment, "PYTHON", Path(sys.executable))
    monkeypatch.setenv("PIP_INDEX_URL", "https://localhost/simple")
    monkeypatch.setenv("PIP_CERT", "/etc/own certificates.pem")
    assert environment.pip_settings() == {
        "UV_DEFAULT_INDEX": "https://localhost/simple",
        "SSL_CERT_FILE": "/etc/own certificates.pem",
    }


def test_no_command_splits_a_path_with_blanks(installed: Path) -> None:
    """In each command of each target the blanks of the checkout's path are quoted."""
    done = make("--dry-run", *TARGETS)
    assert done.returncode == 0, done.stderr
    assert str(installed).replace(" ", "\\ ") in done.stdout
    assert str(installed) not in re.sub(r'"[^"]*"', "", done.stdout)


@pytest.mark.usefixtures("installed")
def test_an_installed_checkout_uses_its_python() -> None:
    """Without PYTHON the interpreter of ``.venv`` is used; with it, the named one decides if ``.venv`` may stay."""
    assert '".venv/bin/python" tools/environment.py ready' in make("--dry-run", "lint").stdout
    assert '"python3.99" tools/environment.py ready' in make("--dry-run", "PYTHON=python3.99", "lint").stdout
    assert '"python3.99" tools/environment.py ready' in make("--dry-run", "lint", PYTHON="python3.99").stdout
    Path(".venv", "bin", "python").unlink()
    assert '"python3" tools/environment.py ready' in make("--dry-run", "lint").stdout


def test_without_a_right_python_it_says_what_to_install(checkout: Path) -> None:
    """An interpreter that is too old, or missing, is named with the command to use another."""
    old = checkout / "old python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\nexit 1\n')
    old.chmod(0o755)
    for python, found in ((str(old), "Python 3.9.2"), ("python3.99", "not there")):
        done = make(f"PYTHON={python}", "demo")
        assert done.returncode != 0
        assert f"Python 3.11 or later is needed; '{python}' is {found}" in done.stderr
        assert "make PYTHON=python3.11" in done.stderr
        assert not Path(".venv").exists()


def test_bytecode_is_kept() -> None:
    """Tests and tools keep their bytecode also where the environment forbids it, as images of containers do."""
    show = "--eval=show: ; @env"
    assert "PYTHONDONTWRITEBYTECODE" not in make("-C", str(ROOT), show, "show", PYTHONDONTWRITEBYTECODE="1").stdout


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_the_demo_runs_on_any_machine() -> None:
    """The demo runs without root, without a network, without leave to write bytecode, in a path with blanks, and twice
    at once.
    """
    start = [*namespaces.no_network(), *namespaces.ordinary_user()]
    command = [*start, "sh", "-c", "id -u; tail -n +3 /proc/net/dev"]
    user, *interfaces = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert (user == "0", [line.split()[0] for line in interfaces]) == (False, ["lo:"])
    found: list[subprocess.CompletedProcess[str]] = []

    def run() -> None:
        found.append(make("demo", start=start, PYTHONDONTWRITEBYTECODE="1"))

    threads = [Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for done in found:
        assert done.returncode == 0, done.stderr
        assert "Installing" not in done.stderr
        assert "End of the demo" in done.stdout
    assert len(found) == 2
