"""Mutation tests of a package: a random sample of all small changes of its code, against its own unit tests.

A group is a folder or module of the package, such as ``drift`` or ``adapters/kafka_admin``; its tests are those below
``tests/unit`` with the same path, and those of ``RUN_TESTS``. ``operators.py`` defines the changes. The sample is
spread over the group: all changes are put in an order by function, and drawn at equal distances from a random start.
A change with which the package cannot be imported, or that only leaves out a required argument, is not counted: no
test is needed to find it. Another one is drawn instead. A test that takes more than ten CPU seconds, or only waits, has
failed; so has a run of tests that takes too much time or memory (``WorkspacePool``).

A survivor is a change that no test of the group notices. Write the test that states what the code means, or list the
survivor with its reason in ``survivors/<group>.toml``: ``[equivalent]`` if the change cannot be seen, ``[cosmetic]`` if
only the wording changes.

Usage: ``python -m mutation.draw [--sample N] [--seed N] [--list] GROUP...``, where ``--list`` only names the changes.
Exits with 1 if less than 90 % of a sample are killed, if a survivor is not listed, or if a listed survivor is killed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from mutation.mutations import Function, Mutation
from mutation.operators import Unit, find_changes, find_units
from mutation.run import Mutant, WorkspacePool, unique_name
from mutation.traces import statement_line
from mutation.workspace import EXHAUSTED_SUFFIX, REFUSED_SUFFIX, ROOT, SOURCE

REQUIRED_SHARE = 0.9
LIMITS = {"EXAMPLES": "20", "TEST_CPU_S": "10"}
"""For ``pytest_plugin.py``: a test that takes more CPU seconds has failed, because its mutant hangs."""

RUN_TESTS = {
    "output": ["tests/acceptance/test_examples.py"],
    "adapters/kafka_admin": [
        f"tests/integration/test_{name}.py"
        for name in ("consent", "implied_topics", "offered_requests", "records_of_services", "without_records")
    ],
}
"""Further tests of a group: whole commands, in examples or over brokers in memory, which prove it in place of units."""


class Result(NamedTuple):
    """A mutant that was run, and the test that killed it or None."""

    mutant: Mutant
    killer: str | None


def list_group(group: str, root: Path = ROOT) -> list[Mutant]:
    """Return every mutant of a group, in the order of its modules."""
    source = root / SOURCE
    folder = source / group
    paths = [folder.with_suffix(".py")] if folder.with_suffix(".py").exists() else sorted(folder.rglob("*.py"))
    if not paths:
        raise SystemExit(f"unknown group: {group} is no folder or module of {SOURCE}")
    trees = {str(path.relative_to(source)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    uses = _find_uses(trees)
    own = Path("tests/unit") / group
    patterns = [f"{own}/**/test_*.py", f"{own}/test_*.py", f"{own.parent}/test_{own.name}.py"]
    tests = (" ".join([*patterns, *RUN_TESTS.get(group, ())]),)
    return [*chain(*(_list_module(module, tree, uses, tests) for module, tree in trees.items()))]


def _list_module(
    module: str, tree: ast.Module, uses: Mapping[str, Sequence[tuple[str, int]]], tests: Sequence[str]
) -> Iterator[Mutant]:
    names: Counter[str] = Counter()
    for place, unit in enumerate(find_units(tree)):
        find = partial(_find_unit_changes, place)
        function = unit.node.name if isinstance(unit.node, Function) else ""
        for number, change in enumerate(find_changes(unit)):
            name = unique_name(f"{module}:{unit.name}: {change.description}", names)
            if unit.is_body and isinstance(unit.node, Function):
                places: Sequence[tuple[str, int]] = ((module, statement_line(unit.node, change.line)),)
            else:
                places = [*chain(*(uses[each] for each in unit.names))]
            yield Mutant(name, module, function, number, places, tests, find, unit.is_body, change.line)


def _find_unit_changes(place: int, tree: ast.Module) -> Sequence[Mutation]:
    unit: Unit = next(islice(find_units(tree), place, None))
    return [*find_changes(unit)]


def _find_uses(trees: Mapping[str, ast.Module]) -> Mapping[str, Sequence[tuple[str, int]]]:
    """Return by name the statements in functions that mention it, as module and line."""
    found: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for module, tree in trees.items():
        for unit in find_units(tree):
            if unit.is_body and isinstance(unit.node, Function):
                found[unit.node.name].append((module, unit.node.body[0].lineno))
                for node in chain(*map(ast.walk, unit.node.body)):
                    name = getattr(node, "id", None) or getattr(node, "attr", None)
                    if isinstance(name, str):
                        found[name].append((module, statement_line(unit.node, node.__dict__["lineno"])))
    return found


def draw(mutants: Sequence[Mutant], sample: int, seed: int) -> Iterator[Mutant]:
    """Yield ``sample`` mutants that are spread over all functions, then all others as substitutes, in random order.

    Each mutant has the same chance. The order depends on the seed and the names of the mutants only.
    """
    chance = random.Random(seed)
    by_function: defaultdict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_function[mutant.module, mutant.function].append(mutant)
    groups = [*by_function.values()]
    chance.shuffle(groups)
    for group in groups:
        chance.shuffle(group)
    ordered = [*chain(*groups)]
    step = max(1.0, len(ordered) / sample)
    start = chance.random() * step
    places = {int(start + number * step) % len(ordered) for number in range(min(sample, len(ordered)))}
    drawn = [ordered[place] for place in sorted(places)]
    chance.shuffle(drawn)
    rest = [mutant for place, mutant in enumerate(ordered) if place not in places]
    chance.shuffle(rest)
    return chain(drawn, rest)


def load_survivors(group: str, mutants: Sequence[Mutant], root: Path = ROOT) -> Mapping[str, str]:
    """Return the listed survivors of a group with their reasons; there may be none.

    Raises ``SystemExit`` if one is no mutant of the group any more.
    """
    path = root / "tools/mutation/survivors" / f"{group.replace('/', '-')}.toml"
    read = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if unknown := read.keys() - {"equivalent", "cosmetic"}:
        raise SystemExit(f"{path.name}: unknown kinds of survivors: {', '.join(sorted(unknown))}")
    survivors = {name: f"{kind}: {reason}" for kind, entries in read.items() for name, reason in entries.items()}
    if stale := sorted(survivors.keys() - {mutant.name for mutant in mutants}):
        raise SystemExit("\n".join([f"{path.name}: unknown mutants, remove or rename them", *stale]))
    return survivors


def run_sample(pool: WorkspacePool, mutants: Sequence[Mutant], sample: int, seed: int) -> Iterator[Result]:
    """Yield the results of a sample; a mutant that cannot be imported or called is replaced by another one."""
    order = draw(mutants, sample, seed)
    counted = 0
    while counted < sample and (batch := [*islice(order, sample - counted)]):
        for mutant, failure in zip(batch, pool.find_killing_tests(batch), strict=True):
            if failure is None or (pool.is_test(failure) and not failure.endswith(REFUSED_SUFFIX)):
                counted += 1
                yield Result(mutant, failure)


def run_group(group: str, sample: int, seed: int, workers: int, root: Path = ROOT) -> bool:
    """Run a sample of a group and print its results; return whether it is as good as required."""
    mutants = list_group(group, root)
    survivors = load_survivors(group, mutants, root)
    with (
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(workers) as executor,
        closing(WorkspacePool(Path(scratch), executor, workers, LIMITS, root)) as pool,
    ):
        if failures := pool.trace_tests(mutants):
            raise SystemExit("\n".join(f"{test} fails without any mutant: fix it first" for test in failures))
        pool.serve_tests(mutants)
        pool.check_control(mutants)
        results = []
        for result in run_sample(pool, mutants, sample, seed):
            results.append(result)
            if not result.killer:
                print_survivor(result.mutant, survivors)
    return report(group, results, survivors)


def print_survivor(mutant: Mutant, survivors: Mapping[str, str]) -> None:
    """Print the place, the name and the reason of a survivor."""
    print(f"{SOURCE / mutant.module}:{mutant.line}: SURVIVED")
    print(f"    {mutant.name}\n    {survivors.get(mutant.name, 'no test fails, and no reason is listed')}", flush=True)


def report(group: str, results: Sequence[Result], survivors: Mapping[str, str]) -> bool:
    """Print the wrong entries of the list and the totals of a sample; return whether it is as good as required.

    Raises ``SystemExit`` if there are no results, or no test was run for any of them.
    """
    killed = [result for result in results if result.killer]
    if not killed:
        raise SystemExit(f"{group}: no test failed under any of {len(results)} mutants: the tests are not run")
    alive = [result.mutant for result in results if not result.killer]
    wrong = [result for result in killed if result.mutant.name in survivors]
    for result in wrong:
        print(f"{result.mutant.name}\n    NOT {survivors[result.mutant.name]}: killed by {result.killer}")
    unlisted = sum(mutant.name not in survivors for mutant in alive)
    exhausted = sum((result.killer or "").endswith(EXHAUSTED_SUFFIX) for result in killed)
    share = len(killed) / len(results)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    print(
        f"{group}: {len(results)} mutants, {len(killed)} killed ({exhausted} out of time or memory), {share:.1%};"
        f" {len(alive)} survived, {unlisted} without a reason; {seconds:.0f} CPU s"
    )
    return share >= REQUIRED_SHARE and not unlisted and not wrong


def main(words: Sequence[str]) -> int:
    """Run a sample of each group, and return the exit code."""
    parser = argparse.ArgumentParser(prog="mutation.draw")
    parser.add_argument("groups", nargs="+")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(words)
    if options.list:
        print(*(mutant.name for group in options.groups for mutant in list_group(group)), sep="\n")
        return 0
    workers = int(os.environ.get("WORKERS", "2"))
    passed = [run_group(group, options.sample, options.seed, workers) for group in options.groups]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
