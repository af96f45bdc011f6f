"""Traces of tests: the statements that each test executes, to run the fastest matching tests first.

A module is rewritten so that each statement of its functions logs its line before it runs, in this process or in one
that a test starts: pytest names the current test in the environment. ``WorkspacePool.trace_tests`` runs the tests once
with such modules.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from mutation.mutations import Function

_TRACE_FUNCTION = """
def _log_line(_line, _known=set()):
    import os
    logged = _line, os.environ.get("PYTEST_CURRENT_TEST", "")
    if logged not in _known:
        _known.add(logged)
        with open({log!r}, "a", encoding="utf-8") as log:
            log.write({module!r} + f"\\t{{_line}}\\t{{logged[1]}}\\n")
"""

_PHASE_SUFFIXES = (" (setup)", " (call)", " (teardown)")


def tracing_transforms(functions: Mapping[str, Collection[str]], log: Path) -> Mapping[str, Callable[[str], str]]:
    """Return, by module, a function that rewrites a source so that some functions log to ``log``."""
    return {module: partial(_add_tracing, module, names, log) for module, names in functions.items()}


def _add_tracing(module: str, functions: Collection[str], log: Path, source: str) -> str:
    tree = ast.parse(source)
    for node in [*ast.walk(tree)]:
        if isinstance(node, Function) and node.name in functions:
            for body in _statement_lists(node):
                body[:] = [each for statement in body for each in (_trace_call(statement), statement)]
    place = next(number for number, node in enumerate(tree.body) if not _is_prologue(node))
    tree.body[place:place] = ast.parse(_TRACE_FUNCTION.format(log=str(log), module=module)).body
    return ast.unparse(ast.fix_missing_locations(tree))


def statement_line(function: Function, line: int) -> int:
    """Return the first line of the innermost statement that contains a line."""
    found = [
        each for body in _statement_lists(function) for each in body if each.lineno <= line <= (each.end_lineno or 0)
    ]
    return max(each.lineno for each in found)


class CoverageTraces:
    """The logged traces: the tests that execute a statement.

    A fixture that several tests share runs in the setup of the first: what a setup executes counts for all tests of its
    file.
    """

    def __init__(self, log: Iterable[str], seconds: Mapping[str, float]) -> None:
        self._tests: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        self._files: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        self._seconds = seconds
        for logged in log:
            module, line, test = logged.split("\t", 2)
            if test.endswith(_PHASE_SUFFIXES[0]):
                self._files[module, int(line)].add(file_of_test(test))
            for phase in _PHASE_SUFFIXES:
                test = test.removesuffix(phase)
            self._tests[module, int(line)].add(test)

    @property
    def tests(self) -> list[str]:
        """Return all tests, the fastest first."""
        return sorted(self._seconds, key=self._seconds.__getitem__)

    def seconds_of(self, tests: Iterable[str]) -> float:
        """Return the seconds that tests took without a mutant; a test that did not run took none."""
        return sum(self._seconds.get(test, 0.0) for test in tests)

    def is_imported(self, module: str, line: int) -> bool:
        """Return whether a statement runs outside any test, while a module or test file is loaded."""
        return "" in self._tests[module, line]

    def tests_at(self, module: str, line: int) -> list[str]:
        """Return the tests that execute a statement, the fastest first, then those that share a fixture with one.

        A statement that runs outside any test counts for all tests.
        """
        logged, files = self._tests[module, line], self._files[module, line]
        if "" in logged:
            return self.tests
        others = [test for test in self.tests if test not in logged and file_of_test(test) in files]
        return [*(test for test in self.tests if test in logged), *others]


class TraceCache:
    """The traces of the last run, valid while the package, the tests and the traced functions are the same."""

    def __init__(self, path: Path, contents: Iterable[object]) -> None:
        self._path = path
        self._key = hashlib.sha256("\n".join(map(str, contents)).encode()).hexdigest()

    def read(self) -> CoverageTraces | None:
        """Return the stored traces, or None if there are none or something was changed since."""
        stored = json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else {}
        return CoverageTraces(stored["log"], stored["seconds"]) if stored.get("key") == self._key else None

    def write(self, log: Iterable[str], seconds: Mapping[str, float]) -> None:
        """Store the logged lines and the durations of the tests."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        content = {"key": self._key, "log": sorted(set(log)), "seconds": seconds}
        self._path.write_text(json.dumps(content), encoding="utf-8")


def file_of_test(test: str) -> str:
    """Return the file of a test, as pytest names it."""
    return test.partition("::")[0]


def _statement_lists(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements in a function, at any depth."""
    for each in [*ast.walk(node)]:
        for name in ("body", "orelse", "finalbody"):
            body = getattr(each, name, None)
            if isinstance(body, list) and body and not isinstance(each, ast.ClassDef):
                yield body


def _trace_call(statement: ast.stmt) -> ast.Expr:
    call = ast.Call(ast.Name("_log_line", ast.Load()), [ast.Constant(statement.lineno)], [])
    return ast.copy_location(ast.Expr(call), statement)


def _is_prologue(node: ast.stmt) -> bool:
    """Return whether a node is a docstring or a future import, which must come first in a module."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
