"""A parser of a Dockerfile into arguments, stages and steps, and an executor of its steps without Docker."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_IMAGE_PATHS = re.compile(r"(?<![\w.-])/(app|src|tmp)\b")
"""Folders of the image that steps name."""

_APT_INSTALL = "apt-get install --yes --no-install-recommends "


class Step(NamedTuple):
    """An instruction with its text; continued lines are joined."""

    instruction: str
    text: str


class Stage(NamedTuple):
    """The part after a FROM: the base image, the name of the stage (may be empty), and its steps."""

    base: str
    name: str
    steps: tuple[Step, ...]

    def texts(self, instruction: str) -> list[str]:
        """Return the texts of all instructions of a kind."""
        return [step.text for step in self.steps if step.instruction == instruction]

    def system_packages(self) -> list[str]:
        """Return Debian's packages that the stage installs."""
        commands = [command.strip() for text in self.texts("RUN") for command in text.split("&&")]
        return [name for each in commands if each.startswith(_APT_INSTALL) for name in each.split()[4:]]


def parse_steps(text: str) -> Iterator[Step]:
    """Return all instructions."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n\s*", "", lines).splitlines():
        word, _, rest = line.partition(" ")
        if word:
            yield Step(word.upper(), rest.strip())


def parse_stages(text: str) -> tuple[dict[str, str], list[Stage]]:
    """Return the arguments before the first stage, with their defaults, and the stages."""
    arguments: dict[str, str] = {}
    found: list[Stage] = []
    for step in parse_steps(text):
        if step.instruction == "FROM":
            base, _, name = step.text.partition(" AS ")
            found.append(Stage(base, name, ()))
        elif found:
            found[-1] = found[-1]._replace(steps=(*found[-1].steps, step))
        else:
            name, _, value = step.text.partition("=")
            arguments[name] = value
    return arguments, found


class DockerfileBuild:
    """The stages of a Dockerfile, executed one after another in a folder that represents the image's file system.

    A shell executes ``RUN``, in a clean virtual environment in place of the image's Python. The path ``/app`` of a step
    is ``app`` in the folder. Commands of apt are left out: the machine must have Debian's packages already.
    """

    def __init__(self, context: Path, root: Path) -> None:
        self._context = context
        self._root = root
        self._folder = root
        self.environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def host_path(self, path: str) -> Path:
        """Return the host path of a path in the image."""
        return self._root / path.lstrip("/") if path.startswith("/") else self._folder / path

    def run(self, stage: Stage) -> None:
        """Execute all steps of a stage. Raises ``AssertionError`` with the output of a failed step."""
        clean = self._root / "python"
        shutil.rmtree(clean, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", clean], check=True)
        self.environment["PATH"] = f"{clean / 'bin'}:{os.environ['PATH']}"
        for step in stage.steps:
            if step.instruction == "WORKDIR":
                self._folder = self.host_path(step.text)
                self._folder.mkdir(exist_ok=True)
            elif step.instruction == "ENV":
                self._set(step.text)
            elif step.instruction == "COPY" and not step.text.startswith("--from="):
                self._copy(*shlex.split(step.text))
            elif step.instruction == "RUN":
                self._shell(step.text)

    def _set(self, text: str) -> None:
        for word in shlex.split(text):
            name, _, value = word.partition("=")
            told = _IMAGE_PATHS.sub(lambda found: str(self._root / found[1]), value)
            self.environment[name] = told.replace("$PATH", self.environment["PATH"])

    def _copy(self, *words: str) -> None:
        *sources, target = words
        for source in sources:
            found, there = self._context / source, self.host_path(target)
            if target.endswith("/"):
                there.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, there)
            else:
                left = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(found, there, symlinks=True, ignore=left)

    def _shell(self, command: str) -> None:
        own = [each.strip() for each in command.split("&&") if not _is_of_apt(each.strip())]
        told = _IMAGE_PATHS.sub(lambda found: str(self._root / found[1]), " && ".join(own))
        words = ["/bin/sh", "-ec", told]
        done = subprocess.run(
            words, cwd=self._folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{told}\n{done.stdout}\n{done.stderr}"


def _is_of_apt(command: str) -> bool:
    return command.startswith(("apt-get ", "rm -rf /var/lib/apt/"))
