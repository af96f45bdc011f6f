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

FILTERS = frozenset(
    (
        *("allow_deletions", "complete", "guard", "_held", "hold", "permit", "permitted", "report_only", "restrict"),
        *("review", "trusted", "within_budgets"),
    )
)
"""Functions that give their first argument back with less in it, or raise: a guard is a call of one."""


class Guard(NamedTuple):
    """What can be taken away, in words, what takes it away, in place, and the line that it is on."""

    what: str
    take_away: Callable[[], None]
    line: int


def guards(function: Function) -> Iterator[Guard]:
    """All guards of a function."""
    for node in ast.walk(function):
        line = (node.target if isinstance(node, ast.comprehension) else node).__dict__.get("lineno", function.lineno)
        yield from (Guard(what, take_away, line) for what, take_away in _of(node))
        yield from _done(node)


def _of(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """What a node has that can be taken away."""
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
    elif isinstance(node, ast.Call) and _text(node.func) in ("max", "min") and len(node.args) > 1:
        for bound in node.args:
            rest = [other for other in node.args if other is not bound]
            yield f"without {_text(bound)} in: {_text(node)}", partial(setattr, node, "args", [*rest, rest[0]])
    elif isinstance(node, ast.Match):
        for case in node.cases:
            yield f"without the case: {_text(case.pattern)}", partial(node.cases.remove, case)
    elif isinstance(node, ast.Dict) and len(node.keys) > 1:
        for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            what = _text(key) if key else f"**{_text(value)}"
            yield f"without the field {what}", partial(_without_place, (node.keys, node.values), index)
    elif isinstance(node, ast.Assign) and _is_order(node.value):
        yield f"the other way round: {_text(node)}", partial(node.value.elts.reverse)
    elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load):
        for element in node.elts:
            if isinstance(element, ast.Call | ast.Starred):
                yield f"without {_text(element)}", partial(node.elts.remove, element)


def _is_order(node: ast.AST) -> TypeGuard[ast.Tuple]:
    """Whether these are names of paths, one after the other."""
    return isinstance(node, ast.Tuple) and all(_text(each).startswith(("paths.", "*_")) for each in node.elts)


def _compared(node: ast.Compare) -> Iterator[tuple[str, Callable[[], None]]]:
    """Of two tuples that are compared, what stands at one place."""
    sides = [side.elts for side in (node.left, *node.comparators) if isinstance(side, ast.Tuple)]
    if len(sides) == 2 and len(sides[0]) == len(sides[1]):
        for index, one in enumerate(sides[0]):
            yield f"without {_text(one)} in: {_text(node)}", partial(_without_place, sides, index)


def _done(node: ast.AST) -> Iterator[Guard]:
    """What is done for its effect, and what is passed through a filter."""
    for name, value in ast.iter_fields(node):
        for index, each in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(each, ast.AugAssign) or (
                isinstance(each, ast.Expr) and isinstance(each.value, ast.Call | ast.YieldFrom)
            ):
                instead = ast.copy_location(ast.Pass(), each)
                yield Guard(f"without: {_text(each)}", partial(_put, node, name, index, instead), each.lineno)
            elif isinstance(each, ast.Call) and each.args and _text(each.func).rpartition(".")[2] in FILTERS:
                through = partial(_put, node, name, index, each.args[0])
                yield Guard(f"not through: {_text(each)}", through, each.lineno)


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
