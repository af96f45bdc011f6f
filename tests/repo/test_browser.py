"""The script that finds or installs a Chromium for the page tests: its output and its errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT

SCRIPT = ROOT / "tools" / "browser.sh"


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, str]:
    """Return an environment without a browser and with an empty cache."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "env", "find", "grep", "id", "mkdir", "sort", "tail"):
        (tools / name).symlink_to(shutil.which(name) or name)
    return {"PATH": str(tools), "TOPIARIST_CACHE": str(tmp_path / "cache")}


def program(path: Path, text: str = "exit 1") -> Path:
    """Return a program that only does this."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)
    return path


def run(environment: dict[str, str], python: Path) -> subprocess.CompletedProcess[str]:
    """Run the script with a replacement for Python."""
    return subprocess.run([SCRIPT, python], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["chromium", "chromium-headless-shell", "google-chrome"])
def test_what_is_installed_is_taken(plain: dict[str, str], tmp_path: Path, name: str) -> None:
    """The script uses an installed browser of any name, installs nothing and prints no message."""
    browser = program(tmp_path / "bin" / name)
    done = run(plain, program(tmp_path / "python", "echo called >&2"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{browser}\n", "")


def test_what_is_named_comes_first(plain: dict[str, str], tmp_path: Path) -> None:
    """A configured browser takes precedence over all installed browsers."""
    program(tmp_path / "bin" / "chromium")
    mine = program(tmp_path / "mine")
    assert run({**plain, "TOPIARIST_CHROMIUM": str(mine)}, mine).stdout == f"{mine}\n"


def test_one_is_installed_once(plain: dict[str, str], tmp_path: Path) -> None:
    """Playwright installs a browser into the cache, and the next run uses it."""
    made = tmp_path / "cache" / "playwright" / "chromium-1" / "chrome-headless-shell"
    copy = f"[ -e {made} ] && exit 1; mkdir -p {made.parent} && echo >{made} && echo installed"
    python = program(tmp_path / "python", f'[ "$*" = "-m playwright install --only-shell chromium" ] || exit 1; {copy}')
    first, second = run(plain, python), run(plain, python)
    assert (first.returncode, first.stdout) == (second.returncode, second.stdout) == (0, f"{made}\n")
    assert "installed" in first.stderr
    assert second.stderr == ""


def test_without_any_it_says_what_to_do(plain: dict[str, str], tmp_path: Path) -> None:
    """Without a browser the script fails with instructions, so that no test is skipped."""
    done = run(plain, program(tmp_path / "python"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-1].startswith("A Chromium is needed")
    assert "TOPIARIST_CHROMIUM" in done.stderr


@pytest.mark.slow
def test_without_a_browser_the_tests_fail(tmp_path: Path) -> None:
    """Without a browser the tests fail instead of being skipped, and the failure has instructions."""
    test = ROOT / "tests" / "browser" / "test_page_looks.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    environment = {**os.environ, "PATH": str(tmp_path), "TOPIARIST_CHROMIUM": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert " skipped" not in done.stdout
