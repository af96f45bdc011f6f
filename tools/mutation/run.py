"""Mutation tests: remove each single guard of the code that writes, and find the test that fails.

``mutations.py`` defines the guards. ``mutants.toml`` names the functions with guards that protect a cluster, and the
tests that must fail without them. A mutant that no test kills has survived: fix the tests, or state in ``mutants.toml``
why the mutant changes nothing. A mutant is first run against the test that killed it in an earlier run
(``results.py``), if any. For the remaining mutants all tests are run once without a mutant to trace the statements that
each test executes (``traces.py``). The tests that execute a mutant's statement are then run until one fails: first
those that killed another mutant, then the fastest. A function that no import calls is replaced in memory, in a fork of
a process that has collected all tests (``pytest_plugin.py``); for any other mutant everything is imported anew.

``draw.py`` runs samples of other changes of whole packages in the same way.

Usage: ``python tools/mutation/run.py [TEXT...]`` (only the mutants with one of these texts in their name); ``--list``
names the mutants and runs nothing. ``WORKERS`` (default 2) mutants are run in parallel. Exits with 1 if a mutant
survives, or if a mutant declared as equivalent is killed.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from mutation.mutations import Function, Mutation, find_mutations
from mutation.results import MutantResults
from mutation.traces import CoverageTraces, TraceCache, file_of_test, statement_line, tracing_transforms
from mutation.workspace import COPIED_PATHS, EXHAUSTED_SUFFIX, ROOT, SOURCE, Workspace, copy_tree

START_S, TIME_FACTOR = 30, 3
"""Seconds that tests may take under a mutant: this many, and a multiple of what they took without one.

Measured in 180 runs of ``own_time``, on a busy machine: no tests took more than 1.5 times of what they took when they
were traced, with 1 to 5 s in which pytest begins.
"""


class Target(NamedTuple):
    """Functions of one module, and the tests that must fail when one of their guards is removed.

    Each element of ``tests`` is one or more patterns of files that are run together; the most likely to fail come
    first.
    """

    module: str
    functions: Sequence[str]
    tests: Sequence[str]


class MutationSettings(NamedTuple):
    """The content of ``mutants.toml``: the targets, and the equivalent mutants by name with the reason."""

    targets: Sequence[Target]
    equivalent: Mapping[str, str]


def load_settings() -> MutationSettings:
    """Read ``mutants.toml``; raise ``SystemExit`` if it declares an unknown mutant equivalent."""
    read = tomllib.loads((ROOT / "tools/mutation/mutants.toml").read_text(encoding="utf-8"))
    settings = MutationSettings([Target(**target) for target in read["target"]], read["equivalent"])
    if unknown := sorted(settings.equivalent.keys() - {mutant.name for mutant in list_mutants(settings.targets)}):
        raise SystemExit("\n".join(["unknown mutants: fix [equivalent] in mutants.toml", *unknown]))
    return settings


class Mutant(NamedTuple):
    """A change of one place of a module: the n-th that ``find`` finds, with a name.

    The name stays the same while the code around the place moves. ``uses`` are the statements that a test must execute
    to see the change, as module and line.
    """

    name: str
    module: str
    function: str
    number: int
    uses: Sequence[tuple[str, int]]
    tests: Sequence[str]
    find: Callable[[ast.Module], Sequence[Mutation]]
    is_body: bool = True
    line: int = 0

    def mutated_source(self, original: str) -> str:
        """Return the module's source with the change."""
        tree = ast.parse(original)
        self.find(tree)[self.number].apply()
        return ast.unparse(tree)

    def failing_source(self, original: str) -> str:
        """Return the module's source with a function around the change that always fails."""
        tree = ast.parse(original)
        around = [
            node
            for node in ast.walk(tree)
            if isinstance(node, Function) and node.lineno <= self.line <= (node.end_lineno or 0)
        ]
        around[-1].body[:] = ast.parse("raise AssertionError('control')").body
        return ast.unparse(tree)


