"""The wheels of the pinned packages: the recorded table fits the pins, and its gaps are known."""

from __future__ import annotations

import json
import tomllib
from datetime import date

import check_pins
import pytest
from release import wheels

from support.checkout import ROOT

RECORDED = json.loads(wheels.TABLE.read_text())
PINS = check_pins.parse_pins((ROOT / "constraints.txt").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

MAX_DOWNLOAD = 15_000_000
"""Bytes of the wheel and of the largest wheels of its dependencies, without extras."""


def test_the_table_is_of_the_pinned_versions() -> None:
    """The table has each pinned package in its pinned version; otherwise run ``make wheels``."""
    pinned = {name: pin.text.partition("==")[2].split()[0] for name, pin in PINS.items()}
    assert {name: about["version"] for name, about in RECORDED["packages"].items()} == pinned
    assert date.fromisoformat(RECORDED["date"]).isoformat() == wheels.recorded_on()


def test_the_command_has_wheels_on_common_systems() -> None:
    """The command without extras installs without a compiler, but on ARM with a glibc of 2012."""
    gaps = {system: wheels.gaps_of((), system) for system in wheels.SYSTEMS}
    assert {system for system, missing in gaps.items() if missing} == {"Linux, glibc 2.17, arm64"}


@pytest.mark.parametrize("extra", wheels.EXTRAS)
@pytest.mark.parametrize("processor", ["x86-64", "arm64"])
def test_extras_have_wheels_on_current_systems(extra: str, processor: str) -> None:
    """Each extra has wheels for a glibc of 2018 and for macOS 12, on each Python that the package names."""
    for system in (f"Linux, glibc 2.28, {processor}", f"macOS 12, {processor}"):
        assert wheels.gaps_of((extra,), system) == []


def test_the_download_is_small() -> None:
    """The dependencies of the command without extras are a small download on every system."""
    names = check_pins.closure(PINS, check_pins.required_packages(PROJECT, ()))
    assert sum(RECORDED["packages"][name]["largestWheel"] for name in names) < MAX_DOWNLOAD - 2_000_000


@pytest.mark.parametrize(
    ("names", "system", "missing"),
    [
        (["a-1-py3-none-any.whl"], "Linux, musl 1.2, arm64", []),
        (["a-1-cp311-abi3-manylinux_2_17_x86_64.whl"], "Linux, glibc 2.28, x86-64", []),
        (["a-1-cp312-abi3-manylinux_2_17_x86_64.whl"], "Linux, glibc 2.28, x86-64", ["3.11"]),
        (["a-1-cp312-cp312-manylinux2014_x86_64.whl"], "Linux, glibc 2.17, x86-64", ["3.11", "3.13", "3.14"]),
        (["a-1-cp311-abi3-manylinux_2_28_x86_64.whl"], "Linux, glibc 2.17, x86-64", [*wheels.PYTHONS]),
        (["a-1-cp311-abi3-musllinux_1_1_aarch64.whl"], "Linux, musl 1.2, arm64", []),
        (["a-1-cp311-abi3-macosx_13_0_arm64.whl"], "macOS 12, arm64", [*wheels.PYTHONS]),
    ],
)
def test_gaps_are_found_by_the_tags(names: list[str], system: str, missing: list[str]) -> None:
    """A wheel counts where its tags say that it may be installed."""
    assert wheels.find_gaps(names).get(system, []) == missing


def test_a_lock_file_is_read() -> None:
    """A package without wheels is a source package; one of this folder is left out."""
    registry = {"registry": "of the user"}
    wheel = {"url": "folder/a-1-py3-none-any.whl", "size": 7}
    lock = {
        "package": [
            {"name": "a", "version": "1", "source": registry, "wheels": [wheel]},
            {"name": "b", "version": "2", "source": registry},
            {"name": "wheels", "version": "0", "source": {"virtual": "."}},
        ]
    }
    assert wheels.read_lock(lock) == {
        "a": {"version": "1", "largestWheel": 7, "missing": {}},
        "b": {"version": "2", "largestWheel": None, "missing": "all: a source package"},
    }
