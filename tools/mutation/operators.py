"""Mutation operators: small changes of comparisons, constants, collections, arguments and results.

``mutations.py`` removes guards; the operators here change the expressions that remain. Each operator takes an
expression and yields the expressions that replace it. Every operator is a pure function on the syntax tree.

Four kinds of code are left alone, because a change there is not visible or only in the wording: annotations, assertions
and docstrings; strings with a blank, which are messages; arguments of log calls; and the arguments in
``_UNSEEN_KEYWORDS``, which a linter asks for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from mutation.mutations import Function, Mutation, find_mutations, replace_child, unparse

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
"""For each comparison its negation, and for a limit also the comparison that differs at the edge only."""

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}

_UNSEEN_KEYWORDS = frozenset({"encoding", "strict", "stacklevel", "frozen", "slots", "maxsize"})
"""Keyword arguments that a linter asks for, or that only protect or speed up what works without them."""

_TYPE_CALLS = frozenset({"cast", "isinstance", "issubclass", "TypeVar", "NewType", "ParamSpec", "NamedTuple"})
_COMMUTATIVE_CALLS = frozenset({"max", "min"})
"""Functions of numbers: the order of their arguments makes no difference."""

_LOG_OBJECTS = frozenset({"log", "logger", "logging", "warnings"})

_UNSEEN_NAMES = frozenset({"__all__", "__slots__"})

_UNSEEN_FIELDS = frozenset({"annotation", "returns", "ctx", "type_params", "target", "targets", "bases", "format_spec"})
"""Fields of nodes that hold types, or names that are assigned, or the layout of a number in a message."""

_CONTEXT_CHARACTERS = 40


class Site(NamedTuple):
    """An expression, its place in the node that contains it, and the statement or expression that describes it."""

    parent: ast.AST
    field: str
    place: int
    node: ast.expr
    root: ast.AST


class Unit(NamedTuple):
    """A part of a module: the body of a function, its head, or a statement of the module or a class.

    ``fields`` are the fields of ``node`` that belong to the unit. ``names`` are the names that it defines.
    """

    name: str
    node: ast.AST
    fields: frozenset[str]
    names: frozenset[str]

    @property
    def is_body(self) -> bool:
        """Return whether the unit is the body of a function, which is executed by calls only."""
        return isinstance(self.node, Function) and "body" in self.fields


def find_units(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[Unit]:
    """Yield the units of a module and its classes; a nested function belongs to the outermost one.

    The head of a function has its defaults and decorators, which are executed at import, and ``()`` in its name.
    """
    outer = frozenset({prefix.rstrip(".")}) if prefix else frozenset[str]()
    for node in tree.body:
        if isinstance(node, Function):
            name = prefix + node.name
            yield Unit(name, node, frozenset({"body"}), frozenset({node.name}))
            yield Unit(f"{name}()", node, frozenset({"args", "decorator_list"}), frozenset({node.name}))
        elif isinstance(node, ast.ClassDef):
            if any(unparse(base).endswith(("Enum", "Flag")) for base in node.bases):
                yield Unit(prefix + node.name, node, frozenset(), frozenset({node.name}))
            yield from find_units(node, f"{prefix}{node.name}.")
        elif not _is_unseen(node):
            stored = (each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
            names = sorted({each.id for each in stored})
            yield Unit(prefix + ", ".join(names), ast.Module([node], []), frozenset({"body"}), outer | {*names})


def find_changes(unit: Unit) -> Iterator[Mutation]:
    """Yield every mutation of a unit: removed guards first, then changed expressions."""
    if not unit.fields:
        yield from _dropped_members(unit.node)
    elif unit.is_body:
        start = min(statement.lineno for statement in getattr(unit.node, "body"))  # noqa: B009
        guards = (each for each in find_mutations(unit.node) if each.line >= start)
        yield from (guard for guard in guards if not _mentions_log(guard.description))
    for site in _find_sites(unit.node, unit.fields, None):
        before = unparse(site.root)
        for changed in _variants(site):
            replace_child(site.parent, site.field, site.place, changed)
            after = unparse(site.root)
            replace_child(site.parent, site.field, site.place, site.node)
            if after != before:
                apply = partial(replace_child, site.parent, site.field, site.place, changed)
                yield Mutation(mark_difference(before, after), apply, site.node.lineno)


def mark_difference(before: str, after: str) -> str:
    """Return one line with both texts: ``[-old-]{+new+}`` between the words that are equal around it."""
    old, new = (re.findall(r"\w+|\W", text) for text in (before, after))
    start = _equal_length(old, new)
    end = _equal_length(old[start:][::-1], new[start:][::-1])
    head, tail = "".join(old[:start]), "".join(old[len(old) - end :])
    removed, added = "".join(old[start : len(old) - end]), "".join(new[start : len(new) - end])
    head = head if len(head) <= _CONTEXT_CHARACTERS else f"...{head[-_CONTEXT_CHARACTERS:]}"
    tail = tail if len(tail) <= _CONTEXT_CHARACTERS else f"{tail[:_CONTEXT_CHARACTERS]}..."
    return f"{head}{f'[-{removed}-]' if removed else ''}{f'{{+{added}+}}' if added else ''}{tail}"


def _equal_length(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of words at the start of both texts that are equal."""
    return next((place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _find_sites(node: ast.AST, fields: frozenset[str] | None, root: ast.AST | None) -> Iterator[Site]:
    """Yield the expressions below a node that may be changed, each with its place."""
    for field, value in ast.iter_fields(node):
        if (
            field in _UNSEEN_FIELDS
            or (fields is not None and field not in fields)
            or (isinstance(node, ast.ClassDef) and field != "body")
        ):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST) and not _is_unseen(child):
                described = root or (child if _describes(child) else None)
                if isinstance(child, ast.expr) and described:
                    yield Site(node, field, index, child, described)
                yield from _find_sites(child, None, described)


def _describes(node: ast.AST) -> bool:
    """Return whether the text of a node is short: a statement without a body, or a part of the head of another one."""
    if isinstance(node, ast.stmt):
        return not hasattr(node, "body") and not isinstance(node, ast.Match)
    return isinstance(node, ast.expr | ast.arguments | ast.pattern)


def _is_unseen(node: ast.AST) -> bool:
    """Return whether a change below a node cannot be seen, or only in the wording."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_log_call(node.value)
    if isinstance(node, ast.keyword):
        return node.arg in _UNSEEN_KEYWORDS
    if isinstance(node, ast.If):
        return unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        return any(unparse(target) in _UNSEEN_NAMES for target in node.targets) or (
            isinstance(node.value, ast.Subscript | ast.BinOp | ast.Call) and _is_type_alias(node.value)
        )
    return isinstance(node, ast.Assert | ast.Import | ast.ImportFrom) or _is_log_call(node)


def _mentions_log(description: str) -> bool:
    return bool(re.search(rf"^without: _?({'|'.join(_LOG_OBJECTS)})\.", description))


def _is_log_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and unparse(node.func.value).strip("_") in _LOG_OBJECTS
    )


def _is_type_alias(node: ast.expr) -> bool:
    """Return whether a value is a union or a generic of types, as in ``Value = str | list[str]``."""
    if isinstance(node, ast.Subscript):
        return _is_type_alias(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _is_type_alias(node.left) and _is_type_alias(node.right)
    if isinstance(node, ast.Call):
        return unparse(node.func) in _TYPE_CALLS
    name = unparse(node).rpartition(".")[2].strip("_")
    return name in (
        "None",
        "bool",
        "bytes",
        "dict",
        "float",
        "frozenset",
        "int",
        "list",
        "set",
        "str",
        "tuple",
        "type",
    ) or (name.isidentifier() and name[:1].isupper() and not name.isupper())


def _variants(site: Site) -> Iterator[ast.expr]:
    """Yield the changed expressions of one site."""
    if site.field == "value" and isinstance(site.parent, ast.Return):
        yield from _changed_results(site.node)
    operator = _OPERATORS.get(type(site.node))
    if operator is not None:
        yield from operator(site)


def _changed_results(node: ast.expr) -> Iterator[ast.expr]:
    """Yield an empty value of the same kind instead of a returned value."""
    if isinstance(node, ast.Constant | ast.Compare):
        return
    if isinstance(node, ast.List | ast.ListComp | ast.Tuple) and getattr(node, "elts", True):
        yield ast.List([], ast.Load()) if not isinstance(node, ast.Tuple) else ast.Tuple([], ast.Load())
    elif isinstance(node, ast.Dict | ast.DictComp) and getattr(node, "keys", True):
        yield ast.Dict([], [])
    elif isinstance(node, ast.Set | ast.SetComp):
        yield ast.Call(ast.Name("set", ast.Load()), [], [])
    elif isinstance(node, ast.BoolOp | ast.UnaryOp) and isinstance(getattr(node, "op", None), ast.Not | ast.And):
        yield ast.Constant(value=True)
        yield ast.Constant(value=False)
    else:
        yield ast.Constant(value=None)


def _comparisons(site: Site) -> Iterator[ast.expr]:
    node = site.node
    assert isinstance(node, ast.Compare)
    for index, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            yield ast.Compare(node.left, [*node.ops[:index], other(), *node.ops[index + 1 :]], node.comparators)


def _constants(site: Site) -> Iterator[ast.expr]:
    """Yield numbers one larger and smaller, the other boolean, and another text instead of a code or key."""
    assert isinstance(site.node, ast.Constant)
    value = site.node.value
    if isinstance(value, bool):
        yield ast.Constant(value=not value)
    elif isinstance(value, int):
        yield ast.Constant(value=value + 1)
        if not isinstance(site.parent, ast.UnaryOp):
            yield ast.Constant(value=value - 1)
    elif isinstance(value, float):
        yield ast.Constant(value=value + 1)
    elif isinstance(value, bytes):
        yield ast.Constant(value=value + b"x" if value else b"x")
    elif isinstance(value, str) and not _is_text(value) and not _is_part_of_text(site):
        yield ast.Constant(value=f"{value}x")


def _is_text(value: str) -> bool:
    return any(character.isspace() for character in value)


def _is_part_of_text(site: Site) -> bool:
    """Return whether a string is a part of a formatted message, and no key or path."""
    if isinstance(site.parent, ast.FormattedValue):
        return True
    return isinstance(site.parent, ast.JoinedStr) and any(
        isinstance(part, ast.Constant) and _is_text(str(part.value)) for part in site.parent.values
    )


def _calls(site: Site) -> Iterator[ast.expr]:
    """Yield the call without each keyword, without its last argument, and with two arguments swapped."""
    node = site.node
    assert isinstance(node, ast.Call)
    name = unparse(node.func).rpartition(".")[2]
    if name in _TYPE_CALLS:
        return
    for keyword in node.keywords:
        if keyword.arg and keyword.arg not in _UNSEEN_KEYWORDS:
            yield ast.Call(node.func, node.args, [other for other in node.keywords if other is not keyword])
    if len(node.args) > 1 and not any(isinstance(each, ast.Starred) for each in node.args):
        yield ast.Call(node.func, node.args[:-1], node.keywords)
        for index in range(len(node.args) - 1) if name not in _COMMUTATIVE_CALLS else ():
            first, second = node.args[index : index + 2]
            yield ast.Call(node.func, [*node.args[:index], second, first, *node.args[index + 2 :]], node.keywords)


def _conditions(site: Site) -> Iterator[ast.expr]:
    """Yield ``or`` instead of ``and`` and the reverse, and the value without a constant default."""
    node = site.node
    assert isinstance(node, ast.BoolOp)
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node.values[-1], ast.Constant):
        yield node.values[0] if len(node.values) == 2 else ast.BoolOp(node.op, node.values[:-1])


def _choices(site: Site) -> Iterator[ast.expr]:
    assert isinstance(site.node, ast.IfExp)
    yield from (site.node.body, site.node.orelse)


def _negations(site: Site) -> Iterator[ast.expr]:
    assert isinstance(site.node, ast.UnaryOp)
    if isinstance(site.node.op, ast.Not | ast.USub):
        yield site.node.operand


def _arithmetic(site: Site) -> Iterator[ast.expr]:
    """Yield the opposite operation; of joined texts, lists and sets one side."""
    node = site.node
    assert isinstance(node, ast.BinOp)
    if isinstance(node.op, ast.BitOr | ast.BitAnd) or any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple | ast.Set | ast.ListComp)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    ):
        yield from (node.left, node.right)
    elif type(node.op) in _ARITHMETIC:
        yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)


def _collections(site: Site) -> Iterator[ast.expr]:
    """Yield the collection without each element, unless its length is fixed by the code that unpacks it."""
    node = site.node
    assert isinstance(node, ast.Set | ast.Tuple | ast.List)
    if not isinstance(node, ast.Set):
        plain = all(isinstance(each, ast.Constant | ast.Name | ast.Attribute) for each in node.elts)
        variable = isinstance(site.parent, ast.Call | ast.Compare | ast.For | ast.comprehension | ast.ExceptHandler)
        variable |= isinstance(site.parent, ast.Starred | ast.Assign | ast.AnnAssign) and not _is_unpacked(site.parent)
        if not (plain and variable):
            return
    for element in node.elts if len(node.elts) > 1 else []:
        rest = [other for other in node.elts if other is not element]
        yield ast.Set(rest) if isinstance(node, ast.Set) else type(node)(rest, ast.Load())


def _is_unpacked(node: ast.AST) -> bool:
    return any(isinstance(target, ast.Tuple) for target in getattr(node, "targets", ()))


_OPERATORS: dict[type[ast.AST], Callable[[Site], Iterator[ast.expr]]] = {
    ast.Compare: _comparisons,
    ast.Constant: _constants,
    ast.Call: _calls,
    ast.BoolOp: _conditions,
    ast.IfExp: _choices,
    ast.UnaryOp: _negations,
    ast.BinOp: _arithmetic,
    ast.Set: _collections,
    ast.Tuple: _collections,
    ast.List: _collections,
}


def _dropped_members(unit: ast.AST) -> Iterator[Mutation]:
    """Yield an enumeration without each of its members."""
    for index, member in enumerate(getattr(unit, "body", ())):
        if isinstance(member, ast.Assign):
            apply = partial(replace_child, unit, "body", index, ast.copy_location(ast.Pass(), member))
            yield Mutation(f"without the member: {unparse(member)}", apply, member.lineno)
