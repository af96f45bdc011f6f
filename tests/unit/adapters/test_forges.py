"""Forges: which one a repository shows, and the CI configuration of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.checkout import ROOT
from topiarist.cli.repository import FORGES, detect_forge, read_sample


def write_config(folder: Path, **remotes: str) -> None:
    """Write the config of a repository with these remotes."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = (f'[remote "{name}"]\n\turl = {url}\n\tfetch = +refs/heads/*\n' for name, url in remotes.items())
    (folder / "config").write_text(
        "[core]\n\tbare = false\n" + "".join(sections) + '[branch "main"]\n\tremote = origin\n'
    )


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("git@github.com:acme/topics.git", "github"),
        ("https://github.com/acme/topics", "github"),
        ("ssh://user@GitHub.example.com/acme/topics.git", "github"),
        ("ssh://git@gitlab.example.com:2222/acme/topics.git", "gitlab"),
        ("ssh://git@gitlab.com/github/topics.git", "gitlab"),
        ("ssh://git.example.com/acme/gitlab.git", ""),
        ("/srv/git/github.git", ""),
        ("../github", ""),
    ],
)
def test_the_host_of_the_remote_shows_the_forge(tmp_path: Path, url: str, name: str) -> None:
    """Only the host counts, and not the path behind it."""
    write_config(tmp_path / ".git", origin=url)
    assert detect_forge(tmp_path)[0] == name


def test_origin_or_the_only_remote_counts(tmp_path: Path) -> None:
    """With several remotes, ``origin`` decides; without ``origin``, several show nothing."""
    write_config(tmp_path / ".git", mirror="https://github.com/a/b", origin="ssh://git@gitlab.com/a/b")
    assert detect_forge(tmp_path) == ("gitlab", "the remote at gitlab.com")
    write_config(tmp_path / ".git", mirror="https://github.com/a/b")
    assert detect_forge(tmp_path)[0] == "github"
    write_config(tmp_path / ".git", mirror="https://github.com/a/b", other="ssh://git@gitlab.com/a/b")
    assert detect_forge(tmp_path) == ("", "")


def test_files_show_the_forge_of_an_unknown_host(tmp_path: Path) -> None:
    """One of the two marks decides; both show nothing."""
    write_config(tmp_path / ".git", origin="ssh://git.example.com/a/b")
    assert detect_forge(tmp_path) == ("", "")
    (tmp_path / ".gitlab-ci.yml").touch()
    assert detect_forge(tmp_path) == ("gitlab", ".gitlab-ci.yml")
    (tmp_path / ".github").mkdir()
    assert detect_forge(tmp_path) == ("", "")
    (tmp_path / ".gitlab-ci.yml").unlink()
    assert detect_forge(tmp_path) == ("github", ".github")


def test_a_worktree_has_the_remotes_of_its_repository(tmp_path: Path) -> None:
    """In a worktree, ``.git`` is a file that names a folder, which names the folder with the config."""
    write_config(tmp_path / "main/.git", origin="https://github.com/a/b")
    (tmp_path / "main/.git/worktrees/tree").mkdir(parents=True)
    (tmp_path / "main/.git/worktrees/tree/commondir").write_text("../..\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.git").write_text("gitdir: ../main/.git/worktrees/tree\n")
    assert detect_forge(tmp_path / "tree")[0] == "github"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"gitdir: gone\n", b"[remote"])
def test_an_unreadable_repository_shows_nothing(tmp_path: Path, content: bytes) -> None:
    """No repository, or one without a readable config, is no error."""
    assert detect_forge(tmp_path) == ("", "")
    (tmp_path / ".git").write_bytes(content)
    assert detect_forge(tmp_path) == ("", "")


@pytest.mark.parametrize("name", FORGES)
def test_a_sample_is_that_of_the_documentation(name: str) -> None:
    """Each sample is the file of ``docs/ci``, and its first line names the path that it is written to."""
    text = read_sample(FORGES[name])
    assert text == (ROOT / "docs" / "ci" / FORGES[name].sample).read_text()
    assert text.splitlines()[0].endswith(FORGES[name].path)
