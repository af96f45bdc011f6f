"""The table of guarantees in docs/internals/testing.md: the sentence of each file of tests, and the lanes that run it.

A file's guarantee is the first sentence of its docstring; of unit tests there is a row for each package. The lanes come
from the marks in the file: ``slow`` and ``night``, and properties, which ``make test-slow`` runs with all examples.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from lanes.lane import ROOT, Lane, load_lanes

from topiarist.text import format_count

HEAD = ("tests", "guarantee", "lanes")

_WHOLE_FILE = re.compile(r"^pytestmark = .*\bmark\.(slow|night)\b", re.MULTILINE)
_SLOW = re.compile(
    r"\bmark\.slow\b|\bslow_but\(|^@given\(|usefixtures\(\"spark\"\)|\bspark: SparkSession", re.MULTILINE
)
_NIGHT = re.compile(r"\bmark\.night\(area=\"(\w+)\"\)")


def guarantee_rows() -> Iterator[Sequence[str]]:
    """Yield a row for each file of tests, and for each package of unit tests."""
    lanes = load_lanes()
    units: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT / "tests").as_posix()
        if name.startswith("unit/"):
            units["/".join(name.split("/")[:-1])].append(path)
        else:
            yield f"`tests/{name}`", _sentence(path), ", ".join(_lanes_of([path], lanes))
    for folder, paths in units.items():
        files = format_count(len(paths), "file")
        yield f"`tests/{folder}` ({files})", _package_sentence(folder), ", ".join(_lanes_of(paths, lanes))


def _sentence(path: Path) -> str:
    found = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = " ".join(found.split("\n\n")[0].split()).replace("``", "`")
    if not first:
        raise SystemExit(f"{path}: no docstring says what its tests prove")
    return first


def _package_sentence(folder: str) -> str:
    """Return what the package, or the module, that a folder of unit tests belongs to is for."""
    name = folder.removeprefix("unit").removeprefix("/")
    root = ROOT / "operator" / "topiarist"
    package = root / name / "__init__.py" if (root / name).is_dir() else root / f"{name}.py"
    return _sentence(package) if package.exists() else "Modules of the package itself."


def _lanes_of(paths: Iterable[Path], lanes: Mapping[str, Lane]) -> Iterator[str]:
    """Yield the make targets that run some files; a target in brackets runs a part of them."""
    texts = [path.read_text(encoding="utf-8") for path in paths]
    folder = next(iter(paths)).relative_to(ROOT).parts[1]
    for name, lane in lanes.items():
        if name in ("test", "test-slow", "test-unit") or f"tests/{folder}" not in lane.paths:
            continue
        areas = sorted({area for text in texts for area in _NIGHT.findall(text)})
        yield name
        yield from (f"night: {area}" for area in areas)
        return
    whole = all(_WHOLE_FILE.search(text) for text in texts)
    if not whole:
        yield "test"
    if any(_SLOW.search(text) for text in texts):
        yield "test-slow"
