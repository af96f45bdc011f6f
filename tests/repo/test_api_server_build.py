"""The build script of the test API server: its error without Go, and its reuse of a previous build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.checkout import ROOT

BUILD = ROOT / "tools" / "kube" / "build.sh"


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, str]:
    """Return an environment without Go and with an empty cache."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("awk", "bash", "cat", "cksum", "cut", "dirname", "env", "mkdir", "mv", "uname"):
        (tools / name).symlink_to(shutil.which(name) or name)
    return {"PATH": str(tools), "TOPIARIST_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}


def build(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the script."""
    return subprocess.run([BUILD], env=environment, capture_output=True, text=True, check=False)


def test_without_go_it_says_what_to_install(plain: dict[str, str]) -> None:
    """Without Go the script exits with its own code, so that the tests are skipped, and names the missing tool."""
    done = build(plain)
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(r"Go 1[.]\d+[.]\d+ or later is needed .* install it, then run: make kube\n", done.stderr)


def test_what_is_built_is_not_built_again(plain: dict[str, str]) -> None:
    """With all three programs present the script prints their folder and does not need Go."""
    build(plain)
    (folder,) = (Path(plain["TOPIARIST_CACHE"]) / "kube").iterdir()
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (folder / name).touch(mode=0o755)
    done = build(plain)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{folder}\n", "")
    version = re.search(r"^\tk8s.io/kubernetes (v\S+)", (ROOT / "tools/kube/go.mod").read_text(), re.MULTILINE)
    assert version
    assert folder.name.startswith(f"{version[1]}-")
    assert os.uname().machine in folder.name
