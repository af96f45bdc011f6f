"""The git repository of a release: a scratch clone with the commit and the tag of a version, and exported trees."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from release import changelog, versions


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; return its output without the last newline. Raises ``ValueError`` if it fails."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.rstrip("\n")


def cut(root: Path, version: str, date: str, to: Path) -> None:
    """Clone the repository into ``to``, and make the commit and the tag of a version there.

    The checkout is not changed. Raises ``ValueError`` if it has changes, or the version is tagged already or is lower
    than the current one.
    """
    if versions.parse_version(version) < versions.parse_version(versions.read_version(root)):
        raise ValueError(f"found version {version}, wanted at least {versions.read_version(root)}")
    if changes := git(root, "status", "--porcelain"):
        raise ValueError(f"the checkout has changes, commit them first:\n{changes}")
    if git(root, "tag", "--list", f"v{version}"):
        raise ValueError(f"there is a tag v{version} already")
    git(root, "clone", "--quiet", ".", str(to))
    for key in ("user.name", "user.email"):
        git(to, "config", key, git(root, "config", key))
    versions.set_version(to, version)
    page = to / "CHANGELOG.md"
    text = changelog.cut_section(page.read_text(), version, date)
    page.write_text(text)
    git(to, "commit", "--quiet", "--all", "--message", f"Release {version}")
    git(to, "tag", "--annotate", f"v{version}", "--message", f"Version {version}")


def take_over(root: Path, clone: Path, version: str) -> None:
    """Fetch the commit and the tag of a version into the checkout, which must not have moved in the meantime."""
    git(root, "fetch", "--quiet", str(clone), "tag", f"v{version}")
    git(root, "merge", "--quiet", "--ff-only", f"v{version}")


def read_tag(root: Path) -> str:
    """Return the version of the tag that is checked out; raise ``ValueError`` if the commit has no such tag."""
    version = versions.read_version(root)
    if f"v{version}" not in git(root, "tag", "--points-at", "HEAD").split():
        raise ValueError(f"the commit has no tag v{version}, which is the version of its files")
    return version


def read_epoch(root: Path, revision: str) -> int:
    """Return the time of a commit, in seconds."""
    return int(git(root, "log", "-1", "--format=%ct", revision))


def export(root: Path, revision: str, to: Path) -> None:
    """Write the files of a revision into a folder."""
    command = ["git", "archive", "--format=tar", revision]
    done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(f"git archive: {done.stderr.decode()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(to, filter="data")
