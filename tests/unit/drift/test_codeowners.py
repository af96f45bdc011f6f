"""The owners of files by CODEOWNERS, as GitHub, GitLab and Bitbucket have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from topiarist.drift.rules import load_codeowners
from topiarist.errors import TopiaristError

GITHUB = r"""
# GitHub: About code owners, example of a CODEOWNERS file
*       @global-owner1 @global-owner2
*.js    @js-owner #This is an inline comment.
*.go docs@example.com
*.txt @octo-org/octocats
/build/logs/ @doctocat
docs/* docs@example.com
apps/ @octocat
/docs/ @doctocat
/scripts/ @doctocat @octocat
**/logs @octocat
/apps/ @octocat
/apps/github
with\ space.md @spaces
"""

GITLAB = r"""
# GitLab: Code Owners, syntax
* @default-owner
README.md @readme
internal/README.md @internal
path with spaces/ @nobody
path\ with\ spaces/ @spaces
/docs/**/*.md @writers
/docs/*.md @top
[Database][2] @database-team
model/db/
config/db/database-setup.md @docs-team
!model/db/generated.rb
^[Optional]
*.rb @ruby
[database] @extra-team
model/extra.sql
"""


@pytest.mark.parametrize(
    ("text", "file", "owners"),
    [
        (GITHUB, "topics/a.yaml", "@global-owner1, @global-owner2"),
        (GITHUB, "a.js", "@js-owner"),
        (GITHUB, "deep/er/a.js", "@js-owner"),
        (GITHUB, "x/a.go", "docs@example.com"),
        (GITHUB, "build/logs/x/y.log", "@octocat"),
        (GITHUB, "build/other", "@global-owner1, @global-owner2"),
        (GITHUB, "x/build/logs.txt", "@octo-org/octocats"),
        (GITHUB, "docs/a.md", "@doctocat"),
        (GITHUB, "x/apps/b/c", "@octocat"),
        (GITHUB, "scripts/x", "@doctocat, @octocat"),
        (GITHUB, "deeply/nested/logs/x", "@octocat"),
        (GITHUB, "apps/github", ""),
        (GITHUB, "apps/github/x", ""),
        (GITHUB, "apps/githubs", "@octocat"),
        (GITHUB, "with space.md", "@spaces"),
        ("docs/* @d\n", "docs/a.md", "@d"),
        ("docs/* @d\n", "docs/build-app/a.md", ""),
        ("docs/* @d\n", "x/docs/a.md", ""),
        ("a/**/b @x\n", "a/b", "@x"),
        ("a/**/b @x\n", "a/1/2/b/c", "@x"),
        ("a/** @x\n", "a/1/2", "@x"),
        ("a?.yaml @x\n", "deep/ab.yaml", "@x"),
        ("a?.yaml @x\n", "deep/a/.yaml", ""),
        ("* @x\n", "../outside.yaml", ""),
        (GITLAB, "x/y", "@default-owner"),
        (GITLAB, "x/README.md", "@readme"),
        (GITLAB, "x/internal/README.md", "@internal"),
        (GITLAB, "path with spaces/x", "@spaces"),
        (GITLAB, "docs/a.md", "@top"),
        (GITLAB, "docs/a/b.md", "@writers"),
        (GITLAB, "x/docs/a.md", "@default-owner"),
        (GITLAB, "model/db/a.sql", "@default-owner, @database-team"),
        (GITLAB, "x/model/db/a.rb", "@default-owner, @database-team, @ruby"),
        (GITLAB, "model/db/generated.rb", "@default-owner, @ruby"),
        (GITLAB, "config/db/database-setup.md", "@default-owner, @docs-team"),
        (GITLAB, "model/extra.sql", "@default-owner, @extra-team"),
        ("[S]\n*.y[ab]ml @x\n", "a/b.yaml", "@x"),
        ("[S]\n*.y[ab]ml @x\n", "a/b.yml", ""),
        ("[S]\n[!a-c]?.md @x\n", "d1.md", "@x"),
        ("[S]\n[!a-c]?.md @x\n", "b1.md", ""),
        ("[S]\nx[!a]y @x\n", "x/y", ""),
        ("[S]\n[z-a]b @x\n", "ab", ""),
        ("[S]\na[b @x\n", "a[b", "@x"),
        ("[S]\n*.js malformed @valid other\n", "a.js", "@valid"),
        ("\ufeff* @x\n", "a", "@x"),
        ("/* @x\n", "a", "@x"),
        ("/* @x\n", "a/b", ""),
        ("/*/ @x\n", "a/b/c", "@x"),
        ("* @ws/group:random(2) @x\n", "a", "@ws/group, @x"),
        ("[S]\n/docs @x\n", "docs/a", ""),
        ("[S]\n/docs @x\n", "docs", "@x"),
        ("[S]\ndocs/ @x\n", "a/docs/b/c", "@x"),
        ("[S]\n/docs/** @x\n", "docs/a", "@x"),
        ("[S]\n/docs/** @x\n", "docs/a/b", ""),
        ("[S]\n/docs/**/* @x\n", "docs/a/b", "@x"),
        ("[S]\n** @x\n", "docs/a/b", "@x"),
        ("[S] @one\na\n[s] @two\nb\n", "a", "@one"),
        ("[S] @one\na\n[s] @two\nb\n", "b", "@two"),
        ("[S] @one\na\n[s]\nb\n", "b", ""),
        ("[S] @x none # @y\na\n", "a", "@x"),
    ],
)
def test_the_last_pattern_that_matches_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, file: str, owners: str
) -> None:
    """Each file has the owners that the host's documentation gives it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CODEOWNERS").write_text(text)
    assert load_codeowners("CODEOWNERS").find_owners(file) == owners


@pytest.mark.parametrize("place", [".", ".github", ".gitlab", ".bitbucket", "docs"])
def test_patterns_begin_at_the_root_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The file may be in the root or in the folder of the host; names of files are relative to the working folder."""
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / "topics").mkdir()
    (tmp_path / place / "CODEOWNERS").write_text("/topics/shop/ @shop\n")
    monkeypatch.chdir(tmp_path / "topics")
    codeowners = load_codeowners(f"../{place}/CODEOWNERS")
    assert codeowners.find_owners("shop/orders.yaml") == "@shop"
    assert codeowners.find_owners(str(tmp_path / "topics" / "shop" / "orders.yaml")) == "@shop"
    assert codeowners.find_owners("../shop/orders.yaml") == ""


