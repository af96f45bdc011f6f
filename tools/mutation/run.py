"""Takes away each single guard of the code that writes, one at a time, and shows the test that turns red.

``guards.py`` says what a guard is. ``mutants.toml`` names the functions whose guards keep a cluster from harm and the
tests that are to notice. A mutant that no test notices has survived: mend the tests, or say there why it changes
nothing. A mutant is met first by the test that noticed it in an earlier run (``killers.py``), if there was one. For
what is left all tests are run once without a mutant, and say which statements they come by (``traces.py``): those that
come by a mutant meet it, beginning with those that noticed another one and then the quickest, until one turns red.

Usage: ``python tools/mutation/run.py [TEXT...]`` (only the mutants whose name has one of these texts), ``--list`` names
them and runs nothing. ``WORKERS`` (default 2) mutants are run at a time. Ends with 1 if any survives, or if one that is
said to be equivalent does not.
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
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from mutation.mutations import Function, find_mutations
from mutation.results import MutantResults
from mutation.traces import CoverageTraces, file_of_test, statement_line, tracing_transforms
from mutation.workspace import COPIED_PATHS, HUNG_SUFFIX, ROOT, SOURCE, Workspace, copy_tree


class Target(NamedTuple):
    """Functions of one module, and the tests that are to notice when one of their guards is gone.

    Each of ``tests`` is patterns of files that are run together; those that are most likely to notice come first.
    """

    module: str
    functions: Sequence[str]
    tests: Sequence[str]


class MutationSettings(NamedTuple):
    """What ``mutants.toml`` says: the targets, and mutants that change nothing, by name, and why."""

    targets: Sequence[Target]
    equivalent: Mapping[str, str]


def load_settings() -> MutationSettings:
    """Read ``mutants.toml``; ends the run if it says of a mutant that is none any more that it is equivalent."""
    read = tomllib.loads((ROOT / "tools/mutation/mutants.toml").read_text(encoding="utf-8"))
    found = MutationSettings([Target(**target) for target in read["target"]], read["equivalent"])
    if unknown := sorted(found.equivalent.keys() - {mutant.name for mutant in list_mutants(found.targets)}):
        raise SystemExit("\n".join(["no such mutants: mend [equivalent] in mutants.toml", *unknown]))
    return found


class Mutant(NamedTuple):
    """One guard taken away: a name that stays the same while the code around it moves; of its function the n-th."""

    name: str
    module: str
    function: str
    number: int
    line: int
    tests: Sequence[str]

    def mutated_source(self, original: str) -> str:
        """The module without the guard."""
        tree = ast.parse(original)
        list(find_mutations(_find_function(tree, self.function, self.module)))[self.number].apply()
        return ast.unparse(tree)


def list_mutants(targets: Sequence[Target]) -> Iterator[Mutant]:
    """Every guard of every target, in order; of several with one name the later ones are numbered."""
    names: Counter[str] = Counter()
    for target in targets:
        tree = ast.parse((ROOT / SOURCE / target.module).read_text(encoding="utf-8"))
        for function in target.functions:
            node = _find_function(tree, function, target.module)
            for number, guard in enumerate(find_mutations(node)):
                name = f"{target.module}:{function}: {guard.description}"
                names[name] += 1
                name += f" [{names[name]}]" if names[name] > 1 else ""
                line = statement_line(node, guard.line)
                yield Mutant(name, target.module, function, number, line, target.tests)


def _find_function(tree: ast.Module, name: str, module: str) -> Function:
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name == name:
            return node
    raise SystemExit(f"{module} has no function {name}: mend mutants.toml")


class WorkspacePool:
    """Benches side by side, the tests that come by each statement, and those that have noticed a mutant by module."""

    def __init__(
        self, scratch: Path, executor: ThreadPoolExecutor, workers: int, previous_results: MutantResults
    ) -> None:
        self._previous_results = previous_results
        self._killing_tests: defaultdict[str, list[str]] = defaultdict(list)
        for name in COPIED_PATHS:
            copy_tree(ROOT / name, scratch / "0" / name)
        copies = [shutil.copytree(scratch / "0", scratch / str(number), symlinks=True) for number in range(1, workers)]
        self._workspaces = [*map(Workspace, [scratch / "0", *copies])]
        self._free_workspaces: SimpleQueue[Workspace] = SimpleQueue()
        for bench in self._workspaces:
            self._free_workspaces.put(bench)
        self._executor = executor
        self._traces = CoverageTraces((), {})

    def close(self) -> None:
        """End all processes."""
        for bench in self._workspaces:
            bench.close()

    def trace_tests(self, chosen: Sequence[Mutant]) -> Sequence[str]:
        """Run all tests without any mutant, and see what each comes by; those that are red nevertheless."""
        functions: defaultdict[str, set[str]] = defaultdict(set)
        for mutant in chosen:
            functions[mutant.module].add(mutant.function)
        with ExitStack() as stack:
            for bench in self._workspaces:
                stack.enter_context(bench.change_sources(tracing_transforms(functions, bench.trace_log)))
            words = dict.fromkeys(chain(*(each.tests for each in chosen)))
            red = self._executor.map(self._run_unmutated, map(self._workspaces[0].expand_patterns, words))
            found = [*filter(None, red)]
        seconds = {test: took for bench in self._workspaces for test, took in bench.test_durations().items()}
        self._traces = CoverageTraces([bench.trace_log for bench in self._workspaces], seconds)
        return found

    def recheck_known_killers(self, chosen: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
        """The mutants that the test of an earlier run has noticed again, and that test, as they become known."""
        known = [(each, [test]) for each in chosen if (test := self._previous_results.killing_test(each.name, ROOT))]
        if failed := self._run_unmutated([*dict.fromkeys(test for _, (test,) in known)]):
            raise SystemExit(f"{failed} is red without any mutant: mend that first")
        for (mutant, _), found in zip(
            known, self._executor.map(lambda each: self._run_mutant(*each), known), strict=True
        ):
            if found:
                yield mutant, found

    def find_killing_test(self, mutant: Mutant) -> str | None:
        """The first test that turned red under a mutant; None if all that come by it stayed green."""
        by_it = self._traces.tests_at(mutant.module, mutant.line)
        files = [file for words in mutant.tests for file in self._workspaces[0].expand_patterns(words)]
        places = {file: place for place, file in enumerate(files)}
        by_it = sorted(
            (test for test in by_it if file_of_test(test) in places), key=lambda test: places[file_of_test(test)]
        )
        known = [killer for killer in self._killing_tests[mutant.module] if killer in by_it]
        return self._run_mutant(mutant, [*dict.fromkeys([*known, *by_it])])

    def _run_mutant(self, mutant: Mutant, tests: Sequence[str]) -> str | None:
        """The first of some tests that turned red under a mutant."""
        with self._borrow_workspace() as bench, bench.change_sources({mutant.module: mutant.mutated_source}):
            found = bench.first_failure(tests)
        # What is no test alone (a file that cannot be loaded, a process that ended) cannot be asked again.
        if found and (name := found.removesuffix(HUNG_SUFFIX)) in tests:
            # The last one first: guards of one function stand beside each other, and so do their tests.
            killers = self._killing_tests[mutant.module]
            self._killing_tests[mutant.module] = [name, *(killer for killer in killers if killer != name)]
            self._previous_results.record(mutant.name, name)
        return found

    def _run_unmutated(self, tests: Sequence[str]) -> str | None:
        """The first of some tests that is red without any mutant."""
        with self._borrow_workspace() as bench:
            return bench.first_failure(tests)

    @contextmanager
    def _borrow_workspace(self) -> Iterator[Workspace]:
        """A bench that nobody else has meanwhile."""
        bench = self._free_workspaces.get()
        try:
            yield bench
        finally:
            self._free_workspaces.put(bench)


def main(words: Sequence[str]) -> int:
    """Run the mutants whose names have one of ``words`` (all, if there are none)."""
    texts = [word for word in words if word != "--list"]
    targets, equivalent = load_settings()
    chosen = [mutant for mutant in list_mutants(targets) if not texts or any(text in mutant.name for text in texts)]
    if "--list" in words:
        print(*(mutant.name for mutant in chosen), sep="\n")
        return 0
    started, workers = time.monotonic(), int(os.environ.get("WORKERS", "2"))
    counts: dict[str, Counter[str]] = defaultdict(Counter)

    def tell(mutant: Mutant, killer: str | None) -> None:
        known = equivalent.get(mutant.name)
        result = ("NOT EQUIVALENT" if known else "killed") if killer else "equivalent" if known else "SURVIVED"
        counts[mutant.module][result] += 1
        print(f"{mutant.name}\n    {result}: {killer or known or 'by no test'}", flush=True)

    remembered = MutantResults(Path(os.environ.get("TOPIARIST_CACHE") or ROOT / ".cache") / "killers.json")
    with (
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(workers) as pool,
        closing(WorkspacePool(Path(scratch), pool, workers, remembered)) as benches,
    ):
        left = {mutant.name: mutant for mutant in chosen}
        for mutant, killer in benches.recheck_known_killers(chosen):
            tell(mutant, killer)
            del left[mutant.name]
        if red := benches.trace_tests([*left.values()]):
            raise SystemExit("\n".join(f"{test} is red without any mutant: mend that first" for test in red))
        for mutant, found in zip(left.values(), pool.map(benches.find_killing_test, left.values()), strict=True):
            tell(mutant, found)
    for module, count in counts.items():
        print(f"{module}: {', '.join(f'{number} {result}' for result, number in sorted(count.items()))}")
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"{len(chosen)} mutants in {time.monotonic() - started:.0f} s")
    return 1 if total["SURVIVED"] or total["NOT EQUIVALENT"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