def list_mutants(targets: Sequence[Target]) -> Iterator[Mutant]:
    """Yield every guard of every target, in order; guards with the same name are numbered from the second on."""
    names: Counter[str] = Counter()
    for target in targets:
        tree = ast.parse((ROOT / SOURCE / target.module).read_text(encoding="utf-8"))
        for function in target.functions:
            node = _find_function(tree, function, target.module)
            find = partial(_find_guards, function, target.module)
            for number, guard in enumerate(find_mutations(node)):
                name = unique_name(f"{target.module}:{function}: {guard.description}", names)
                uses = ((target.module, statement_line(node, guard.line)),)
                yield Mutant(name, target.module, function, number, uses, target.tests, find)


def unique_name(name: str, names: Counter[str]) -> str:
    """Return a name, from its second use on with a number."""
    names[name] += 1
    return f"{name} [{names[name]}]" if names[name] > 1 else name


def _find_guards(function: str, module: str, tree: ast.Module) -> Sequence[Mutation]:
    return [*find_mutations(_find_function(tree, function, module))]


def _find_function(tree: ast.Module, name: str, module: str) -> Function:
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name == name:
            return node
    raise SystemExit(f"{module} has no function {name}: fix mutants.toml")


class WorkspacePool:
    """A pool of parallel workspaces, with the traces of the tests and the killing tests of each module."""

    def __init__(
        self, scratch: Path, executor: ThreadPoolExecutor, workers: int, limits: Mapping[str, str], root: Path = ROOT
    ) -> None:
        self._cache = Path(os.environ.get("TOPIARIST_CACHE") or ROOT / ".cache")
        self._previous_results = MutantResults(self._cache / "killers.json")
        self._is_served = False
        self._root = root
        self._killing_tests: defaultdict[str, list[str]] = defaultdict(list)
        for name in COPIED_PATHS:
            copy_tree(root / name, scratch / "0" / name)
        copies = [shutil.copytree(scratch / "0", scratch / str(number), symlinks=True) for number in range(1, workers)]
        self._workspaces = [Workspace(folder, limits) for folder in (scratch / "0", *copies)]
        self._free_workspaces: SimpleQueue[Workspace] = SimpleQueue()
        for workspace in self._workspaces:
            self._free_workspaces.put(workspace)
        self._executor = executor
        self._traces = CoverageTraces((), {})

    def close(self) -> None:
        """End all processes."""
        for workspace in self._workspaces:
            workspace.close()

    def trace_tests(self, chosen: Sequence[Mutant]) -> Sequence[str]:
        """Run all tests without a mutant and trace the statements that each test executes.

        Returns the tests that fail even without a mutant.
        """
        functions: defaultdict[str, set[str]] = defaultdict(set)
        for mutant in chosen:
            functions[mutant.module].add(mutant.function)
        words = dict.fromkeys(chain(*(each.tests for each in chosen)))
        patterns = [*map(self._workspaces[0].expand_patterns, words)]
        contents = [
            self._workspaces[0].read_contents([*chain(*patterns)]),
            sorted((module, *sorted(names)) for module, names in functions.items()),
        ]
        name = hashlib.sha256("".join(words).encode()).hexdigest()[:12]
        cache = TraceCache(self._cache / "traces" / f"{name}.json", contents)
        if stored := cache.read():
            self._traces = stored
            return ()
        with ExitStack() as stack:
            for workspace in self._workspaces:
                stack.enter_context(workspace.change_sources(tracing_transforms(functions, workspace.trace_log)))
            failures = [*filter(None, self._executor.map(self._run_unmutated, patterns))]
        seconds = self._read_durations()
        log = [*chain(*(workspace.read_traces() for workspace in self._workspaces))]
        self._traces = CoverageTraces(log, seconds)
        if not failures:
            cache.write(log, seconds)
        return failures

    def recheck_known_killers(self, chosen: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
        """Yield the mutants that are killed again by their test of an earlier run, and that test.

        Raises ``SystemExit`` if such a test fails without a mutant.
        """
        known = [
            (each, [test]) for each in chosen if (test := self._previous_results.killing_test(each.name, self._root))
        ]
        if failed := self._run_unmutated([*dict.fromkeys(test for _, (test,) in known)]):
            raise SystemExit(f"{failed} fails without any mutant: fix it first")
        self._traces = CoverageTraces((), self._read_durations())
        for (mutant, _), found in zip(
            known, self._executor.map(lambda each: self._run_mutant(*each), known), strict=True
        ):
            if found:
                yield mutant, found

    def serve_tests(self, chosen: Sequence[Mutant]) -> None:
        """Collect the tests of all mutants once in each workspace; from now on functions are replaced in memory."""
        words = dict.fromkeys(chain(*(each.tests for each in chosen)))
        files = dict.fromkeys(chain(*map(self._workspaces[0].expand_patterns, words)))
        for workspace in self._workspaces:
            workspace.serve([*files], sorted({mutant.module for mutant in chosen}))
        self._is_served = True

    def check_control(self, mutants: Sequence[Mutant]) -> None:
        """Raise ``SystemExit`` unless the tests pass without a change, and notice one that always fails.

        All tests are run in both ways in which mutants are run: in memory, and imported anew. A test that fails as it
        is run here would kill every mutant. Five functions that always fail are tried.
        """
        module, tests = mutants[0].module, self._traces.tests
        ways = {"in memory": lambda: self._run_in_memory(tests, module, str), "imported": lambda: self._run_anew(tests)}
        found = zip(ways, self._executor.map(lambda run: run(), ways.values()), strict=True)
        if failures := [f"{failure} fails {way} without any mutant: fix it first" for way, failure in found if failure]:
            raise SystemExit("\n".join(failures))
        in_memory = (
            (mutant, tests)
            for mutant in mutants
            if mutant.is_body
            and (tests := [*self._traces.tests_at(*mutant.uses[0])])
            and not self._traces.is_imported(*mutant.uses[0])
        )
        tried = 0
        for mutant, tests in islice(in_memory, 5):
            tried += 1
            failure = self._run_in_memory(tests, mutant.module, mutant.failing_source)
            if failure and self.is_test(failure):
                return
        if tried:
            raise SystemExit("no test notices a function that always fails: changes in memory are not run")

    def find_killing_test(self, mutant: Mutant) -> str | None:
        """Return the first test that fails under a mutant; None if all tests of its statement pass.

        A statement that is executed at import is first run against the tests that execute its uses, then all tests.
        """
        places = {
            file: place
            for place, words in enumerate(mutant.tests)
            for file in self._workspaces[0].expand_patterns(words)
        }
        known = [test for test in self._traces.tests if file_of_test(test) in places]
        found = {test for use in mutant.uses for test in self._traces.tests_at(*use)}
        candidates = sorted((test for test in known if test in found), key=lambda test: places[file_of_test(test)])
        killers = [self._previous_results.killing_test(mutant.name, self._root), *self._killing_tests[mutant.module]]
        first = [killer for killer in killers if killer in found]
        failure = self._run_mutant(mutant, [*dict.fromkeys([*first, *candidates])])
        if failure or mutant.is_body:
            return failure
        return self._run_mutant(mutant, [test for test in known if test not in found])

    def find_killing_tests(self, mutants: Sequence[Mutant]) -> Iterator[str | None]:
        """Yield the first test that fails under each mutant, or None; the mutants are run in parallel."""
        return self._executor.map(self.find_killing_test, mutants)

    def is_test(self, failure: str) -> bool:
        """Return whether a failure is one of a test, and no error at import or collection."""
        return "::" in failure.partition("[")[0] and not failure.startswith("ends with")

    def _run_mutant(self, mutant: Mutant, tests: Sequence[str]) -> str | None:
        """Return the first of the tests that fails under a mutant; None if all pass."""
        if not tests:
            return None
        at_import = not mutant.is_body or any(self._traces.is_imported(*use) for use in mutant.uses)
        with self._borrow_workspace() as workspace:
            original = workspace.read_source(mutant.module)
            mutated = mutant.mutated_source(original)
            with workspace.change_sources({mutant.module: lambda _: mutated}):
                failure = None
                if is_in_memory := self._is_served and not at_import:
                    sources = original, mutated
                    failure = workspace.first_failure_of_functions(tests, self._limit(tests), mutant.module, sources)
                if not is_in_memory or (failure and not self.is_test(failure)):
                    failure = workspace.first_failure(tests, self._limit(tests))
        # A failure that is no single test (a file that cannot be loaded, a process that ended) cannot be rerun.
        if failure and (name := failure.removesuffix(EXHAUSTED_SUFFIX)) in tests:
            # The last one first: guards of one function are neighbors, so the same test often kills the next one too.
            killers = self._killing_tests[mutant.module]
            self._killing_tests[mutant.module] = [name, *(killer for killer in killers if killer != name)]
            self._previous_results.record(mutant.name, name)
        return failure

    def _run_in_memory(self, tests: Sequence[str], module: str, change: Callable[[str], str]) -> str | None:
        """Return the first of the tests that fails in memory with a changed module; None if all pass."""
        if not tests:
            return None
        with self._borrow_workspace() as workspace:
            original = workspace.read_source(module)
            sources = original, change(original)
            return workspace.first_failure_of_functions(tests, self._limit(tests), module, sources)

    def _run_anew(self, tests: Sequence[str]) -> str | None:
        """Return the first of the tests that fails without a mutant, within the limits of one; None if all pass."""
        with self._borrow_workspace() as workspace:
            return workspace.first_failure(tests, self._limit(tests))

    def _run_unmutated(self, tests: Sequence[str]) -> str | None:
        """Return the first of the tests that fails without a mutant; None if all pass."""
        with self._borrow_workspace() as workspace:
            return workspace.first_failure(tests, None)

    def _read_durations(self) -> Mapping[str, float]:
        """Return the seconds that each test took when it last ran."""
        return {test: took for workspace in self._workspaces for test, took in workspace.test_durations().items()}

    def _limit(self, tests: Sequence[str]) -> float:
        """Return the seconds that tests may take under a mutant."""
        return START_S + TIME_FACTOR * self._traces.seconds_of(tests)

    @contextmanager
    def _borrow_workspace(self) -> Iterator[Workspace]:
        """Lend a workspace that no other thread uses meanwhile."""
        workspace = self._free_workspaces.get()
        try:
            yield workspace
        finally:
            self._free_workspaces.put(workspace)


def main(words: Sequence[str]) -> int:
    """Run the mutants with one of ``words`` in their names (all, if there are none); return the exit code."""
    texts = [word for word in words if word != "--list"]
    targets, equivalent = load_settings()
    chosen = [mutant for mutant in list_mutants(targets) if not texts or any(text in mutant.name for text in texts)]
    if "--list" in words:
        print(*(mutant.name for mutant in chosen), sep="\n")
        return 0
    started, workers = time.monotonic(), int(os.environ.get("WORKERS", "2"))
    counts: dict[str, Counter[str]] = defaultdict(Counter)

    def report(mutant: Mutant, killer: str | None) -> None:
        known = equivalent.get(mutant.name)
        result = ("NOT EQUIVALENT" if known else "killed") if killer else "equivalent" if known else "SURVIVED"
        counts[mutant.module][result] += 1
        print(f"{mutant.name}\n    {result}: {killer or known or 'by no test'}", flush=True)

    with (
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(workers) as pool,
        closing(WorkspacePool(Path(scratch), pool, workers, {})) as workspaces,
    ):
        remaining = {mutant.name: mutant for mutant in chosen}
        for mutant, killer in workspaces.recheck_known_killers(chosen):
            report(mutant, killer)
            del remaining[mutant.name]
        if failures := workspaces.trace_tests([*remaining.values()]):
            raise SystemExit("\n".join(f"{test} fails without any mutant: fix it first" for test in failures))
        workspaces.serve_tests([*remaining.values()])
        for mutant, found in zip(
            remaining.values(), pool.map(workspaces.find_killing_test, remaining.values()), strict=True
        ):
            report(mutant, found)
    for module, count in counts.items():
        print(f"{module}: {', '.join(f'{number} {result}' for result, number in sorted(count.items()))}")
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"{len(chosen)} mutants in {time.monotonic() - started:.0f} s")
    return 1 if total["SURVIVED"] or total["NOT EQUIVALENT"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
