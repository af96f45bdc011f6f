"""The built package: the required files of a clone, built with pip's build backend."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from support.checkout import ROOT

BUILD_SCRIPT = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def copy_sources(clone: Path) -> Path:
    """Copy the required files into a folder, symlinks as symlinks."""
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, clone)
    leave = shutil.ignore_patterns("*.egg-info", "__pycache__")
    for name in ("operator", "schemas", "manifests", "docs/ci"):
        shutil.copytree(ROOT / name, clone / name, symlinks=True, ignore=leave)
    return clone


def build(source: Path, artifact: str, out: Path) -> Path:
    """Build ``sdist`` or ``wheel`` of a copy."""
    command = [sys.executable, "-c", BUILD_SCRIPT, f"build_{artifact}", str(out)]
    said = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True).stdout
    return out / said.splitlines()[-1]
