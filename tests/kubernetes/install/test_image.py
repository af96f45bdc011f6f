"""The Dockerfile's steps in a folder: the result is the operator without unneeded packages.

The tests need no Docker. They need the network, because pip downloads packages from its index, and what compiles
gssapi: ``make kerberos`` installs it.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from support.checkout import ROOT
from support.repo.dockerfile import DockerfileBuild, Stage, parse_stages
from topiarist import __version__

_, STAGES = parse_stages((ROOT / "Dockerfile").read_text())

WITHOUT_NAME = """
import getpass, pwd

def unknown(user):
    raise KeyError(user)

pwd.getpwuid = unknown
print(getpass.getuser())
"""
"""A program that prints the user's name, which kopf reads at its start, while the user id has no name."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> DockerfileBuild:
    """Build the image's file system in a folder."""
    if shutil.which("krb5-config") is None and os.environ.get("CI") != "true":
        pytest.skip("the image has gssapi, which is compiled over MIT's Kerberos: make kerberos installs that")
    build = DockerfileBuild(ROOT, tmp_path_factory.mktemp("image"))
    for stage in STAGES:
        build.run(stage)
    return build


def asked(image: DockerfileBuild, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the image with the image's environment only."""
    stage: Stage = STAGES[-1]
    names = {word.partition("=")[0] for text in stage.texts("ENV") for word in text.split()}
    return subprocess.run(
        [str(image.host_path("/app/bin") / words[0]), *words[1:]],
        env={name: image.environment[name] for name in names},
        cwd="/tmp",
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_steps_make_the_command(image: DockerfileBuild) -> None:
    """The image contains the ``topiarist`` command of this version, with the operator."""
    done = asked(image, "topiarist", "--version")
    assert (done.stdout, done.stderr) == (f"topiarist, version {__version__}\n", "")
    assert asked(image, "topiarist", "operator", "--help").returncode == 0


def test_the_operator_is_there_whole(image: DockerfileBuild) -> None:
    """The image imports the operator and reads the schemas, and a user id without a name causes no error."""
    program = "import topiarist.kubernetes.main; from topiarist.schema.load import load_schema; load_schema('Topic')"
    done = asked(image, "python", "-W", "error", "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    done = asked(image, "python", "-c", WITHOUT_NAME)
    assert (done.stdout, done.stderr) == ("topiarist\n", "")


def test_it_logs_in_by_kerberos(image: DockerfileBuild) -> None:
    """The image has the extra kerberos: a login without tickets ends with Kerberos' own reason, no missing package."""
    program = """
from topiarist.adapters.kerberos import KerberosExchange
from topiarist.errors import TopiaristError
from topiarist.model.access import Kerberos
try:
    KerberosExchange(Kerberos("topiarist@EXAMPLE.COM", "kafka"), "kafka.example.com")
except TopiaristError as error:
    print(error.reason)
"""
    done = asked(image, "python", "-c", program)
    assert (done.stdout, done.stderr) == ("CredentialsInvalid\n", "")


@pytest.mark.parametrize("name", ["cython", "pip", "setuptools", "wheel", "pyspark", "pytest", "ruff"])
def test_what_it_does_not_need_is_not_there(image: DockerfileBuild, name: str) -> None:
    """The image contains no package for installation, tests or Spark."""
    done = asked(image, "python", "-c", f"import {name}")
    assert f"No module named '{name}'" in done.stderr


def test_pip_is_gone_from_the_base_too(image: DockerfileBuild) -> None:
    """The last stage removes pip from the base image."""
    assert not list(image.host_path("/python/bin").glob("pip*"))
