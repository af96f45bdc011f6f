"""The wheels that the pinned packages have, by system and Python: ``tests/repo/wheels.json``, and a table of it.

``make wheels`` asks the registry, by a lock file of uv that is not kept. Everything else reads the file, so that tests
need no network. A system is a libc with its oldest release and a processor.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import check_pins
from packaging import tags
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "repo" / "wheels.json"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")

EXTRAS = ("policy", "history", "operator")
"""The extras of the table; PySpark, which ``drift`` needs, is a source package for every system."""


def _manylinux(minor: int, processor: str) -> list[str]:
    names = [f"manylinux_2_{number}" for number in range(minor, 4, -1)]
    return [f"{name}_{processor}" for name in (*names, "manylinux2014", "manylinux2010", "manylinux1")]


def _musllinux(processor: str) -> list[str]:
    return [f"musllinux_1_{minor}_{processor}" for minor in (2, 1, 0)]


SYSTEMS = {
    "Linux, glibc 2.28, x86-64": _manylinux(28, "x86_64"),
    "Linux, glibc 2.28, arm64": _manylinux(28, "aarch64"),
    "Linux, glibc 2.17, x86-64": _manylinux(17, "x86_64"),
    "Linux, glibc 2.17, arm64": _manylinux(17, "aarch64"),
    "Linux, musl 1.2, x86-64": _musllinux("x86_64"),
    "Linux, musl 1.2, arm64": _musllinux("aarch64"),
    "macOS 12, arm64": list(tags.mac_platforms((12, 0), "arm64")),
    "macOS 12, x86-64": list(tags.mac_platforms((12, 0), "x86_64")),
}
"""The platform tags that each system accepts."""


class Gap(NamedTuple):
    """A package without a wheel for a system, on some versions of Python."""

    package: str
    pythons: tuple[str, ...]


def find_gaps(file_names: Iterable[str]) -> dict[str, list[str]]:
    """Return the versions of Python by system for which none of the wheels fits; systems without any are left out."""
    offered = set[tags.Tag]().union(*(parse_wheel_filename(name)[3] for name in file_names))
    missing = {
        system: [python for python in PYTHONS if offered.isdisjoint(_accepted(python, platforms))]
        for system, platforms in SYSTEMS.items()
    }
    return {system: pythons for system, pythons in missing.items() if pythons}


def _accepted(python: str, platforms: list[str]) -> Iterator[tags.Tag]:
    """Yield the tags of wheels that a Python accepts on a system."""
    version = [int(number) for number in python.split(".")]
    yield from tags.cpython_tags(version, platforms=platforms)
    yield from tags.compatible_tags(version, f"cp{version[0]}{version[1]}", platforms)


def read_lock(lock: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the table for each package of a lock file: version, largest wheel in bytes, gaps."""
    packages = {}
    for package in lock["package"]:
        if "registry" not in package["source"]:
            continue
        wheels = package.get("wheels", [])
        names = [wheel["url"].rpartition("/")[2] for wheel in wheels]
        packages[package["name"]] = {
            "version": package["version"],
            "largestWheel": max((wheel["size"] for wheel in wheels), default=None),
            "missing": find_gaps(names) if names else "all: a source package",
        }
    return packages


def ask_registry() -> dict[str, Any]:
    """Return the table of today, by uv and the registry that it is configured for."""
    pins = check_pins.parse_pins((ROOT / "constraints.txt").read_text())
    wanted = [pin.text.partition("\\")[0].strip() for pin in pins.values()]
    project = {"name": '"wheels"', "version": '"0"', "requires-python": '">=3.11"', "dependencies": json.dumps(wanted)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pyproject.toml").write_text("[project]\n" + "".join(f"{k} = {v}\n" for k, v in project.items()))
        command = [str(Path(sys.executable).parent / "uv"), "lock", "--quiet", "--no-config", "--project", name]
        subprocess.run(command, check=True)
        lock = tomllib.loads((folder / "uv.lock").read_text())
    return {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "packages": read_lock(lock)}


def gaps_of(extras: Iterable[str], system: str) -> list[Gap]:
    """Return the gaps of an installation with some extras on a system."""
    packages = json.loads(TABLE.read_text())["packages"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = check_pins.parse_pins((ROOT / "constraints.txt").read_text())
    names = check_pins.closure(pins, check_pins.required_packages(project, extras))
    missing = {name: packages[name]["missing"] for name in names if not isinstance(packages[name]["missing"], str)}
    return [Gap(name, tuple(gaps[system])) for name, gaps in missing.items() if system in gaps]


def recorded_on() -> str:
    """Return the day on which the registry was asked."""
    date: str = json.loads(TABLE.read_text())["date"]
    return date


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of a page: a system, the command, and each extra."""
    for system in SYSTEMS:
        own = gaps_of((), system)
        yield system, _cell(own), *(_cell(gaps_of((extra,), system)) for extra in EXTRAS)


def _cell(gaps: list[Gap]) -> str:
    names = ", ".join(f"{gap.package}{_only(gap.pythons)}" for gap in gaps)
    return f"no: {names}" if names else "yes"


def _only(pythons: tuple[str, ...]) -> str:
    return "" if pythons == PYTHONS else f" on Python {', '.join(pythons)}"


if __name__ == "__main__":
    TABLE.write_text(json.dumps(ask_registry(), indent=1) + "\n")
