"""What guards a function has: each in words, and what takes it away, in place.

A guard is an ``if`` that returns, raises, yields or skips; an operand of ``and`` or ``or``; one of the values that are
compared together, or bound each other; the filter of a comprehension; a case of a ``match``; a function that gives a
plan back with less in it; an operation of a transaction; a field of the document that a fingerprint is made over; a
statement that only adds to what is checked; the order of paths that are given a name to be read in it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeGuard

Function = ast.FunctionDef | ast.AsyncFunctionDef

FILTER_FUNCTIONS = frozenset(
    (
        *("allow_deletions", "complete", "guard", "_held", "hold", "permit", "permitted", "report_only", "restrict"),
        *("review", "trusted", "within_budgets"),
    )
)
"""Functions that give their first argument back with less in it, or raise: a guard is a call of one."""


class Mutation(NamedTuple):
    """What can be taken away, in words, what takes it away, in place, and the line that it is on."""

    description: str
    apply: Callable[[], None]
    line: int


def find_mutations(function: Function) -> Iterator[Mutation]:
    """All guards of a function."""
    for node in ast.walk(function):
        line = (node.target if isinstance(node, ast.comprehension) else node).__dict__.get("lineno", function.lineno)
        yield from (Mutation(what, take_away, line) for what, take_away in _node_mutations(node))
        yield from _statement_mutations(node)


def _node_mutations(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """What a node has that can be taken away."""
    if isinstance(node, ast.If):
        yield f"without the guard: {_unparse(node.test)}", partial(setattr, node, "test", ast.Constant(value=False))
    elif isinstance(node, ast.BoolOp) and not isinstance(node.values[-1], ast.Constant):
        for operand in node.values:
            yield f"without {_unparse(operand)} in: {_unparse(node)}", partial(node.values.remove, operand)
    elif isinstance(node, ast.comprehension):
        for wanted in node.ifs:
            yield f"without the filter: {_unparse(wanted)}", partial(node.ifs.remove, wanted)
    elif isinstance(node, ast.Compare):
        yield from _comparison_mutations(node)
    elif isinstance(node, ast.Call) and _unparse(node.func) in ("max", "min") and len(node.args) > 1:
        for bound in node.args:
            rest = [other for other in node.args if other is not bound]
            yield f"without {_unparse(bound)} in: {_unparse(node)}", partial(setattr, node, "args", [*rest, rest[0]])
    elif isinstance(node, ast.Match):
        for case in node.cases:
            yield f"without the case: {_unparse(case.pattern)}", partial(node.cases.remove, case)
    elif isinstance(node, ast.Dict) and len(node.keys) > 1:
        for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            what = _unparse(key) if key else f"**{_unparse(value)}"
            yield f"without the field {what}", partial(_delete_index, (node.keys, node.values), index)
    elif isinstance(node, ast.Assign) and _is_path_tuple(node.value):
        yield f"the other way round: {_unparse(node)}", partial(node.value.elts.reverse)
    elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load):
        for element in node.elts:
            if isinstance(element, ast.Call | ast.Starred):
                yield f"without {_unparse(element)}", partial(node.elts.remove, element)


def _is_path_tuple(node: ast.AST) -> TypeGuard[ast.Tuple]:
    """Whether these are names of paths, one after the other."""
    return isinstance(node, ast.Tuple) and all(_unparse(each).startswith(("paths.", "*_")) for each in node.elts)


def _comparison_mutations(node: ast.Compare) -> Iterator[tuple[str, Callable[[], None]]]:
    """Of two tuples that are compared, what stands at one place."""
    sides = [side.elts for side in (node.left, *node.comparators) if isinstance(side, ast.Tuple)]
    if len(sides) == 2 and len(sides[0]) == len(sides[1]):
        for index, one in enumerate(sides[0]):
            yield f"without {_unparse(one)} in: {_unparse(node)}", partial(_delete_index, sides, index)


def _statement_mutations(node: ast.AST) -> Iterator[Mutation]:
    """What is done for its effect, and what is passed through a filter."""
    for name, value in ast.iter_fields(node):
        for index, each in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(each, ast.AugAssign) or (
                isinstance(each, ast.Expr) and isinstance(each.value, ast.Call | ast.YieldFrom)
            ):
                instead = ast.copy_location(ast.Pass(), each)
                yield Mutation(
                    f"without: {_unparse(each)}", partial(_replace_child, node, name, index, instead), each.lineno
                )
            elif (
                isinstance(each, ast.Call) and each.args and _unparse(each.func).rpartition(".")[2] in FILTER_FUNCTIONS
            ):
                through = partial(_replace_child, node, name, index, each.args[0])
                yield Mutation(f"not through: {_unparse(each)}", through, each.lineno)


def _replace_child(node: ast.AST, name: str, index: int, other: ast.AST) -> None:
    value = getattr(node, name)
    if isinstance(value, list):
        value[index] = other
    else:
        setattr(node, name, other)


def _delete_index(lists: Sequence[list[Any]], index: int) -> None:
    for elements in lists:
        del elements[index]


def _unparse(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())
