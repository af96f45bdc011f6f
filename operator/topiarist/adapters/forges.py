"""The forge of a git repository, and the CI configuration and the guide that the documentation has for it.

``topiarist init`` calls ``detect_forge`` and writes ``read_sample`` and ``read_guide``. The samples are the files of
``docs/ci``; the package has them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple


class Forge(NamedTuple):
    """A forge: its title, the path of its CI configuration in a repository, and the name of the sample."""

    title: str
    path: str
    sample: str


FORGES = {
    "github": Forge("GitHub", ".github/workflows/topics.yml", "github.yml"),
    "gitlab": Forge("GitLab", ".gitlab-ci.yml", "gitlab-ci.yml"),
    "atlantis": Forge("Atlantis", "atlantis.yaml", "atlantis-repository.yaml"),
}

_MAX_CONFIG_BYTES = 1 << 20
_REMOTE = re.compile(r'^\[remote "(?P<name>[^"\n]*)"\](?P<body>[^\[]*)', re.MULTILINE)
_URL = re.compile(r"^\s*url\s*=\s*(?:\w+://)?(?:[^@/\s]*@)?(?P<host>[^/:\s]+)", re.MULTILINE)


def detect_forge(root: Path) -> tuple[str, str]:
    """Return the key of a repository's forge in ``FORGES``, and what shows it; two empty texts if nothing does.

    The host of the remote ``origin``, or of the only remote, comes first. A host with another name shows nothing: then
    ``.github`` or ``.gitlab-ci.yml`` decides, if the repository has only one of them.
    """
    host = _remote_host(root)
    for name in ("github", "gitlab"):
        if name in host:
            return name, f"the remote at {host}"
    marks = {"github": ".github", "gitlab": ".gitlab-ci.yml"}
    found = [name for name, mark in marks.items() if (root / mark).exists()]
    return (found[0], marks[found[0]]) if len(found) == 1 else ("", "")


def read_sample(forge: Forge) -> str:
    """Return the CI configuration that the documentation has for a forge."""
    return (files("topiarist") / "ci" / forge.sample).read_text(encoding="utf-8")


def read_guide() -> str:
    """Return the documentation's page for developers who add a topic to a repository."""
    return (files("topiarist") / "add-a-topic.md").read_text(encoding="utf-8")


def _remote_host(root: Path) -> str:
    """Return the host of the remote ``origin``, or of the only remote, in lower case; empty if there is none."""
    with suppress(OSError):
        with (_git_folder(root) / "config").open("rb") as file:
            text = file.read(_MAX_CONFIG_BYTES).decode(errors="replace")
        remotes = {match["name"]: match["body"] for match in _REMOTE.finditer(text)}
        body = remotes.get("origin", next(iter(remotes.values())) if len(remotes) == 1 else "")
        if url := _URL.search(body):
            return url["host"].lower()
    return ""


def _git_folder(root: Path) -> Path:
    """Return the folder with the config of a repository; in a worktree or submodule, ``.git`` is a file that names it.

    Raises ``OSError``.
    """
    folder = root / ".git"
    if not folder.is_dir():
        with folder.open("rb") as file:
            folder = root / file.read(_MAX_CONFIG_BYTES).decode(errors="replace").removeprefix("gitdir:").strip()
        common = folder / "commondir"
        if common.is_file():
            folder /= common.read_text(encoding="utf-8", errors="replace").strip()
    return folder
