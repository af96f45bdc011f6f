"""Commands without the packages of their extra: one line with the packages to install, for any way of installation."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest

import topiarist
from support.checkout import ROOT
from topiarist import errors
from topiarist.cli.main import run
from topiarist.errors import Exit

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Hide packages from imports and from package metadata."""
    real = metadata.distribution

    def distribution(name: str) -> metadata.Distribution:
        if name in names:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    if "topiarist.kubernetes" in sys.modules:  # the package is imported again: restore its attribute too
        monkeypatch.setattr(topiarist, "kubernetes", sys.modules["topiarist.kubernetes"])
    for loaded in [name for name in sys.modules if name.partition(".")[0] in names or "topiarist.kubernetes" in name]:
        monkeypatch.delitem(sys.modules, loaded)
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("extra", [name for name in EXTRAS if name != "dev"])
def test_requirements_are_those_of_the_project(extra: str) -> None:
    """The requirements equal those of ``pyproject.toml``, so pip accepts them."""
    found = sorted(errors.read_requirements(extra).values())
    assert [*map(_in_any_order, found)] == sorted(map(_in_any_order, EXTRAS[extra]))


def _in_any_order(requirement: str) -> str:
    """Return a requirement with its bounds in the order of their texts: package metadata sort them."""
    name = re.split("[><=]", requirement)[0]
    return name + ",".join(sorted(requirement.removeprefix(name).split(",")))


def test_the_operator_without_its_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names only the missing package with its required version, without a traceback."""
    without(monkeypatch, "kopf")
    assert run(["operator", "--namespace", "team"]) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: topiarist operator needs packages that are not installed: pip install 'kopf>=1.37' (extra operator)\n"
    )


def test_the_operator_without_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names every package if none is installed, and never the extra on a registry."""
    without(monkeypatch, *(re.split("[><=]", requirement)[0] for requirement in EXTRAS["operator"]))
    said = str(errors.missing_packages_error("operator", "this"))
    assert all(f"'{requirement}'" in said for requirement in EXTRAS["operator"])
    assert "topiarist[" not in said


def test_the_playground_without_pyspark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the missing package and no package called topiarist on a registry."""
    without(monkeypatch, "pyspark")
    monkeypatch.setattr("topiarist.adapters.devcluster.zookeeper_server.importlib.util.find_spec", lambda _: None)
    assert run(["dev"]) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: the embedded ZooKeeper, which runs from the jars of PySpark, needs packages that are not installed: "
        "pip install 'pyspark>=4.1' (extra drift)\n"
    )


def test_where_the_project_is_only_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without package metadata, the error names the extra."""

    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert str(errors.missing_packages_error("operator", "this")) == (
        "this needs packages that are not installed: install topiarist with its extra operator (extra operator)"
    )


def test_the_pages_name_every_extra() -> None:
    """The page of installation describes every extra and its installation from a checkout and from a wheel."""
    text = (ROOT / "docs" / "install.md").read_text()
    for extra in EXTRAS:
        assert f"`{extra}`" in text
    assert "pip install '.[drift,operator]'" in text
    assert ".whl[operator]'" in text


@pytest.mark.parametrize("command", ["validate", "render", "export", "snapshot", "drift", "freeze", "describe"])
def test_commands_without_policies_do_not_need_the_extra(command: str) -> None:
    """Only a Policy document imports the CEL library, which has no wheel for some systems."""
    script = "import sys; sys.modules['cel_expr_python'] = None; from topiarist.cli.main import run; sys.exit(run(%r))"
    words = [sys.executable, "-c", script % [command, "--help"]]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
