"""Takes away each single guard of the code that writes, one at a time, and shows the test that turns red.

A guard is an ``if`` that returns, raises, yields or skips; an operand of ``and`` or ``or``; one of the values that are
compared together; the filter of a comprehension; a function that gives a plan back with less in it; an operation of a
transaction; a field of the document that a fingerprint is made over; a statement that only adds to what is checked.
``mutants.toml`` names the functions whose guards keep a cluster from harm and the tests that are to notice. A mutant
that no test notices has survived: mend the tests, or say there why it changes nothing.

Usage: ``python tools/mutants.py [TEXT...]`` (only the mutants whose name has one of these texts), ``--list`` names them
and runs nothing. Ends with 1 if any survives, or if one that is said to be equivalent does not.
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
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("operator/topiarist")
COPIED = ("operator", "schemas", "manifests", "tests", "tools", "benchmarks", "pyproject.toml")

LONGEST = 600
"""Seconds that the tests of one word may take; a mutant that hangs is noticed too."""

FILTERS = frozenset(
    ("allow_deletions", "complete", "guard", "hold", "permit", "restrict", "review", "trusted", "within_budgets")
)
"""Functions that give their first argument back with less in it, or raise: a guard is a call of one."""


PROFILE = """
from hypothesis import Phase, settings

phases = (Phase.explicit, Phase.generate)
settings.register_profile("one-example", deadline=None, derandomize=True, database=None, phases=phases)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)
"""
"""A plugin for pytest: literal cases come before properties, these have the same examples in each run, and the first
that fails is enough, however large it is.
"""


class Target(NamedTuple):
    """Functions of one module, and the tests that are to notice when one of their guards is gone.

    Each word of ``tests`` is run by itself, the fastest first: it is one folder or file, or several.
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
            for number, (what, _) in enumerate(_guards(_function(tree, function, target.module))):
                changed = copy.deepcopy(tree)
                list(_guards(_function(changed, function, target.module)))[number][1]()
                name = f"{target.module}:{function}: {what}"
                names[name] += 1
                name += f" [{names[name]}]" if names[name] > 1 else ""
                yield Mutant(name, target.module, ast.unparse(changed), target.tests)


def _function(tree: ast.Module, name: str, module: str) -> ast.FunctionDef:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise SystemExit(f"{module} has no function {name}: mend mutants.toml")


def _guards(function: ast.FunctionDef) -> Iterator[tuple[str, Callable[[], None]]]:
    """What can be taken away, in words, and what takes it away, in place."""
    for node in ast.walk(function):
        if isinstance(node, ast.If):
            yield f"without the guard: {_text(node.test)}", partial(setattr, node, "test", ast.Constant(value=False))
        elif isinstance(node, ast.BoolOp) and not isinstance(node.values[-1], ast.Constant):
            for operand in node.values:
                yield f"without {_text(operand)} in: {_text(node)}", partial(node.values.remove, operand)
        elif isinstance(node, ast.comprehension):
            for wanted in node.ifs:
                yield f"without the filter: {_text(wanted)}", partial(node.ifs.remove, wanted)
        elif isinstance(node, ast.Compare):
            yield from _compared(node)
        elif isinstance(node, ast.Dict) and len(node.keys) > 1:
            for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
                what = _text(key) if key else f"**{_text(value)}"
                yield f"without the field {what}", partial(_without_place, (node.keys, node.values), index)
        elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load):
            for element in node.elts:
                if isinstance(element, ast.Call | ast.Starred):
                    yield f"without {_text(element)}", partial(node.elts.remove, element)
        yield from _done(node)


def _compared(node: ast.Compare) -> Iterator[tuple[str, Callable[[], None]]]:
    """Of two tuples that are compared, what stands at one place."""
    sides = [side.elts for side in (node.left, *node.comparators) if isinstance(side, ast.Tuple)]
    if len(sides) == 2 and len(sides[0]) == len(sides[1]):
        for index, one in enumerate(sides[0]):
            yield f"without {_text(one)} in: {_text(node)}", partial(_without_place, sides, index)


def _done(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is done for its effect, and what is passed through a filter."""
    for name, value in ast.iter_fields(node):
        for index, each in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(each, ast.AugAssign) or (
                isinstance(each, ast.Expr) and isinstance(each.value, ast.Call | ast.YieldFrom)
            ):
                yield f"without: {_text(each)}", partial(_put, node, name, index, ast.copy_location(ast.Pass(), each))
            elif isinstance(each, ast.Call) and each.args and _text(each.func).rpartition(".")[2] in FILTERS:
                yield f"not through: {_text(each)}", partial(_put, node, name, index, each.args[0])


def _put(node: ast.AST, name: str, index: int, other: ast.AST) -> None:
    value = getattr(node, name)
    if isinstance(value, list):
        value[index] = other
    else:
        setattr(node, name, other)


def _without_place(lists: Sequence[list[Any]], index: int) -> None:
    for elements in lists:
        del elements[index]


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def red(folder: Path, mutant: Mutant) -> str | None:
    """The first test that turned red under a mutant, the plain ones first; None if all stayed green."""
    path = folder / SOURCE / mutant.module
    original = path.read_text(encoding="utf-8")
    path.write_text(mutant.source, encoding="utf-8")
    try:
        for tests in mutant.tests:
            if found := _first_failure(folder, tests):
                return found
        return None
    finally:
        path.write_text(original, encoding="utf-8")


def _first_failure(folder: Path, tests: str) -> str | None:
    files = [str(path) for word in tests.split() for path in sorted(folder.glob(word))]
    # Workers take a second to start: single files are done by then.
    workers = "2" if any(map(os.path.isdir, files)) else "0"
    options = ["-x", "-q", "-n", workers, "--no-header", "-p", "no:cacheprovider"]
    options += ["-p", "one_example", "--hypothesis-profile", "one-example"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    path = os.pathsep.join(map(str, (folder / SOURCE.parent, folder)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("TOPIARIST_GOLDEN", None)
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return f"{tests} does not come to an end"
    if done.returncode == 0:
        return None
    match = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return match[1] if match else f"{tests} cannot be collected"


def main(words: Sequence[str]) -> int:
    """Run the mutants whose names have one of ``words`` (all, if there are none)."""
    texts = [word for word in words if word != "--list"]
    targets, equivalent = settings()
    chosen = [mutant for mutant in mutants(targets) if not texts or any(text in mutant.name for text in texts)]
    if "--list" in words:
        print(*(mutant.name for mutant in chosen), sep="\n")
        return 0
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in COPIED:
            copy_tree(ROOT / name, folder / name)
        (folder / "one_example.py").write_text(PROFILE, encoding="utf-8")
        wanted = dict.fromkeys(tests for mutant in chosen for tests in mutant.tests)
        if found := next(filter(None, (_first_failure(folder, tests) for tests in wanted)), None):
            print(f"{found} is red without any mutant: mend that first", file=sys.stderr)
            return 1
        for mutant in chosen:
            found = red(folder, mutant)
            known = equivalent.get(mutant.name)
            if (found is None) != (known is not None):
                wrong.append(mutant.name)
            print(f"{mutant.name}\n    {found or ('equivalent: ' + known if known else 'SURVIVED')}", flush=True)
    print(f"{len(chosen)} mutants, {len(wrong)} wrong")
    return 1 if wrong else 0


def copy_tree(source: Path, target: Path) -> None:
    """A copy with the links that the tree lives by, without what Python left in it."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.exists():
        shutil.copy2(source, target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
