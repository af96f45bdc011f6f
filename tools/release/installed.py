"""An installation of a wheel in a fresh virtual environment, outside of any checkout, and its figures."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import NamedTuple

_NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
"""Packages that a virtual environment has before anything is installed."""

_RUNS = 5


class Figures(NamedTuple):
    """Bytes of the wheel and of the installation without pip, and the median seconds of ``--help``."""

    wheel_bytes: int
    installed_bytes: int
    help_seconds: float


def try_installation(wheel: Path, pins: str, version: str) -> Figures:
    """Install a wheel and its pinned dependencies, and run it: version, help, and a plan from a snapshot.

    Raises ``ValueError`` with the output of a command that fails, or prints something else than wanted.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        (folder / "pins.txt").write_text(pins)
        pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
        _run(folder, *pip, "install", "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", "pins.txt")
        _run(folder, *pip, "install", "--no-deps", "--no-index", wheel)
        _run(folder, *pip, "check")
        command = folder / "venv" / "bin" / "topiarist"
        printed = _run(folder, command, "--version")
        if printed != f"topiarist, version {version}\n":
            raise ValueError(f"found {printed!r}, wanted version {version}")
        seconds = []
        for _ in range(_RUNS):
            start = time.perf_counter()
            _run(folder, command, "--help")
            seconds.append(time.perf_counter() - start)
        _plan_sample_fleet(folder, command)
        packages = folder / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        sizes = [path.stat().st_size for path in packages.rglob("*") if path.is_file() and not _is_pip(path, packages)]
        return Figures(wheel.stat().st_size, sum(sizes), statistics.median(seconds))


def _is_pip(path: Path, packages: Path) -> bool:
    return path.relative_to(packages).parts[0].partition("-")[0] in _NOT_OURS


def _plan_sample_fleet(folder: Path, command: Path) -> None:
    """Plan the sample fleet of ``topiarist drift --demo`` from its snapshots; one of its manifests is invalid."""
    _run(folder, command, "drift", "--demo", "fleet", code=1)
    (folder / "fleet" / "manifests" / "topics" / "marketing.yaml").unlink()
    words = ("plan", "fleet/manifests", "--cluster", "prod-eu", "--snapshot", "fleet/snapshots/prod-eu.jsonl")
    printed = _run(folder, command, *words)
    if "\nPlan: " not in printed:
        raise ValueError(f"found no summary of a plan: {printed}")


def _run(folder: Path, *words: str | Path, code: int = 0) -> str:
    """Run a command in a folder without this environment's packages; return its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TOPIARIST"))}
    command = list(map(str, words))
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise ValueError(f"{' '.join(command)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout
