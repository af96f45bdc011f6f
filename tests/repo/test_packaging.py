"""The package: what is built from a clone and from a source distribution, and what is installed for work on it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.resources import files
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.repo.packages import build, copy_sources


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone has of the files that packaging needs, symlinks as symlinks."""
    return copy_sources(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def wheel(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from the clone."""
    return zipfile.ZipFile(build(clone, "wheel", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    """The metadata of the wheel."""
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def contents(archive: zipfile.ZipFile) -> dict[str, bytes]:
    return {name: archive.read(name) for name in archive.namelist() if name.startswith("topiarist/")}


def data_files(parent: Path) -> dict[str, bytes]:
    """The data that the package needs: from the folders that its symlinks lead to, and what a page is made of."""
    schemas = {f"schemas/{file.name}": file.read_bytes() for file in (parent / "schemas").glob("*.json")}
    demo = parent / "manifests" / "demo"
    package = parent / "operator" / "topiarist"
    assets = (file for file in (package / "drift" / "outputs" / "assets").rglob("*") if file.is_file())
    return (
        schemas
        | {f"demo/{file.relative_to(demo)}": file.read_bytes() for file in demo.rglob("*.yaml")}
        | {str(file.relative_to(package)): file.read_bytes() for file in assets}
    )


def test_the_wheel_holds_schemas_demo_and_every_module(clone: Path, wheel: zipfile.ZipFile) -> None:
    """Data that lies outside the package in the repository is inside it in the wheel, byte for byte."""
    found = contents(wheel)
    data = data_files(clone)
    assert {"schemas/topic.json", "schemas/cluster.json", "demo/cluster.yaml", "demo/topics/orders.yaml"} <= set(data)
    assert {"drift/outputs/assets/page.html", "drift/outputs/assets/third-party/chart.LICENSE.md"} <= set(data)
    assert {name: found.get(f"topiarist/{name}") for name in data} == data
    source = clone / "operator"
    modules = {str(file.relative_to(source)) for file in source.rglob("*.py")}
    assert modules | {"topiarist/py.typed"} == {name for name in found if name.endswith((".py", ".typed"))}


def test_a_wheel_from_the_source_distribution_is_the_same(clone: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """In a source distribution the symlinks have become files; the wheel built from it has the same contents."""
    with tarfile.open(build(clone, "sdist", tmp_path)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert contents(zipfile.ZipFile(build(unpacked, "wheel", tmp_path))) == contents(wheel)


def test_the_installed_package_finds_its_data() -> None:
    """Also where the project is installed for work on it (editable), through the symlinks."""
    package = files("topiarist")
    found = {name: package.joinpath(name).read_bytes() for name in data_files(ROOT) if package.joinpath(name).is_file()}
    assert found == data_files(ROOT)


def test_an_ordinary_installation_brings_neither_spark_nor_kubernetes(metadata: Message) -> None:
    """The command needs four packages; everything else is behind an extra. The operator judges policies too."""
    requires = metadata.get_all("Requires-Dist", [])
    needed = [line for line in requires if "extra ==" not in line]
    names = sorted(line.partition(">")[0] for line in needed)
    assert names == ["click", "jsonschema-rs", "kazoo", "pyyaml"]
    assert {"drift", "operator", "policy", "dev"} <= set(metadata.get_all("Provides-Extra", []))
    judging = {
        re.sub(r".*extra == ['\"](\w+)['\"]", r"\1", line) for line in requires if line.startswith("cel-expr-python")
    }
    assert judging == {"operator", "policy"}
    assert any(line.startswith("topiarist[drift,operator,policy]") for line in requires)


def test_the_metadata_tells_licence_python_and_version(wheel: zipfile.ZipFile, metadata: Message) -> None:
    """Version from the package itself, licence as SPDX has it and as a file, Python 3.11 or later."""
    from topiarist import __version__

    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0 AND MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    (licence,) = (name for name in wheel.namelist() if name.endswith("/LICENSE"))
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    """``topiarist`` is installed as a command."""
    (name,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    assert wheel.read(name).decode().split() == ["[console_scripts]", "topiarist", "=", "topiarist.cli.main:main"]


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    """``python -m topiarist`` is the command, under its own name."""
    command = [sys.executable, "-m", "topiarist", "--version"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.startswith("topiarist, version ")