def test_lines_that_the_host_ignores_are_named(tmp_path: Path) -> None:
    """GitHub ignores a line with a pattern that it does not know, or with an owner that is none; so does topiarist."""
    path = tmp_path / "CODEOWNERS"
    path.write_text("!a @x\n[ab].md @x\nb shop\nc @x\n")
    found = load_codeowners(str(path))
    assert [message.removeprefix(f"{path}:")[:10] for message in found.ignored] == [f"{n}: ignored" for n in (1, 2, 3)]
    assert found.find_owners(str(tmp_path / "b")) == ""
    assert found.find_owners(str(tmp_path / "c")) == "@x"


def test_gitlab_ignores_only_the_owners_that_are_none(tmp_path: Path) -> None:
    """Owners that are none are named; a line with another owner counts without them."""
    path = tmp_path / "CODEOWNERS"
    path.write_text("[S]\na malformed @x\nb malformed\n")
    found = load_codeowners(str(path))
    named = [message.removeprefix(f"{path}:") for message in found.ignored]
    why = 'found "malformed", wanted @NAME, @GROUP/TEAM or an address'
    assert named == [f"{line}: ignored, as the host of the repository does: {why}" for line in (2, 3)]
    assert [found.find_owners(str(tmp_path / name)) for name in "ab"] == ["@x", ""]


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "CODEOWNERS").write_bytes(b"\xff\n")
    with pytest.raises(TopiaristError, match="no UTF-8"):
        load_codeowners(str(tmp_path / "CODEOWNERS"))


@pytest.mark.parametrize(("place", "owners"), [(".", ""), (".github", ""), ("docs", ""), (".gitlab", "@shop")])
def test_the_folder_of_the_file_names_its_host(tmp_path: Path, place: str, owners: str) -> None:
    """GitLab's syntax counts in its own folder, also without a section; GitHub ignores a pattern with brackets."""
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "CODEOWNERS").write_text("*.y[ab]ml @shop\n")
    assert load_codeowners(str(tmp_path / place / "CODEOWNERS")).find_owners(str(tmp_path / "a.yaml")) == owners
