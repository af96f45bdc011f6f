"""Texts for users against the two ways to a cluster: what holds for one way only names that way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from support.repo.pages import PAGES
from topiarist.adapters.zookeeper.codec import paths
from topiarist.cli.main import COMMANDS, cli

_OF_ONE_WAY = re.compile(
    r"znode|\bone (?:checked )?transaction|transactions in progress|in a transaction|config change notification"
    r"|DIGEST-MD5|jute\.maxbuffer|under (?:a )?KRaft|is a KRaft controller"
    r"|(?<![\w.])/(?:admin|brokers|cluster|config|controller|controller_epoch|feature|migration|topiarist)\b(?!/README)",
    re.IGNORECASE,
)
"""Words of ZooKeeper mode, and of what only one way guarantees or refuses."""

_NAMED_WAY = re.compile(r"ZooKeeper|through (?:its |the )?brokers|Admin API|\b[FM]\d+: ", re.IGNORECASE)
"""Names of a way; the faults F1 to M39 are those of ZooKeeper mode."""

_NOT_FOR_BOTH_WAYS = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "architecture.md",
    "changed-words.md",
    "interleavings.md",
    "operator-campaigns.md",
    "performance.md",
    "python-reference.md",
    "records-contract.md",
    "testing.md",
}
"""Pages about the code and its tests, and lists of older words and measured figures."""


_NO_PROSE = re.compile(r"^ *```.*?^ *```$|<!-- bench:begin -->.*?<!-- bench:end -->", re.DOTALL | re.MULTILINE)


class Passage(NamedTuple):
    """A paragraph, an item of a list or a row of a table, with the headings and the item or table above it."""

    context: str
    text: str

    @property
    def problem(self) -> str:
        """Return the words that hold for one way, if neither the text nor its context names a way."""
        found = _OF_ONE_WAY.search(self.text)
        return found[0] if found and not _NAMED_WAY.search(f"{self.context} {self.text}") else ""


def passages(page: str) -> Iterator[Passage]:
    """Yield the passages of a page that are neither code nor measured figures."""
    headings: list[str] = []
    above, lines = "", list[str]()
    for line in [*_NO_PROSE.sub("", page).splitlines(), ""]:
        if lines and re.match(r"(?:[-*]|\d+\.) |\||#+ |$", line.strip()):
            text = " ".join(lines)
            is_part = text.startswith((" ", "|")) and bool(above)
            yield Passage(" ".join([*headings, above if is_part else ""]), text)
            above, lines = above if is_part else text, []
        if heading := re.match(r"(#+) (.*)", line):
            headings[len(heading[1]) - 1 :] = [heading[2]]
        elif line.strip():
            lines.append(line)
        else:
            above = ""


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield each paragraph of help, and the help of each option, with the command."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        options = [param.help or "" for param in command.params if isinstance(param, click.Option)]
        for text in [*(command.help or "").split("\n\n"), *(command.epilog or "").split("\n\n"), *options]:
            yield name, " ".join(text.split())


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in _NOT_FOR_BOTH_WAYS], ids=lambda page: page.name
)
def test_a_page_names_the_way_of_what_holds_for_one(page: Path) -> None:
    """A passage with words of ZooKeeper mode, or with what one way guarantees, says through what it holds."""
    found = [each for each in passages(page.read_text()) if each.problem]
    assert [f"{each.problem}: {each.text[:160]}" for each in found] == []


def test_help_texts_name_the_way_of_what_holds_for_one() -> None:
    """The same for ``--help`` of every command and option."""
    assert [f"{name}: {text[:160]}" for name, text in help_texts() if Passage("", text).problem] == []


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("| the cluster is frozen, or under KRaft | refused |", True),
        ("Each topic is one checked transaction, under the same lock.", True),
        ("Topiarist writes `/admin/delete_topics/TOPIC`.", True),
        ("- The ownership record at `/topiarist/topics/TOPIC`\n  names the owner.", True),
        ("# Through ZooKeeper\n\nOne transaction makes all changes.", False),
        ("# Through ZooKeeper\n\n# Deleting\n\nA znode.", True),
        ("| a | through ZooKeeper |\n| --- | --- |\n| a topic | one transaction |", False),
        ("1. In ZooKeeper mode:\n   - a znode.\n2. A znode.", True),
        ("```\nzookeeper-shell.sh get /admin\n```\n", False),
        ("Through ZooKeeper.\n\nA znode.", True),
    ],
)
def test_passages_that_name_no_way_are_found(page: str, wrong: bool) -> None:
    """The sentences that were wrong are found; a heading, a table's head or the item above names the way."""
    assert any(each.problem for each in passages(page)) == wrong


def test_the_words_of_one_way_are_those_of_the_code() -> None:
    """Each path in ZooKeeper that the code knows is among the words."""
    known = {value for name, value in vars(paths).items() if name.isupper() and isinstance(value, str)}
    assert paths.DELETION_REQUESTS in known
    assert [path for path in known if not _OF_ONE_WAY.search(path)] == []
