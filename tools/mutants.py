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
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from bench import COPIED, HUNG, ROOT, SOURCE, Bench, copy_tree
from guards import Function, guards


class Target(NamedTuple):
    """Functions of one module, and the tests that are to notice when one of their guards is gone.

    Each word of ``tests`` is a pattern of files; they are run in this order, but for the tests ``first``, which are
    most likely to notice.
    """

    module: str
    functions: Sequence[str]
    tests: Sequence[str]
    first: Sequence[str] = ()


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
    first: Sequence[str]

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
                yield Mutant(name, target.module, function, number, target.tests, target.first)


def _function(tree: ast.Module, name: str, module: str) -> Function:
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name == name:
            return node
    raise SystemExit(f"{module} has no function {name}: mend mutants.toml")


class Benches:
    """Benches side by side, and by module the tests that have noticed a mutant of it."""

    def __init__(self, scratch: Path, workers: int) -> None:
        self._killers: dict[str, Sequence[str]] = {}
        for name in COPIED:
            copy_tree(ROOT / name, scratch / "0" / name)
        copies = [shutil.copytree(scratch / "0", scratch / str(number), symlinks=True) for number in range(1, workers)]
        self._all = [*map(Bench, [scratch / "0", *copies])]
        self._free: SimpleQueue[Bench] = SimpleQueue()
        for bench in self._all:
            self._free.put(bench)

    def close(self) -> None:
        """End all processes."""
        for bench in self._all:
            bench.close()

    def sound(self, tests: str) -> str | None:
        """The first of tests that run together that is red without any mutant; None if all are green."""
        bench = self._free.get()
        try:
            return bench.first_failure([tests])
        finally:
            self._free.put(bench)

    def red(self, mutant: Mutant) -> str | None:
        """The first test that turned red under a mutant; None if all stayed green."""
        bench = self._free.get()
        try:
            killers = self._killers.get(mutant.module, mutant.first)
            found = bench.red(mutant.module, mutant.source, mutant.tests, killers)
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
        benches = Benches(Path(scratch), workers)
        if red := [*filter(None, pool.map(benches.sound, dict.fromkeys(chain(*(each.tests for each in chosen)))))]:
            benches.close()
            raise SystemExit("\n".join(f"{test} is red without any mutant: mend that first" for test in red))
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
