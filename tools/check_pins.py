"""Prints the part of ``constraints.txt`` that an installation with some extras needs, for ``pip --require-hashes``.

Usage: ``python tools/check_pins.py [EXTRA...]``, in the folder with ``pyproject.toml`` and ``constraints.txt``. Of each
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

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Pin(NamedTuple):
    """A package with its version and hashes, as the file has them, and the packages that need it."""

    text: str
    needed_by: frozenset[str]


def parse_pins(constraints: str) -> dict[str, Pin]:
    """The packages of a file that ``uv pip compile`` has written, by name."""
    found = {}
    for block in re.split(r"^(?=[^\s#])", constraints, flags=re.MULTILINE)[1:]:
        pin, _, notes = block.partition("    # via")
        found[package_name(pin)] = Pin(
            pin, frozenset(map(package_name, re.findall(r"^[ #]*(\S+)", notes, re.MULTILINE)))
        )
    return found


def package_name(requirement: str) -> str:
    """The name that a requirement begins with, normalized as package indexes do."""
    match = NAME_PATTERN.match(requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def required_packages(project: Mapping[str, Any], extras: Iterable[str]) -> set[str]:
    """What the project itself requires, with some extras. Raises ``KeyError`` for an extra that it does not have."""
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    return {package_name(requirement) for each in lists for requirement in each}


def closure(pins_by_name: Mapping[str, Pin], roots: Iterable[str]) -> Iterator[str]:
    """The names of packages that are needed, sorted. Raises ``KeyError`` for a root that is not pinned."""
    reached, new = set[str](), set(roots)
    for root in new:
        pins_by_name[root]
    while new:
        reached |= new
        new = {each for each, pin in pins_by_name.items() if pin.needed_by & reached} - reached
    yield from sorted(reached)


def main(extras: list[str]) -> int:
    """Print the pins; returns the exit code."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = parse_pins(Path("constraints.txt").read_text(encoding="utf-8"))
    for each in closure(found, required_packages(project, extras)):
        print(found[each].text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
