"""Documents of other tools, read strictly: each name and value is the text that the file has.

``topiarist import`` calls it. Duplicate fields are errors, as in manifests. Unlike manifests, these documents may have
anchors, merge keys, tags of YAML's core schema, and unquoted text with more than one meaning: it is never converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from yaml.events import AliasEvent, CollectionStartEvent, Event, ScalarEvent

from topiarist.adapters.manifests.diagnose import DocumentReader
from topiarist.adapters.manifests.diagnose import read_documents as read_trees
from topiarist.adapters.manifests.files import IgnoredPath, is_project_file, read_files
from topiarist.adapters.manifests.source import (
    MAX_FOREIGN_DEPTH,
    MAX_FOREIGN_ENTRIES,
    Composer,
    File,
    LimitExceeded,
    Node,
)
from topiarist.adapters.manifests.yaml_text import NULL_WORDS
from topiarist.errors import Diagnostic, FieldPath
from topiarist.importers.topic import ForeignDocument
from topiarist.text import RENDER_HINT

_TEXT_TAGS = {"!", "tag:yaml.org,2002:str"}
_TAGS = _TEXT_TAGS | {
    f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "map", "null", "seq", "timestamp")
}


def read_documents(paths: Iterable[str], stdin: BinaryIO | None = None) -> Iterator[ForeignDocument | Diagnostic]:
    """Yield the documents of the files that ``paths`` name, in order, and the errors of documents that are not read.

    A folder stands for its ``*.yaml`` and ``*.yml`` files. Empty documents and project files are left out. A scalar is
    text, also as a key; a value that means nothing in every YAML version is None.
    """
    for found in read_files(paths, stdin):
        if isinstance(found, IgnoredPath):
            continue
        if isinstance(found, Diagnostic):
            yield found
        elif not is_project_file(found):
            yield from parse_texts(found)


def parse_texts(file: File) -> Iterator[ForeignDocument | Diagnostic]:
    """Yield the documents of a file, and the errors of those that are not read."""
    for found in read_trees(file, _TextComposer, _TextReader):
        if isinstance(found, Diagnostic):
            yield found
            continue
        errors = [issue.diagnostic for issue in found.issues]
        yield from [each for each in errors if each.hint == RENDER_HINT][:1] or errors
        if found.body is not None and not errors:
            yield ForeignDocument(found.body, file.name, found.source)


class _TextComposer(Composer):
    """A composer that resolves aliases and accepts the tags of YAML's core schema."""

    max_depth = MAX_FOREIGN_DEPTH
    max_entries = MAX_FOREIGN_ENTRIES
    directive_issues = ()

    def __init__(self, text: str | bytes) -> None:
        super().__init__(text)
        self._anchors: dict[str, Node] = {}

    def _compose_node(self, event: Event, depth: int) -> Node:
        if isinstance(event, AliasEvent):
            return self._anchors.get(str(event.anchor)) or Node(event)
        node = super()._compose_node(event, depth)
        if isinstance(event, ScalarEvent | CollectionStartEvent):
            if event.tag is None or event.tag in _TAGS:
                node.issues = node.issues[(event.anchor is not None) + (event.tag is not None) :]
                node.is_plain = node.is_plain and event.tag not in _TEXT_TAGS
            if event.anchor is not None:
                self._anchors[event.anchor] = node
        return node


class _TextReader(DocumentReader):
    """A reader of documents of other tools: each scalar is its text, and merge keys are resolved."""

    max_errors = MAX_FOREIGN_ENTRIES
    _count = 0

    def read_document(self, root: Node) -> Any:
        """Return the content: mappings, lists, texts, and None."""
        try:
            return self.read_node(root, ())
        except LimitExceeded as error:
            self.issues.clear()
            self.add_issue(root, (), error.message)
            return None

    def read_node(self, node: Node, path: FieldPath) -> Any:
        """Return the content of a node; raise ``LimitExceeded`` if aliases repeat too many values."""
        self._count += 1
        if self._count > MAX_FOREIGN_ENTRIES:
            raise LimitExceeded(f"found more than {MAX_FOREIGN_ENTRIES:,} values, with those of aliases", 0, 0)
        return super().read_node(node, path)

    def read_mapping(self, pairs: list[tuple[Node, Node]], path: FieldPath) -> dict[str, Any]:
        """Return the fields of a mapping, and those of the mappings that it merges."""
        mapping = super().read_mapping(pairs, path)
        if not any(key.text == "<<" and key.is_plain for key, _ in pairs):
            return mapping
        given, merged = mapping.pop("<<"), dict[str, Any]()
        for each in reversed(given if isinstance(given, list) else [given]):
            merged |= each if isinstance(each, dict) else {}
        return merged | mapping

    def read_scalar(self, node: Node, _path: FieldPath, *, is_key: bool = False) -> str | None:
        """Return the text of a scalar; None for a value that means nothing in every YAML version."""
        return None if not is_key and node.is_plain and node.text in NULL_WORDS else node.text
