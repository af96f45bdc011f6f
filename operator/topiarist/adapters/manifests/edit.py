"""Set single values in manifests, as an editor would: comments, order and every other character stay.

``edit_document`` replaces, adds or removes one value in the text of one document. Text that other values share (an
alias, an anchor), and values over several lines, are not touched: the error says which. The result is parsed again: it
differs from the document before in that value alone, or nothing is edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from topiarist.adapters.manifests.yaml_text import dump_documents
from topiarist.errors import FieldPath, Reason, TopiaristError

_STEP = 2
"""Columns of one more level, where a document has no level to copy."""


def edit_document(text: str, path: FieldPath, value: Any) -> str:
    """Return the text of a document with the value at ``path``, None without it.

    Parents that are missing are added; in a list, the path may end at its length, which appends. Raises
    ``TopiaristError`` (WriteFailed) if the text cannot be edited so that nothing else changes.
    """
    before = yaml.load(text, yaml.BaseLoader)
    root = yaml.compose(text, yaml.SafeLoader)
    if not isinstance(root, MappingNode):
        raise _refused(path, "the document is no mapping")
    edited = _remove(text, root, path) if value is None else _set(text, root, path, value)
    wanted = _with_value(before, path, value if value is None else _as_text(value))
    with suppress(yaml.YAMLError):
        if yaml.load(edited, yaml.BaseLoader) == wanted:
            return edited
    raise _refused(path, "its text cannot be changed without other values")


def _set(text: str, root: MappingNode, path: FieldPath, value: Any) -> str:
    node: Node = root
    for depth, step in enumerate(path):
        found = _child(node, step)
        if found is None:
            return _insert(text, node, path, depth, value)
        key_end, child = found
        if child.start_mark.index < key_end:
            raise _refused(path[: depth + 1], "its value is an alias, which other values share")
        if isinstance(child, ScalarNode) and depth < len(path) - 1:
            raise _refused(path[: depth + 1], "it has no value" if not child.value else "its value is no mapping")
        node = child
    if not isinstance(node, ScalarNode) or node.style in ("|", ">") or text[node.start_mark.index] in "&!":
        raise _refused(path, "its value is not plain text on one line")
    return text[: node.start_mark.index] + _render(value) + text[node.end_mark.index :]


def _child(node: Node, step: str | int) -> tuple[int, Node] | None:
    """Return the end of the key (of a list: the start of the list) and the value of a step; None without it."""
    if isinstance(node, MappingNode):
        return next(((key.end_mark.index, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.start_mark.index, node.value[step]
    return None


def _insert(text: str, parent: Node, path: FieldPath, depth: int, value: Any) -> str:
    """Return the text with the rest of the path below ``parent``, after what is there."""
    for step in reversed(path[depth + 1 :]):
        value = [value] if isinstance(step, int) else {step: value}
    step = path[depth]
    if not isinstance(parent, MappingNode | SequenceNode):
        raise _refused(path[:depth], "it has no value to add to")
    if parent.flow_style:
        return _insert_flow(text, parent, step, value)
    column = (parent.value[0][0] if isinstance(parent, MappingNode) else parent.value[0]).start_mark.column
    if isinstance(parent, SequenceNode):
        column = parent.start_mark.column
        lines = _block_lines([value], column)
    else:
        lines = _block_lines({step: value}, column)
    newline = "\r\n" if "\r\n" in text else "\n"
    at = _end_of_line(text, _last_index(parent))
    lead = "" if at and text[at - 1] == "\n" else newline
    return text[:at] + lead + newline.join(lines) + newline + text[at:]


def _insert_flow(text: str, parent: MappingNode | SequenceNode, step: str | int, value: Any) -> str:
    entry = _flow(value) if isinstance(parent, SequenceNode) else f"{_render(step)}: {_flow(value)}"
    at = parent.end_mark.index - 1
    body = text[parent.start_mark.index + 1 : at]
    lead = ", " if parent.value else ""
    end = len(body.rstrip())
    at = parent.start_mark.index + 1 + end
    return text[:at] + lead + entry + text[at:]


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_render(key)}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _render(value)


def _block_lines(value: Any, column: int) -> list[str]:
    """Return a value as lines that begin at a column; lists of plain text are on one line."""
    blank = " " * column
    lines: list[str] = []
    if isinstance(value, list):
        for each in value:
            first, *rest = _block_lines(each, column + _STEP) if isinstance(each, Mapping) else [blank + _render(each)]
            lines += [f"{blank}- {first.lstrip()}", *rest]
        return lines
    for key, each in value.items():
        if isinstance(each, Mapping) or (isinstance(each, list) and any(isinstance(item, Mapping) for item in each)):
            lines += [f"{blank}{_render(key)}:", *_block_lines(each, column + _STEP)]
        else:
            lines.append(f"{blank}{_render(key)}: {_flow(each)}")
    return lines


def _remove(text: str, root: MappingNode, path: FieldPath) -> str:
    """Return the text without a key of a block mapping, with its line; a mapping that gets empty goes too."""
    parents: list[MappingNode] = [root]
    for step in path[:-1]:
        found = _child(parents[-1], step)
        if found is None or not isinstance(found[1], MappingNode):
            raise _refused(path, "it is not there, or not in a mapping")
        parents.append(found[1])
    steps = [*path]
    while len(parents) > 1 and len(parents[-1].value) == 1:
        parents.pop()
        steps.pop()
    mapping = parents[-1]
    pair = next(((key, value) for key, value in mapping.value if key.value == steps[-1]), None)
    if pair is None or mapping.flow_style:
        raise _refused(path, "it is in a mapping on one line" if pair else "it is not there")
    key, value = pair
    start, end = text.rfind("\n", 0, key.start_mark.index) + 1, _end_of_line(text, _last_index(value, key))
    if text[start : key.start_mark.index].strip():
        raise _refused(path, "it shares its line with other text")
    return text[:start] + text[end:]


def _last_index(node: Node, key: Node | None = None) -> int:
    """Return the index after the last character of a value, without comments and blanks that follow it."""
    if isinstance(node, MappingNode | SequenceNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_index(last[1], last[0]) if isinstance(last, tuple) else _last_index(last)
    if isinstance(node, ScalarNode) and not node.value and key is not None and node.style is None:
        return int(key.end_mark.index)  # a key without a value
    return int(node.end_mark.index)


def _end_of_line(text: str, index: int) -> int:
    """Return the index after the line of ``index``; a block of text has ended with its line already."""
    if index and text[index - 1] == "\n":
        return index
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1


def _render(value: Any) -> str:
    """Return a scalar as a manifest has it: unquoted where every YAML version reads it alike."""
    return dump_documents([{"x": value}]).removeprefix("---\nx: ").rstrip("\n")


def _as_text(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _as_text(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    return str(yaml.load(_render(value), yaml.BaseLoader))


def _with_value(document: Any, path: Sequence[str | int], value: Any) -> Any:
    """Return a parsed document with a value; None removes it, and the mappings above that get empty."""
    step, *rest = path
    if isinstance(document, list):
        assert isinstance(step, int)
        below = _with_value(document[step], rest, value) if rest else value
        return [*document[:step], below, *document[step + 1 :]]
    found = document.get(step)
    if rest:
        empty: Any = [] if isinstance(rest[0], int) else {}
        value = _with_value(empty if found is None else found, rest, value)
        if value == {}:
            value = None
    others = {key: each for key, each in document.items() if key != step}
    return others if value is None else {**document, step: value}


def _refused(path: FieldPath, why: str) -> TopiaristError:
    return TopiaristError(Reason.WRITE_FAILED, f"{'.'.join(map(str, path))}: {why}", "edit the manifest by hand")
