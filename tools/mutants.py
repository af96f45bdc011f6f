"""Takes away each single guard of the code that writes, one at a time, and shows the test that turns red.

``guards.py`` says what a guard is. ``mutants.toml`` names the functions whose guards keep a cluster from harm and the
tests that are to notice. A mutant that no test notices has survived: mend the tests, or say there why it changes
nothing. Each mutant is met by all tests of its target until one turns red; those that noticed another one come first.

Usage: ``python tools/mutants.py [TEXT...]`` (only the mutants whose name has one of these texts), ``--list`` names them
and runs nothing. ``WORKERS`` (default 2) mutants are run at a time. Ends with 1 if any survives, or if one that is said
to be equivalent does not.
"""

from __future__ import annotations

import ast
import copy
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from guards import guards

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("operator/topiarist")
COPIED = ("operator", "schemas", "manifests", "tests", "tools", "benchmarks", "pyproject.toml")

LONGEST = 600
"""Seconds that the tests of one mutant may take; a mutant that hangs is noticed too."""

HANGS = 60
"""Seconds that one test may take."""

PROFILE = """
import os

from hypothesis import Phase, settings

phases = (Phase.explicit, Phase.generate)
settings.register_profile("one-example", deadline=None, derandomize=True, database=None, phases=phases)

killers = os.environ["KILLERS"].split("\\n")


def pytest_collection_modifyitems(items):
    known = {killer: place for place, killer in enumerate(killers)}
    items.sort(key=lambda item: (known.get(item.nodeid, len(known)), item.get_closest_marker("hypothesis") is not None))
"""
"""A plugin for pytest: tests that noticed another mutant come first, literal cases before properties. Properties have
the same examples in each run, and the first that fails is enough, however large it is.
"""


class Target(NamedTuple):
    """Functions of one module, and the tests that are to notice when one of their guards is gone.

    Each word of ``tests`` is a pattern of files; they are run in this order.
    """

    module: str
    functions: Sequence[str]
    tests: Sequence[str]


class Settings(NamedTuple):
    """What ``mutants.toml`` says: the targets, and mutants that change nothing, by name, and why."""

    targets: Sequence[Target]
    equivalent: Mapping[str, str]


def settings() -> Settings:
    """Read ``mutants.toml``; ends the run if it says of a mutant that is none any more that it is equivalent."""
    read = tomllib.loads((ROOT / "tools/mutants.toml").read_text(encoding="utf-8"))
    found = Settings([Target(**target) for target in read["target"]], read["equivalent"])
    if unknown := sorted(found.equivalent.keys() - {mutant.name for mutant in mutants(found.targets)}):
        raise SystemExit("\n".join(["no such mutants: mend [equivalent] in mutants.toml", *unknown]))
    return found


class Mutant(NamedTuple):
    """One guard taken away: a name that stays the same while the code around it moves, and the module without it."""

    name: str
    module: str
    source: str
    tests: Sequence[str]


def mutants(targets: Sequence[Target]) -> Iterator[Mutant]:
    """Every guard of every target, in order; of several with one name the later ones are numbered."""
    names: Counter[str] = Counter()
    for target in targets:
        tree = ast.parse((ROOT / SOURCE / target.module).read_text(encoding="utf-8"))
        for function in target.functions:
            for number, (what, _) in enumerate(guards(_function(tree, function, target.module))):
                changed = copy.deepcopy(tree)
                list(guards(_function(changed, function, target.module)))[number][1]()
                name = f"{target.module}:{function}: {what}"
                names[name] += 1
                name += f" [{names[name]}]" if names[name] > 1 else ""
                yield Mutant(name, target.module, ast.unparse(changed), target.tests)


def _function(tree: ast.Module, name: str, module: str) -> ast.FunctionDef:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise SystemExit(f"{module} has no function {name}: mend mutants.toml")


class Bench:
    """Copies of the tree, one for each mutant that is run at a time, and the tests that have noticed one so far."""

    def __init__(self, scratch: Path, workers: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._killers: dict[str, list[str]] = defaultdict(list)
        for number in range(workers):
            folder = scratch / str(number)
            for name in COPIED:
                copy_tree(ROOT / name, folder / name)
            (folder / "one_example.py").write_text(PROFILE, encoding="utf-8")
            self._free.put(folder)

    def red(self, mutant: Mutant) -> str | None:
        """The first test that turned red under a mutant; None if all stayed green."""
        folder = self._free.get()
        path = folder / SOURCE / mutant.module
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.source, encoding="utf-8")
        try:
            killers = self._killers[mutant.module]
            found = _first_failure(folder, mutant.tests, killers)
            if found:
                # The last one first: guards of one function stand beside each other, and so do their tests.
                self._killers[mutant.module] = [found, *(killer for killer in killers if killer != found)]
            return found
        finally:
            path.write_text(original, encoding="utf-8")
            self._free.put(folder)

    def red_without(self, tests: Sequence[str]) -> str | None:
        """The first test that is red without any mutant."""
        folder = self._free.get()
        try:
            return _first_failure(folder, tests, ())
        finally:
            self._free.put(folder)


def _first_failure(folder: Path, tests: Sequence[str], killers: Sequence[str]) -> str | None:
    words = " ".join(tests)
    files = dict.fromkeys(str(path) for word in words.split() for path in sorted(folder.glob(word)))
    options = ["-x", "-q", "-n", "0", "--no-header", "-p", "no:cacheprovider", "-o", f"timeout={HANGS}"]
    options += ["-p", "one_example", "--hypothesis-profile", "one-example"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    path = os.pathsep.join(map(str, (folder / SOURCE.parent, folder)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "KILLERS": "\n".join(killers)}
    environment.pop("TOPIARIST_GOLDEN", None)
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return f"{words} does not come to an end"
    if done.returncode == 0:
        return None
    match = re.search(r"^(?:FAILED|ERROR) (\S+(?: [^-\s]\S*)*)(?: - .*)?$", done.stdout, re.MULTILINE)
    return match[1] if match else f"{words} cannot be collected"


def main(words: Sequence[str]) -> int:
    """Run the mutants whose names have one of ``words`` (all, if there are none)."""
    texts = [word for word in words if word != "--list"]
    targets, equivalent = settings()
    chosen = [mutant for mutant in mutants(targets) if not texts or any(text in mutant.name for text in texts)]
    if "--list" in words:
        print(*(mutant.name for mutant in chosen), sep="\n")
        return 0
    started, workers = time.monotonic(), int(os.environ.get("WORKERS", "2"))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(workers) as pool:
        bench = Bench(Path(scratch), workers)
        wanted = dict.fromkeys(tuple(mutant.tests) for mutant in chosen)
        if found := next(filter(None, pool.map(bench.red_without, wanted)), None):
            print(f"{found} is red without any mutant: mend that first", file=sys.stderr)
            return 1
        for mutant, killer in zip(chosen, pool.map(bench.red, chosen), strict=True):
            known = equivalent.get(mutant.name)
            result = ("NOT EQUIVALENT" if known else "killed") if killer else "equivalent" if known else "SURVIVED"
            counts[mutant.module][result] += 1
            print(f"{mutant.name}\n    {result}: {killer or known or 'by no test'}", flush=True)
    for module, count in counts.items():
        print(f"{module}: {', '.join(f'{number} {result}' for result, number in sorted(count.items()))}")
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"{len(chosen)} mutants in {time.monotonic() - started:.0f} s")
    return 1 if total["SURVIVED"] or total["NOT EQUIVALENT"] else 0


def copy_tree(source: Path, target: Path) -> None:
    """A copy with the links that the tree lives by, without what Python left in it."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
