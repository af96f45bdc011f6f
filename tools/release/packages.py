"""The source distribution and the wheel of an exported tree, the same bit by bit on every machine.

setuptools writes real times, modes and owners into a source distribution, so that it is packed anew; the wheel is built
from that archive. Both are built with the setuptools of this environment, which ``constraints.txt`` pins.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from release.archives import read_archive, write_archive

_BACKEND = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build_packages(tree: Path, to: Path, epoch: int) -> tuple[Path, Path]:
    """Build the source distribution and the wheel of a tree into a folder; return their paths."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        built = _build(tree, "sdist", scratch, epoch)
        sdist = to / built.name
        write_archive(sdist, read_archive(built), epoch)
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch / "unpacked", filter="data")
        (unpacked,) = (scratch / "unpacked").iterdir()
        return sdist, _build(unpacked, "wheel", to, epoch)


def _build(tree: Path, artifact: str, to: Path, epoch: int) -> Path:
    """Build one artifact; ``epoch`` is the time of its files, in seconds."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-P", "-c", _BACKEND, f"build_{artifact}", str(to)]
    done = subprocess.run(command, cwd=tree, env=environment, umask=0o022, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{artifact}: {done.stderr}")
    return to / done.stdout.splitlines()[-1]
