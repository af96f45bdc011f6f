"""The built package: the required files of a clone, built with pip's build backend."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import check_pins

from support.checkout import ROOT

BUILD_SCRIPT = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def copy_sources(clone: Path) -> Path:
    """Copy the required files into a folder, symlinks as symlinks."""
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, clone)
    leave = shutil.ignore_patterns("*.egg-info", "__pycache__")
    for name in ("operator", "schemas", "manifests", "docs/ci"):
        shutil.copytree(ROOT / name, clone / name, symlinks=True, ignore=leave)
    shutil.copy(ROOT / "docs" / "add-a-topic.md", clone / "docs")
    return clone


def build(source: Path, artifact: str, out: Path) -> Path:
    """Build ``sdist`` or ``wheel`` of a copy."""
    command = [sys.executable, "-c", BUILD_SCRIPT, f"build_{artifact}", str(out)]
    said = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True).stdout
    return out / said.splitlines()[-1]


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Install a wheel without extras into a fresh environment; return its interpreter.

    The packages that it needs are links to those of this interpreter, and no others are there.
    """
    venv.create(folder, symlinks=True)
    here = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(here)
    pins = check_pins.parse_pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name in check_pins.closure(pins, check_pins.required_packages(project, ())):
        if name in ("colorama", "tzdata"):  # of other systems
            continue
        found = metadata.distribution(name)
        for top in {Path(str(file)).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (here / top).symlink_to(Path(str(found.locate_file(top))))
    return folder / "bin" / "python"
