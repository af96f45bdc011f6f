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
import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue
from typing import NamedTuple

from guards import guards

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("operator/topiarist")
COPIED = ("operator", "schemas", "manifests", "tests", "tools", "benchmarks", "pyproject.toml")

LONGEST = 600
"""Seconds that the tests of one mutant may take; a mutant that hangs is noticed too."""

HUNG = " (did not come to an end)"

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
    """One guard taken away: a name that stays the same while the code around it moves; of its function the n-th."""

    name: str
    module: str
    function: str
    number: int
    tests: Sequence[str]

    def source(self, original: str) -> str:
        """The module without the guard."""
        tree = ast.parse(original)
        list(guards(_function(tree, self.function, self.module)))[self.number][1]()
        return ast.unparse(tree)


def mutants(targets: Sequence[Target]) -> Iterator[Mutant]:
    """Every guard of every target, in order; of several with one name the later ones are numbered."""
    names: Counter[str] = Counter()
    for target in targets:
        tree = ast.parse((ROOT / SOURCE / target.module).read_text(encoding="utf-8"))
        for function in target.functions:
            for number, (what, _) in enumerate(guards(_function(tree, function, target.module))):
                name = f"{target.module}:{function}: {what}"
                names[name] += 1
                name += f" [{names[name]}]" if names[name] > 1 else ""
                yield Mutant(name, target.module, function, number, target.tests)


def _function(tree: ast.Module, name: str, module: str) -> ast.FunctionDef:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise SystemExit(f"{module} has no function {name}: mend mutants.toml")


class Bench:
    """A copy of the tree in which one mutant after the other meets the tests, by a process that has pytest loaded.

    Python's own cache of what it compiled is made here, and checked by content: a mutant differs from the original by
    little, and may be as old and as long.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        compileall.compile_dir(folder / SOURCE, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        (folder / "one_example.py").write_text(PROFILE, encoding="utf-8")
        path = os.pathsep.join(map(str, (folder / SOURCE.parent, folder)))
        environment = {**os.environ, "PYTHONPATH": path}
        environment.pop("TOPIARIST_GOLDEN", None)
        self._nursery = subprocess.Popen(
            [sys.executable, ROOT / "tools/nursery.py"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process."""
        self._nursery.communicate()

    def red(self, mutant: Mutant, killers: Sequence[str]) -> str | None:
        """The first test that turned red under a mutant; None if all stayed green."""
        path = self._folder / SOURCE / mutant.module
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.source(original), encoding="utf-8")
        try:
            return self.first_failure(mutant.tests, killers)
        finally:
            path.write_text(original, encoding="utf-8")

    def first_failure(self, tests: Sequence[str], killers: Sequence[str] = ()) -> str | None:
        """The first of ``tests`` that is red, ``killers`` before all others."""
        words = " ".join(tests).split()
        files = dict.fromkeys(str(path) for word in words for path in sorted(self._folder.glob(word)))
        options = ["-x", "-q", "-n", "0", "--no-header", "-p", "no:cacheprovider", "-p", "one_example"]
        # Libraries that are loaded already: nobody looks at their assertions.
        options += ["--hypothesis-profile", "one-example", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        output = self._folder / "output"
        output.write_text("", encoding="utf-8")
        variables = {"KILLERS": "\n".join(killers)}
        request = {"words": [*options, *files], "variables": variables, "output": str(output), "seconds": LONGEST}
        assert self._nursery.stdin
        assert self._nursery.stdout
        print(json.dumps(request), file=self._nursery.stdin, flush=True)
        code = self._nursery.stdout.readline().strip()
        if code == "0":
            return None
        said = output.read_text(encoding="utf-8", errors="replace")
        match = re.search(r"^(?:FAILED|ERROR) (\S+(?: [^-\s]\S*)*)(?: - .*)?$", said, re.MULTILINE)
        if match:
            return match[1] + HUNG * ("Failed: Timeout" in said)
        return f"{words} does not come to an end" if code == "hangs" else f"{words} cannot be collected"


class Benches:
    """Benches side by side, and by module the tests that have noticed a mutant of it."""

    def __init__(self, scratch: Path, workers: int, wanted: Iterable[Sequence[str]]) -> None:
        """Raises ``SystemExit`` if one of the ``wanted`` tests is red without any mutant."""
        self._killers: dict[str, list[str]] = defaultdict(list)
        for name in COPIED:
            copy_tree(ROOT / name, scratch / "0" / name)
        first = Bench(scratch / "0")
        for tests in wanted:
            if found := first.first_failure(tests):
                first.close()
                raise SystemExit(f"{found} is red without any mutant: mend that first")
        # What pytest has compiled of the tests goes along.
        copies = [shutil.copytree(scratch / "0", scratch / str(number), symlinks=True) for number in range(1, workers)]
        self._all = [first, *map(Bench, copies)]
        self._free: SimpleQueue[Bench] = SimpleQueue()
        for bench in self._all:
            self._free.put(bench)

    def close(self) -> None:
        """End all processes."""
        for bench in self._all:
            bench.close()

    def red(self, mutant: Mutant) -> str | None:
        """The first test that turned red under a mutant; None if all stayed green."""
        bench = self._free.get()
        try:
            killers = self._killers[mutant.module]
            found = bench.red(mutant, killers)
        finally:
            self._free.put(bench)
        if found:
            # The last one first: guards of one function stand beside each other, and so do their tests.
            name = found.removesuffix(HUNG)
            self._killers[mutant.module] = [name, *(killer for killer in killers if killer != name)]
        return found


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
        benches = Benches(Path(scratch), workers, dict.fromkeys(tuple(mutant.tests) for mutant in chosen))
        for mutant, killer in zip(chosen, pool.map(benches.red, chosen), strict=True):
            known = equivalent.get(mutant.name)
            result = ("NOT EQUIVALENT" if known else "killed") if killer else "equivalent" if known else "SURVIVED"
            counts[mutant.module][result] += 1
            print(f"{mutant.name}\n    {result}: {killer or known or 'by no test'}", flush=True)
        benches.close()
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
