"""Printer of the pins in ``constraints.txt`` that an installation with some extras needs.

Usage: ``python tools/check_pins.py [EXTRA...]``, in the folder with ``pyproject.toml`` and ``constraints.txt``. The
output is for ``pip --require-hashes``.

The file names for each package the packages that need it ("# via"), so the needed ones are reached from the project's
own requirements. Uses only the standard library, because it runs before anything is installed.
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
    """A package with its version and hashes as in the file, and the packages that need it."""

    text: str
    needed_by: frozenset[str]


def parse_pins(constraints: str) -> dict[str, Pin]:
    """Return the packages of a file that ``uv pip compile`` wrote, by name."""
    pins = {}
    for block in re.split(r"^(?=[^\s#])", constraints, flags=re.MULTILINE)[1:]:
        pin, _, notes = block.partition("    # via")
        pins[package_name(pin)] = Pin(
            pin, frozenset(map(package_name, re.findall(r"^[ #]*(\S+)", notes, re.MULTILINE)))
        )
    return pins


def package_name(requirement: str) -> str:
    """Return the name at the start of a requirement, normalized as package indexes do."""
    match = NAME_PATTERN.match(requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def required_packages(project: Mapping[str, Any], extras: Iterable[str]) -> set[str]:
    """Return the project's own requirements with some extras; raise ``KeyError`` for an unknown extra."""
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    return {package_name(requirement) for each in lists for requirement in each}


def closure(pins_by_name: Mapping[str, Pin], roots: Iterable[str]) -> Iterator[str]:
    """Yield the names of all needed packages, sorted; raise ``KeyError`` for a root that is not pinned."""
    reached, new = set[str](), set(roots)
    for root in new:
        pins_by_name[root]
    while new:
        reached |= new
        new = {each for each, pin in pins_by_name.items() if pin.needed_by & reached} - reached
    yield from sorted(reached)


def select_pins(extras: Iterable[str], packages: Iterable[str] = ()) -> str:
    """Return the pins that an installation with some extras, and packages beside it, needs.

    Raises ``KeyError`` for an unknown extra or package.
    """
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = parse_pins(Path("constraints.txt").read_text(encoding="utf-8"))
    return "".join(pins[each].text for each in closure(pins, [*required_packages(project, extras), *packages]))


def main(extras: list[str]) -> int:
    """Print the pins; return the exit code."""
    try:
        print(select_pins(extras), end="")
    except KeyError as error:
        print(f"found neither an extra nor a pin {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error}: run this in a checkout", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
