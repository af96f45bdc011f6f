"""The changelog: the section of a version is cut from that of unreleased changes."""

from __future__ import annotations

import re

_UNRELEASED = "## [Unreleased]\n"
_SECTION = re.compile(r"^## \[(?P<title>[^]]+)\].*\n", re.MULTILINE)


def cut_section(text: str, version: str, date: str) -> str:
    """Return the changelog with the unreleased changes as the section of a version.

    An empty section of unreleased changes stays above it. Raises ``ValueError`` if there is no unreleased change, or
    the version has a section already.
    """
    if read_section(text, "Unreleased") == "":
        raise ValueError("CHANGELOG.md: found no change below [Unreleased], wanted what users notice of this version")
    if any(match["title"] == version for match in _SECTION.finditer(text)):
        raise ValueError(f"CHANGELOG.md: found a section of {version} already")
    return text.replace(_UNRELEASED, f"{_UNRELEASED}\n## [{version}] - {date}\n", 1)


def read_section(text: str, title: str) -> str:
    """Return the text of a section without its heading; raise ``ValueError`` if there is no such section."""
    for match in _SECTION.finditer(text):
        if match["title"] == title:
            after = _SECTION.search(text, match.end())
            return text[match.end() : after.start() if after else len(text)].strip()
    raise ValueError(f"CHANGELOG.md: found no section [{title}]")
