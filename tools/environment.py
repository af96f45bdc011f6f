"""Installer of pinned packages: into ``.venv``, in two stages, and into folders of single tools.

Usage, in the checkout, by the Python that the packages are for:

    python tools/environment.py demo        .venv with the packages of `make demo`
    python tools/environment.py ready       .venv with all packages of constraints.txt
    .venv/bin/python tools/environment.py FOLDER FILE       FOLDER/packages with all packages of the file

A file named for the stage (in a folder: ``ready``) holds a key of its pins, its Python and its path. While the key is
right, nothing is done. A ``.venv`` of another Python, or one that was moved, is replaced. A second installer in the
same checkout waits for the first.

uv installs, after pip has installed uv by its hash: it needs a third of the time of pip. Uses only the standard
library, because it runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import check_pins

VENV = Path(".venv")
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = VENV / "pins.txt"
CACHE = VENV / "cache"
PROJECT = Path("pyproject.toml")
CONSTRAINTS = Path("constraints.txt")

STAGES = {"demo": "what the demo needs: 0.6 GB", "ready": "what tests and tools need: 1.0 GB beside the demo's 0.6 GB"}
"""The stages of ``.venv`` in their order; each completes the one before it."""


def main(arguments: list[str]) -> int:
    """Install a stage, or a folder; return the exit code."""
    try:
        if len(arguments) == 1 and arguments[0] in STAGES:
            install_stage(arguments[0])
        else:
            folder, constraints = map(Path, arguments)
            install_folder(folder, constraints)
    except subprocess.CalledProcessError as error:
        print(f"The installation failed (see above): {error.cmd[0]} ended with {error.returncode}", file=sys.stderr)
        return 1
    return 0


def install_stage(stage: str) -> None:
    """Complete ``.venv`` up to a stage."""
    keys = {each: stage_key(each) for each in STAGES}
    if is_current(VENV / stage, keys[stage]):
        return
    with locked():
        prepare_venv()
        for each in list(STAGES)[: list(STAGES).index(stage) + 1]:
            if is_current(VENV / each, keys[each]):
                continue
            print(f"Installing {STAGES[each]}, pinned in constraints.txt, into .venv.", file=sys.stderr)
            install_pins(stage_pins(each), "--no-build-isolation")
            (VENV / each).write_text(keys[each], encoding="utf-8")


def stage_key(stage: str) -> str:
    """Return the key of a complete stage; what is in pyproject.toml, a command as an example, is installed too."""
    return build_key(VENV, stage_pins(stage), PROJECT.read_text(encoding="utf-8"))


def stage_pins(stage: str) -> str:
    """Return the pins of a stage: those of the command and of PySpark, which has the ZooKeeper jars, or all."""
    return check_pins.select_pins([], ["pyspark"]) if stage == "demo" else CONSTRAINTS.read_text(encoding="utf-8")


def install_folder(folder: Path, constraints: Path) -> None:
    """Replace ``packages`` in a folder by the packages of a file, as wheels, for the Python of ``.venv``."""
    pins = constraints.read_text(encoding="utf-8")
    key = build_key(folder, pins)
    if is_current(folder / "ready", key):
        return
    with locked():
        if is_current(folder / "ready", key):
            return
        print(f"Installing what is pinned in {constraints} into {folder / 'packages'}.", file=sys.stderr)
        new = folder / "packages.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        install_pins(pins, "--only-binary", ":all:", "--target", str(new))
        shutil.rmtree(folder / "packages", ignore_errors=True)
        new.rename(folder / "packages")
        (folder / "ready").write_text(key, encoding="utf-8")


def prepare_venv() -> None:
    """Make ``.venv`` with uv, unless it is there, for this Python and in this place."""
    purpose = VENV / "made-for"
    wanted = build_key(VENV)
    if is_current(purpose, wanted):
        return
    if VENV.exists():
        print(f".venv is not for {wanted}: it is replaced.", file=sys.stderr)
        shutil.rmtree(VENV)
    base = str(getattr(sys, "_base_executable", sys.executable))
    run([base, "-m", "venv", str(VENV)])
    pins = check_pins.parse_pins(CONSTRAINTS.read_text(encoding="utf-8"))
    # setuptools builds PySpark, of which there is no wheel; an isolated build would fetch tools that are not pinned.
    REQUIREMENTS.write_text(pins["uv"].text + pins["setuptools"].text, encoding="utf-8")
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--no-compile", "--require-hashes", "--no-deps"]
    run([*pip, "--only-binary", ":all:", "-r", str(REQUIREMENTS)])
    purpose.write_text(wanted, encoding="utf-8")


def install_pins(pins: str, *options: str) -> None:
    """Install pins by uv, without a cache that outlives it unless ``UV_CACHE_DIR`` names one."""
    REQUIREMENTS.write_text(pins, encoding="utf-8")
    # Without compression: a wheel of PySpark's 0.5 GB is built only to be unpacked.
    command = ["--require-hashes", "--no-deps", "--config-setting=--build-option=--compression=stored"]
    environment = {"UV_CACHE_DIR": str(CACHE), **pip_settings(), **os.environ}
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(PYTHON)]
    run([*uv, *command, *options, "-r", str(REQUIREMENTS)], environment)
    if "--target" not in options:
        run([*uv, "--no-deps", "--no-build-isolation", "--offline", "--editable", "."], environment)
    shutil.rmtree(CACHE, ignore_errors=True)


def pip_settings() -> dict[str, str]:
    """Return the index and the certificates that pip is configured with, as uv's variables."""
    command = [str(PYTHON), "-m", "pip", "config", "list"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    settings = re.findall(r"^(\S+)\.(index-url|cert)='(.*)'$", found, re.MULTILINE)
    names = {"index-url": "UV_DEFAULT_INDEX", "cert": "SSL_CERT_FILE"}
    # Variables, which pip lists first, take precedence over files.
    return {names[name]: value for _, name, value in sorted(settings, key=lambda each: each[0] == ":env:")}


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a command; raise ``CalledProcessError`` if it fails."""
    subprocess.run(command, env=environment, check=True)


def build_key(folder: Path, *contents: str) -> str:
    """Return a text that is the same for the same contents, in the same folder and for the same Python."""
    digests = (hashlib.sha256(each.encode()).hexdigest() for each in contents)
    return " ".join([str(sysconfig.get_config_var("SOABI")), *digests, str(folder.absolute())])


def is_current(file: Path, key: str) -> bool:
    """Return whether a file holds this key."""
    return file.is_file() and file.read_text(encoding="utf-8") == key


@contextmanager
def locked() -> Iterator[None]:
    """Wait until no other installer is at work in this checkout, and keep others out."""
    with CONSTRAINTS.open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another installation in this checkout.", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
