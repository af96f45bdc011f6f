"""Prints the part of ``constraints.txt`` that an installation with some extras needs, for ``pip --require-hashes``.

Usage: ``python tools/pinned.py [EXTRA...]``, in the folder with ``pyproject.toml`` and ``constraints.txt``. Of each
package there it is said what needs it ("# via"): whatever is reached from the project's own requirements belongs to it.
Nothing but the standard library is used: it runs where nothing is installed yet.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Pin(NamedTuple):
    """A package with its version and hashes, as the file has them, and the packages that need it."""

    text: str
    needed_by: frozenset[str]


def pins(constraints: str) -> dict[str, Pin]:
    """The packages of a file that ``uv pip compile`` has written, by name."""
    found = {}
    for block in re.split(r"^(?=[^\s#])", constraints, flags=re.MULTILINE)[1:]:
        pin, _, notes = block.partition("    # via")
        found[name(pin)] = Pin(pin, frozenset(map(name, re.findall(r"^[ #]*(\S+)", notes, re.MULTILINE))))
    return found


def name(requirement: str) -> str:
    """The name that a requirement begins with, normalized as package indexes do."""
    match = NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def wanted(project: Mapping[str, Any], extras: Iterable[str]) -> set[str]:
    """What the project itself requires, with some extras. Raises ``KeyError`` for an extra that it does not have."""
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    return {name(requirement) for each in lists for requirement in each}


def closure(found: Mapping[str, Pin], roots: Iterable[str]) -> Iterator[str]:
    """The names of packages that are needed, sorted. Raises ``KeyError`` for a root that is not pinned."""
    reached, new = set[str](), set(roots)
    for root in new:
        found[root]
    while new:
        reached |= new
        new = {each for each, pin in found.items() if pin.needed_by & reached} - reached
    yield from sorted(reached)


def main(extras: list[str]) -> int:
    """Print the pins; returns the exit code."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = pins(Path("constraints.txt").read_text(encoding="utf-8"))
    for each in closure(found, wanted(project, extras)):
        print(found[each].text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
