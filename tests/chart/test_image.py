"""Static checks of the Dockerfile: linted, pinned, without root, exact packages. Other tests execute it."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatch
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.checkout import ROOT
from support.repo.dockerfile import Stage, parse_stages
from topiarist import __version__
from topiarist.cli.commands.operator import command

TEXT = (ROOT / "Dockerfile").read_text()
ARGUMENTS, STAGES = parse_stages(TEXT)
IGNORED = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]


def pinned(*extras: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Return the output of the tool that the Dockerfile runs."""
    words = [sys.executable, str(ROOT / "tools" / "check_pins.py"), *extras]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def names(text: str) -> set[str]:
    """Return the packages of a requirements file."""
    return {line.partition("==")[0] for line in text.splitlines() if "==" in line}


def test_hadolint_has_nothing_to_say() -> None:
    """hadolint and its shell linter report no errors."""
    done = subprocess.run(
        [Path(sys.executable).parent / "hadolint", "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_base_is_an_argument_and_pinned() -> None:
    """Both stages use the same base image, pinned by digest."""
    assert [stage.base for stage in STAGES] == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]
    name, _, digest = ARGUMENTS["PYTHON_IMAGE"].partition("@sha256:")
    assert name.startswith("docker.io/library/python:3.")
    assert len(digest) == 64
    assert not set(digest) - set("0123456789abcdef")


def test_the_last_stage_has_what_runs() -> None:
    """The last stage has the libraries of Kerberos, copies the result of the first stage and removes pip.

    The compiler and the headers stay in the first stage.
    """
    build, last = STAGES
    assert last.system_packages() == ["libgssapi-krb5-2"]
    assert build.system_packages() == ["gcc", "libc6-dev", "libkrb5-dev"]
    (command,) = last.texts("RUN")
    assert command.endswith("pip uninstall --yes pip")
    assert last.texts("COPY") == ["--from=build /app /app"]
    assert build.name == "build"
    assert not any(stage.texts("ADD") for stage in STAGES)


def test_it_runs_as_nobody_in_particular() -> None:
    """The image runs the operator as a numeric user, because Kubernetes cannot check that a name is not root."""
    last: Stage = STAGES[-1]
    user, group = map(int, last.texts("USER")[0].split(":"))
    assert user >= 10000
    assert group >= 10000
    assert last.texts("ENTRYPOINT") == ['["topiarist"]']
    assert last.texts("CMD") == [f'["{command.name}"]']
    assert last.texts("EXPOSE") == ["8080"]


def test_its_labels_name_this_release() -> None:
    """The version label equals the version of the package."""
    assert STAGES[-1].texts("ARG") == [f"VERSION={__version__}"]
    assert 'org.opencontainers.image.version="${VERSION}"' in STAGES[-1].texts("LABEL")[0]


def test_what_is_copied_is_not_ignored() -> None:
    """.dockerignore includes all copied files and excludes all other files."""
    assert IGNORED[0] == "*"
    let_in = [line.removeprefix("!") for line in IGNORED if line.startswith("!")]
    copied = [name for text in STAGES[0].texts("COPY") for name in text.split()[:-1]]
    assert sorted(copied) == sorted(let_in)
    for name in copied:
        assert (ROOT / name).exists()
        assert not any(fnmatch(name, line) for line in IGNORED[1:] if not line.startswith("!"))


def test_exactly_what_the_operator_needs_is_pinned() -> None:
    """The pinned packages are the complete dependencies of the operator, with hashes, without test packages and
    Spark.
    """
    text = pinned("operator").stdout
    found = names(text)
    assert {"kopf", "aiohttp", "prometheus-client", "kazoo", "click"} <= found
    for name in found:
        for requirement in map(Requirement, requires(name) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in found, f"{name} needs {requirement}"
    assert not found & {"pyspark", "pytest", "ruff", "hypothesis", "setuptools", "uv"}
    assert text.count("==") == len(found)
    for line in text.splitlines():
        assert "==" in line or line.startswith("    --hash=sha256:"), line


def test_every_extra_has_its_own() -> None:
    """Each extra has its own requirements, the command line alone needs no extra, and an unknown extra is an error."""
    assert names(pinned().stdout) < names(pinned("operator").stdout)
    assert "pyspark" in names(pinned("drift").stdout)
    unknown = pinned("nothing")
    assert (unknown.returncode, unknown.stderr) == (2, "found neither an extra nor a pin 'nothing'\n")


def test_a_package_that_is_not_pinned_is_an_error(tmp_path: Path) -> None:
    """An unpinned package is an error, because the image does not contain it."""
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["a", "B.c>=1"]\n')
    (tmp_path / "constraints.txt").write_text("a==1 \\\n    --hash=sha256:0\n    # via topiarist (pyproject.toml)\n")
    assert pinned(folder=tmp_path).returncode != 0
    with (tmp_path / "constraints.txt").open("a") as file:
        file.write("b-c==1 \\\n    --hash=sha256:1\n    # via\n    #   a\n    #   topiarist (pyproject.toml)\nd==1\n")
    done = pinned(folder=tmp_path)
    assert done.stdout == "a==1 \\\n    --hash=sha256:0\nb-c==1 \\\n    --hash=sha256:1\n"


@pytest.mark.parametrize("word", ["curl", "wget", "sudo"])
def test_nothing_is_fetched_by_hand(word: str) -> None:
    """All downloads use pip with hashes, or apt with Debian's signatures, and apt leaves no lists behind."""
    assert word not in TEXT
    for stage in STAGES:
        for text in stage.texts("RUN"):
            assert ("apt-get install" in text) == ("rm -rf /var/lib/apt/lists/*" in text)
            for line in text.split("&&"):
                if "pip" in line and (" install " in line or " wheel " in line):
                    assert "--require-hashes" in line or "--no-index" in line, line


def test_the_extra_kerberos_is_pinned_whole() -> None:
    """The packages of Kerberos that the first stage installs are those of the constraints of its tests, with hashes."""
    pins = (ROOT / "tests" / "brokers" / "constraints.txt").read_text()
    assert names(pins) == {"cython", "decorator", "gssapi"}
    assert "/^(decorator|gssapi)==/" in TEXT
    assert "/^(cython|setuptools)==/" in TEXT
