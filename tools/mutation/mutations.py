"""Mutations: the guards of a function, each with a description and a removal in place.

A guard is an ``if`` that returns, raises, yields or skips; an operand of ``and`` or ``or``; one of several values that
are compared together, or that limit each other; the filter of a comprehension; a case of a ``match``; a call of a
function that returns a plan with less in it; an operation of a transaction; a field of the document of a fingerprint; a
statement that only adds to the checked values; the order of paths that are read in the order of their names.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeGuard

Function = ast.FunctionDef | ast.AsyncFunctionDef

FILTER_FUNCTIONS = frozenset(
    (
        *(
            "_apply_issue",
            "_withhold",
            "approve",
            "enforce_budgets",
            "filter_changes",
            "filter_plan",
            "filter_unapproved",
        ),
        *("filter_unreviewed", "load_with_platform", "recheck_saved_plan"),
        *("require_all_topics_planned", "withhold", "withhold_external_changes"),
    )
)
"""Functions that return their first argument with less in it, or raise.

A guard is a call of one.
"""


class Mutation(NamedTuple):
    """A guard that can be removed: its description, the function that removes it in place, and its line."""

    description: str
    apply: Callable[[], None]
    line: int


def find_mutations(function: ast.AST) -> Iterator[Mutation]:
    """Yield all guards of a function."""
    for node in ast.walk(function):
        line = (node.target if isinstance(node, ast.comprehension) else node).__dict__.get(
            "lineno", getattr(function, "lineno", 0)
        )
        yield from (Mutation(what, remove, line) for what, remove in _node_mutations(node))
        yield from _statement_mutations(node)


def _node_mutations(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the guards of one node."""
    if isinstance(node, ast.If):
        yield f"without the guard: {unparse(node.test)}", partial(setattr, node, "test", ast.Constant(value=False))
    elif isinstance(node, ast.BoolOp) and not isinstance(node.values[-1], ast.Constant):
        for operand in node.values:
            yield f"without {unparse(operand)} in: {unparse(node)}", partial(node.values.remove, operand)
    elif isinstance(node, ast.comprehension):
        for wanted in node.ifs:
            yield f"without the filter: {unparse(wanted)}", partial(node.ifs.remove, wanted)
    elif isinstance(node, ast.Compare):
        yield from _comparison_mutations(node)
    elif isinstance(node, ast.Call) and unparse(node.func) in ("max", "min") and len(node.args) > 1:
        for bound in node.args:
            rest = [other for other in node.args if other is not bound]
            yield f"without {unparse(bound)} in: {unparse(node)}", partial(setattr, node, "args", [*rest, rest[0]])
    elif isinstance(node, ast.Match):
        for case in node.cases:
            yield f"without the case: {unparse(case.pattern)}", partial(node.cases.remove, case)
    elif isinstance(node, ast.Dict) and len(node.keys) > 1:
        for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            what = unparse(key) if key else f"**{unparse(value)}"
            yield f"without the field {what}", partial(_delete_index, (node.keys, node.values), index)
    elif isinstance(node, ast.Assign) and _is_path_tuple(node.value):
        yield f"the other way round: {unparse(node)}", partial(node.value.elts.reverse)
    elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load):
        for element in node.elts:
            if isinstance(element, ast.Call | ast.Starred):
                yield f"without {unparse(element)}", partial(node.elts.remove, element)


def _is_path_tuple(node: ast.AST) -> TypeGuard[ast.Tuple]:
    """Return whether a node is a tuple of path names."""
    return isinstance(node, ast.Tuple) and all(unparse(each).startswith(("paths.", "*_")) for each in node.elts)


def _comparison_mutations(node: ast.Compare) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the elements of two compared tuples, one guard for each index."""
    sides = [side.elts for side in (node.left, *node.comparators) if isinstance(side, ast.Tuple)]
    if len(sides) == 2 and len(sides[0]) == len(sides[1]):
        for index, element in enumerate(sides[0]):
            yield f"without {unparse(element)} in: {unparse(node)}", partial(_delete_index, sides, index)


def _statement_mutations(node: ast.AST) -> Iterator[Mutation]:
    """Yield statements that are executed for their effect, and calls of filter functions."""
    for name, value in ast.iter_fields(node):
        for index, each in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(each, ast.AugAssign) or (
                isinstance(each, ast.Expr) and isinstance(each.value, ast.Call | ast.YieldFrom)
            ):
                replacement = ast.copy_location(ast.Pass(), each)
                yield Mutation(
                    f"without: {unparse(each)}", partial(replace_child, node, name, index, replacement), each.lineno
                )
            elif isinstance(each, ast.Call) and each.args and unparse(each.func).rpartition(".")[2] in FILTER_FUNCTIONS:
                remove_filter = partial(replace_child, node, name, index, each.args[0])
                yield Mutation(f"not through: {unparse(each)}", remove_filter, each.lineno)


def replace_child(node: ast.AST, name: str, index: int, other: ast.AST) -> None:
    """Replace the child of a node in a field; ``index`` is its place if the field is a list."""
    value = getattr(node, name)
    if isinstance(value, list):
        value[index] = other
    else:
        setattr(node, name, other)


def _delete_index(lists: Sequence[list[Any]], index: int) -> None:
    for elements in lists:
        del elements[index]


def unparse(node: ast.AST) -> str:
    """Return the source text of a node in one line."""
    return " ".join(ast.unparse(node).split())
