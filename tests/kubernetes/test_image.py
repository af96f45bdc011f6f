"""The image's steps, done in a folder: what they make is the operator, and nothing that it does not need.

Docker is not needed, the network is: packages come from where pip has them from.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.dockerfile import Build, Stage, stages
from support.pages import ROOT
from topiarist import __version__

_, STAGES = stages((ROOT / "Dockerfile").read_text())
NOBODY = 65532

WITHOUT_NAME = "import getpass, sys; sys.exit(getpass.getuser() != 'topiarist')"
"""kopf asks for it when it starts."""


@pytest.fixture(scope="module")
def image() -> Iterator[Build]:
    """The image's file system, as a folder that others may read."""
    with tempfile.TemporaryDirectory(prefix="topiarist-image-") as folder:
        Path(folder).chmod(0o755)
        build = Build(ROOT, Path(folder))
        for stage in STAGES:
            build.run(stage)
        yield build


def asked(image: Build, *words: str) -> subprocess.CompletedProcess[str]:
    """Run something of the image, with its environment alone; as its user, if we may."""
    stage: Stage = STAGES[-1]
    names = {word.partition("=")[0] for text in stage.texts("ENV") for word in text.split()}
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": ()} if os.geteuid() == 0 else {}
    return subprocess.run(
        [str(image.place("/app/bin") / words[0]), *words[1:]],
        env={name: image.environment[name] for name in names},
        cwd="/tmp",
        capture_output=True,
        text=True,
        check=False,
        **user,  # type: ignore[call-overload]
    )


def test_the_steps_make_the_command(image: Build) -> None:
    """Installed from hashes, complete, of this version."""
    done = asked(image, "topiarist", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"topiarist, version {__version__}\n"


def test_the_operator_is_there_whole(image: Build) -> None:
    """All of it can be imported, schemas are read, and a user without a name is no obstacle."""
    program = "import topiarist.cli.operator, topiarist.kubernetes.main; from topiarist import schema; schema.schema('Topic')"
    done = asked(image, "python", "-W", "error", "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    done = asked(image, "python", "-c", WITHOUT_NAME)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["pip", "setuptools", "wheel", "pyspark", "pytest", "ruff"])
def test_what_it_does_not_need_is_not_there(image: Build, name: str) -> None:
    """Neither what installs nor what tests."""
    done = asked(image, "python", "-c", f"import {name}")
    assert f"No module named '{name}'" in done.stderr


def test_pip_is_gone_from_the_base_too(image: Build) -> None:
    """The last stage has taken it away."""
    assert not list(image.place("/python/bin").glob("pip*"))
