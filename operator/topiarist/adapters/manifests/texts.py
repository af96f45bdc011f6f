"""Documents of other tools, read strictly: each name and value is the text that the file has.

``topiarist import`` calls it. Duplicate fields are errors, as in manifests. Unlike manifests, these documents may have
anchors, merge keys, tags of YAML's core schema, and unquoted text with more than one meaning: it is never converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from yaml.events import AliasEvent, CollectionStartEvent, Event, ScalarEvent

from topiarist.adapters.manifests.diagnose import compose_file, describe_key_of_no_text
from topiarist.adapters.manifests.files import IgnoredPath, read_files
from topiarist.adapters.manifests.limits import MAX_FOREIGN_DEPTH, MAX_FOREIGN_ENTRIES
from topiarist.adapters.manifests.project_file import is_project_file
from topiarist.adapters.manifests.scalars import NULL_WORDS
from topiarist.adapters.manifests.source import (
    DIRECTIVE_ISSUE,
    ComposedDocument,
    Composer,
    File,
    LimitExceeded,
    Node,
    locate_node,
)
from topiarist.errors import Diagnostic, Location, Reason
from topiarist.importers.fields import ForeignDocument, Path
from topiarist.text import RENDER_HINT, printable

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
    for found in compose_file(file, _TextComposer):
        if isinstance(found, Diagnostic):
            yield found
            continue
        reader = _TextReader(file.name, found)
        body = reader.read()
        yield from [each for each in reader.errors if each.hint == RENDER_HINT][:1] or reader.errors
        if body is not None and not reader.errors:
            yield ForeignDocument(body, file.name, reader.line_of)


class _TextComposer(Composer):
    """A composer that resolves aliases and accepts the tags of YAML's core schema."""

    max_depth = MAX_FOREIGN_DEPTH
    max_entries = MAX_FOREIGN_ENTRIES

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


class _TextReader:
    """A reader of one document, which collects its errors."""

    def __init__(self, name: str, document: ComposedDocument) -> None:
        self._name = name
        self._root = document.root
        self._first_line = document.line_offset + 1
        self._count = 0
        self.errors: list[Diagnostic] = []

    def read(self) -> Any:
        """Return the content: mappings, lists, texts, and None."""
        try:
            return self._read_node(self._root)
        except LimitExceeded as error:
            self.errors = [self._make_error(self._root, error.message)]
            return None

    def line_of(self, path: Path) -> int:
        """Return the line of the value at a path, or of its nearest ancestor with a place, from 1."""
        return locate_node(self._root, path)[0] + self._first_line

    def _read_node(self, node: Node) -> Any:
        self._count += 1
        if self._count > MAX_FOREIGN_ENTRIES:
            raise LimitExceeded(f"found more than {MAX_FOREIGN_ENTRIES:,} values, with those of aliases", 0, 0)
        self.errors += [self._make_error(node, *issue) for issue in node.issues if issue is not DIRECTIVE_ISSUE]
        if node.pairs is not None:
            return self._read_mapping(node.pairs)
        if node.items is not None:
            return [self._read_node(item) for item in node.items]
        return None if node.is_plain and node.text in NULL_WORDS else node.text

    def _read_mapping(self, pairs: list[tuple[Node, Node]]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        first: dict[str, Node] = {}
        for key, child in pairs:
            if not key.is_scalar:
                self.errors.append(self._make_error(key, *describe_key_of_no_text(key)))
                continue
            if key.text in first:
                hint = f"keep one of them; the first is on line {first[key.text].line + self._first_line}"
                self.errors.append(self._make_error(key, f"found the field {printable(key.text)} twice", hint))
                continue
            first[key.text] = key
            value = self._read_node(child)
            if key.text == "<<" and key.is_plain:
                for each in reversed(value if isinstance(value, list) else [value]):
                    merged |= each if isinstance(each, dict) else {}
            else:
                own[key.text] = value
        return merged | own

    def _make_error(self, node: Node, message: str, hint: str = "") -> Diagnostic:
        place = Location(self._name, node.line + self._first_line, node.column + 1)
        return Diagnostic(place, message, hint, Reason.UNREADABLE.value)
