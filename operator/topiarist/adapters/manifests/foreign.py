"""Documents of other tools, read as YAML or JSON with the line of each value.

``topiarist import`` calls it. Unlike manifests, these documents may have anchors, tags of the core schema, and keys
that are no text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from topiarist.adapters.manifests.files import read_files
from topiarist.adapters.manifests.project_file import is_project_file
from topiarist.adapters.manifests.source import File
from topiarist.errors import Diagnostic, Location, Reason

_MAX_NODES = 1_000_000
"""Values of one file, with those that aliases repeat."""

Path = tuple[str | int, ...]


class ForeignFileDocument(NamedTuple):
    """The plain values of a document, the name of its file, and its root node; ``line_of`` finds the line of a path."""

    body: Any
    file: str
    root: yaml.Node

    def line_of(self, path: Path) -> int:
        """Return the line of the value at a path, of its nearest ancestor with a place, from 1."""
        node: yaml.Node = self.root
        line = node.start_mark.line
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            key, node = found
            line = key.start_mark.line
        return line + 1


def read_foreign(paths: Iterable[str], stdin: Any = None) -> Iterator[ForeignFileDocument | Diagnostic]:
    """Yield the documents of the files that ``paths`` name, in order, and an error for each file that is no YAML.

    A folder stands for its ``*.yaml`` and ``*.yml`` files. Empty documents and project files are left out.
    """
    for found in read_files(paths, stdin):
        if isinstance(found, File) and not is_project_file(found):
            yield from _read_file(found)
        elif isinstance(found, Diagnostic):
            yield found


def _read_file(file: File) -> Iterator[ForeignFileDocument | Diagnostic]:
    loader = yaml.CSafeLoader(file.data)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None, "check_node has found one"
            _require_few_nodes(node)
            body = loader.construct_document(node)
            if body is not None:
                yield ForeignFileDocument(_with_text_keys(body), file.name, node)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = Location(file.name, mark.line + 1, mark.column + 1) if mark else Location(file.name)
        problem = getattr(error, "problem", None) or "values that cannot be read"
        yield Diagnostic(place, f"found no valid YAML or JSON: {problem}", reason=Reason.INVALID_MANIFEST.value)
    finally:
        loader.dispose()


def _require_few_nodes(root: yaml.Node) -> None:
    """Raise ``ValueError`` for a document that aliases make too large, or endless."""
    sizes: dict[int, int] = {}

    def measure(node: yaml.Node, above: frozenset[int]) -> int:
        if id(node) in above:
            raise ValueError("an alias within its own anchor")
        if id(node) not in sizes:
            inside = above | {id(node)}
            children = _children(node)
            sizes[id(node)] = 1 + sum(measure(child, inside) for child in children)
            if sizes[id(node)] > _MAX_NODES:
                raise ValueError("too many values")
        return sizes[id(node)]

    measure(root, frozenset())


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the node of the key, and of the value, at one step of a path."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == str(step)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_key_text(key): _with_text_keys(each) for key, each in value.items()}
    return [*map(_with_text_keys, value)] if isinstance(value, list | tuple | set) else value


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
