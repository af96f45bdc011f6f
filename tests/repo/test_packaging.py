"""The package: builds from a clone and from a source distribution, and editable installations."""

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

pytestmark = pytest.mark.xdist_group("packages")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the packaging files of a clone, symlinks as symlinks."""
    return copy_sources(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def wheel(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Return the wheel, built from the clone."""
    return zipfile.ZipFile(build(clone, "wheel", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    """Return the metadata of the wheel."""
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def contents(archive: zipfile.ZipFile) -> dict[str, bytes]:
    return {name: archive.read(name) for name in archive.namelist() if name.startswith("topiarist/")}


def data_files(parent: Path) -> dict[str, bytes]:
    """Return the required data of the package: the targets of its symlinks, and the parts of the report page."""
    schemas = {f"schemas/{file.name}": file.read_bytes() for file in (parent / "schemas").glob("*.json")}
    demo = parent / "manifests" / "demo"
    package = parent / "operator" / "topiarist"
    folders = (package / "drift" / "outputs" / "assets", package / "output" / "html" / "assets")
    assets = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return (
        schemas
        | {f"demo/{file.relative_to(demo)}": file.read_bytes() for file in demo.rglob("*.yaml")}
        | {"add-a-topic.md": (parent / "docs" / "add-a-topic.md").read_bytes()}
        | {f"ci/{file.name}": file.read_bytes() for file in (parent / "docs" / "ci").iterdir()}
        | {str(file.relative_to(package)): file.read_bytes() for file in assets}
    )


@pytest.mark.slow
def test_the_wheel_holds_schemas_demo_and_every_module(clone: Path, wheel: zipfile.ZipFile) -> None:
    """The wheel contains the data from outside the package, byte for byte."""
    found = contents(wheel)
    data = data_files(clone)
    wanted = {
        "schemas/topic.json",
        "schemas/cluster.json",
        "demo/cluster.yaml",
        "demo/topics/orders.yaml",
        "ci/github.yml",
    }
    assert wanted <= set(data)
    assert {"drift/outputs/assets/page.html", "output/html/assets/page.css"} <= set(data)
    assert {name: found.get(f"topiarist/{name}") for name in data} == data
    source = clone / "operator"
    modules = {str(file.relative_to(source)) for file in source.rglob("*.py")}
    assert modules | {"topiarist/py.typed"} == {name for name in found if name.endswith((".py", ".typed"))}


@pytest.mark.slow
def test_a_wheel_from_the_source_distribution_is_the_same(clone: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """A wheel from the source distribution, which has files instead of symlinks, has the same contents."""
    with tarfile.open(build(clone, "sdist", tmp_path)) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert contents(zipfile.ZipFile(build(unpacked, "wheel", tmp_path))) == contents(wheel)


def test_the_installed_package_finds_its_data() -> None:
    """The package finds its data through the symlinks in an editable installation as well."""
    package = files("topiarist")
    found = {name: package.joinpath(name).read_bytes() for name in data_files(ROOT) if package.joinpath(name).is_file()}
    assert found == data_files(ROOT)


@pytest.mark.slow
def test_an_ordinary_installation_brings_neither_spark_nor_kubernetes(metadata: Message) -> None:
    """The command needs five packages, and extras bring all others; the extra of the operator includes policies."""
    requires = metadata.get_all("Requires-Dist", [])
    needed = [line for line in requires if "extra ==" not in line]
    names = sorted(line.partition(">")[0] for line in needed)
    assert names == ["click", "jsonschema-rs", "kazoo", "msgspec", "pyyaml"]
    assert {"drift", "history", "operator", "policy", "dev"} <= set(metadata.get_all("Provides-Extra", []))
    judging = {
        re.sub(r".*extra == ['\"](\w+)['\"]", r"\1", line) for line in requires if line.startswith("cel-expr-python")
    }
    assert judging == {"operator", "policy"}
    assert not [line for line in requires if "==" in line.partition(";")[0]], "an exact pin fights with other packages"
    assert any(line.startswith("topiarist[aws,drift,history,keys,operator,policy,s3]") for line in requires)


def test_the_metadata_tells_licence_python_and_version(wheel: zipfile.ZipFile, metadata: Message) -> None:
    """The metadata has the version of the package, the SPDX licence with its file, and Python 3.11 or later."""
    from topiarist import __version__

    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    (licence,) = (name for name in wheel.namelist() if name.endswith("/LICENSE"))
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    """The wheel installs the command ``topiarist``."""
    (name,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    assert wheel.read(name).decode().split() == ["[console_scripts]", "topiarist", "=", "topiarist.cli.main:main"]


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    """``python -m topiarist`` runs the command under its own name."""
    command = [sys.executable, "-m", "topiarist", "--version"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.startswith("topiarist, version ")
