"""The owners of files by ``CODEOWNERS``, in the syntax of GitHub and of GitLab.

``drift.rows`` asks for the owners of a finding's manifest, with ``--codeowners``. The last pattern that matches counts.
GitLab's file is one below ``.gitlab``, or with a section: there the last pattern of each section counts, a section may
have default owners, a pattern without a slash at its start fits at any depth, and ``!`` excludes a file from its
section. Lines that the host ignores are ignored, and named.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from topiarist.adapters.atomic_files import read_file
from topiarist.errors import Reason, TopiaristError
from topiarist.text import printable, quote

_FOLDERS = (".github", ".gitlab", "docs")
"""The folders that may have the file; its patterns begin at their parent."""

_SECTION = re.compile(r"\^?\[(?P<name>[^\]]+)\](?:\[\d+\])?(?P<owners>(?:\s+\S+)*)\s*$")

_WORD = re.compile(r"(?:\\.|[^\s\\])+")

_OWNER = re.compile(r"@@?[\w.-]+(?:/[\w.-]+)*$|[^@\s]+@[^@\s]+$")


class _Rule(NamedTuple):
    """A line with a pattern; no owners mean that its files have none."""

    section: str
    pattern: str
    owners: tuple[str, ...]
    excludes: bool = False


class Codeowners(Struct, frozen=True):
    """The owners of files below ``root``; names of files are relative to ``folder``. Both are absolute paths.

    ``ignored`` has a message for each line that the host ignores.
    """

    root: str
    folder: str
    rules: tuple[_Rule, ...]
    ignored: tuple[str, ...] = ()

    def find_owners(self, file: str) -> str:
        """Return the owners of a file, joined by commas; empty for a file without owners, or outside the root."""
        path = posixpath.relpath(posixpath.join(self.folder, file), self.root)
        if path.startswith("../"):
            return ""
        found: dict[str, tuple[str, ...]] = {}
        excluded = set[str]()
        for rule in self.rules:
            if re.match(rule.pattern, path):
                found[rule.section] = rule.owners
                excluded.update([rule.section] if rule.excludes else ())
        owners = (each for section, many in found.items() if section not in excluded for each in many)
        return ", ".join(dict.fromkeys(owners))


def load_codeowners(path: str) -> Codeowners:
    """Read the file. Raises ``Unreadable`` if it cannot be read, or is no text."""
    try:
        lines = read_file(path).decode().splitlines()
    except UnicodeDecodeError:
        message = f"{printable(path, 4096)}: found bytes that are no UTF-8, wanted CODEOWNERS"
        raise TopiaristError(Reason.UNREADABLE, message) from None
    where = Path.cwd() / path
    where = where.parent.resolve() / where.name
    is_gitlab = where.parent.name == ".gitlab" or any(map(_SECTION.match, lines))
    root = where.parent.parent if where.parent.name in _FOLDERS else where.parent
    ignored: list[str] = []
    rules = [*_parse_lines(lines, is_gitlab, ignored)]
    return Codeowners(
        str(root), str(Path.cwd().resolve()), tuple(rules), tuple(f"{printable(path, 4096)}:{each}" for each in ignored)
    )


def _parse_lines(lines: list[str], is_gitlab: bool, ignored: list[str]) -> Iterator[_Rule]:
    section, defaults = "", dict[str, tuple[str, ...]]()
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text[0] == "#":
            continue
        if is_gitlab and (head := _SECTION.match(text)):
            section = head["name"].strip().lower()
            defaults.setdefault(section, tuple(head["owners"].split()))
            continue
        pattern, *words = _WORD.findall(text)
        owners = tuple(words[: next((at for at, word in enumerate(words) if word[0] == "#"), len(words))])
        if wrong := _find_problem(pattern, owners, is_gitlab):
            ignored.append(f"{number}: ignored, as the host of the repository does: {wrong}")
            continue
        excludes = pattern[0] == "!"
        regex = _translate(pattern.removeprefix("!"), is_gitlab)
        yield _Rule(section, regex, owners or defaults.get(section, ()), excludes)


def _find_problem(pattern: str, owners: tuple[str, ...], is_gitlab: bool) -> str:
    if not is_gitlab and (pattern[0] == "!" or "[" in pattern):
        return f"found {quote(pattern)}; GitHub knows neither ! nor [ ] here"
    wrong = next((each for each in owners if not _OWNER.match(each)), "")
    return f"found {quote(wrong)}, wanted @NAME, @GROUP/TEAM or an address" if wrong else ""


_WILDCARDS: Mapping[str, str] = {"*": "[^/]*", "?": "[^/]"}


def _translate(pattern: str, is_gitlab: bool) -> str:
    """Return the regular expression of a pattern, for paths relative to the root.

    A pattern of a folder fits all below it; one that ends with ``/*`` fits the files directly in it.
    """
    body = pattern.strip("/")
    is_anchored = pattern[0] == "/" or (not is_gitlab and "/" in body)
    steps = []
    for step in body.split("/"):
        if step == "**":
            steps.append("(?:[^/]+/)*")
        else:
            parts = re.findall(r"\\.|.", step)
            steps.append("".join(_WILDCARDS.get(each) or re.escape(each[-1]) for each in parts) + "/")
    if steps[-1] == "(?:[^/]+/)*":  # all below
        return ("" if is_anchored else "(?:.*/)?") + "".join(steps[:-1]) + "."
    regex = ("" if is_anchored else "(?:.*/)?") + "".join(steps).removesuffix("/")
    if pattern[-1] == "/":
        return f"{regex}/"
    is_shallow = len(steps) > 1 and body.endswith("/*")
    return f"{regex}$" if is_shallow else f"{regex}(?:/|$)"
