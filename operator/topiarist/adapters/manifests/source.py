"""libyaml's events, the only thing we take from PyYAML for reading: no objects are made, nothing is resolved.

Where documents stand: the bytes of a file as they were read, and the part of them that one document is.

The fast pass over a file keeps no positions. A ``Document`` keeps where it begins and ends; when somebody asks where a
field stands, that part is read again, from memory: a file that changed on disk meanwhile does not matter.

A document as a tree that knows where everything stands: what the thorough pass judges, and where places are found.

Made over libyaml's events, like the fast pass in ``strict``, but it takes everything that is YAML: documents of others
may have anchors, tags and duplicate keys. What is not allowed in ours is noted at its node as a ``fault``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from yaml import CBaseLoader
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    StreamEndEvent,
)

from topiarist.adapters.manifests.limits import MAX_DEPTH, MAX_ENTRIES, MAX_FOREIGN_DEPTH
from topiarist.errors import FieldKey, FieldPath, Location
from topiarist.text import printable


def make_event_reader(text: str | bytes) -> Callable[[], Any]:
    """A function that gives the next event of a text at each call; it raises ``yaml.YAMLError`` where there is none."""
    following: Callable[[], Any] = CBaseLoader(text).get_event
    return following


class File(NamedTuple):
    """A file as it was read, with its name as the user gave it (relative, if a relative path was given)."""

    name: str
    data: bytes

    def part(self, start: int, end: int) -> str:
        """The characters from ``start`` to ``end``; a byte order mark at the beginning does not count."""
        return _decode_text(self.data)[start:end]


@lru_cache(maxsize=1)
def _decode_text(data: bytes) -> str:
    """A file's text, kept for the last one: of a file with many documents, many parts may be asked for."""
    return data.decode("utf-8-sig")


class Document:
    """One document of a file, the ``Source`` of its manifest; ``start`` and ``end`` are characters.

    ``root`` spares reading the document again as long as it is there: what was read, and at which line it begins there.
    """

    __slots__ = ("end", "file", "line", "root", "start")

    def __init__(self, file: File, start: int, end: int, line: int) -> None:
        self.file = file
        self.start = start
        self.end = end
        self.line = line
        self.root: tuple[Node, int] | None = None

    def locate(self, path: FieldPath = ()) -> Location:
        """The place of ``path``, of its nearest ancestor that has one, or of the document.

        That of the value if it is a scalar or a list's item, of the key otherwise, or if the path ends in a ``Key``.
        """
        root, first = self.root or (_compose_document(self), 0)
        line, column = locate_node(root, path)
        return Location(self.file.name, self.line + line - first + 1, column + 1)


@lru_cache(maxsize=16)
def _compose_document(document: Document) -> Node:
    """A document with all positions; the last few are kept, since questions about one document come together."""
    return compose_document(document.file.part(document.start, document.end))


class NodeIssue(NamedTuple):
    """Something that YAML allows and we do not: what was found and wanted, and what to do."""

    message: str
    hint: str = ""


class LimitExceeded(Exception):
    """A document that is too large or too deep to go on with its file; lines and columns count from 0."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


class Node:
    """A scalar, a mapping (``pairs``), or a sequence (``items``), and where it begins; lines and columns count from 0.

    ``plain`` is a scalar without quotes. ``faults`` has what is wrong with the node itself, not with what it holds.
    """

    __slots__ = ("column", "is_plain", "issues", "items", "line", "pairs", "text")

    def __init__(self, event: Any) -> None:
        mark, scalar = event.start_mark, type(event) is ScalarEvent
        self.line: int = mark.line
        self.column: int = mark.column
        self.text: str = event.value if scalar else ""
        self.is_plain = scalar and not event.style
        self.items: list[Node] | None = None
        self.pairs: list[tuple[Node, Node]] | None = None
        # An alias has no tag, but always an anchor.
        odd = event.anchor is not None or event.tag is not None
        self.issues: tuple[NodeIssue, ...] = tuple(_node_issues(event)) if odd else ()

    @property
    def is_scalar(self) -> bool:
        """Whether this is neither a mapping nor a sequence."""
        return self.items is None and self.pairs is None


class ComposedDocument(NamedTuple):
    """A document's root and where the document begins (its line's first character) and ends."""

    root: Node
    start: int
    end: int
    line: int


def _node_issues(event: Any) -> Iterator[NodeIssue]:
    if isinstance(event, AliasEvent):
        yield NodeIssue(
            f"found the alias *{printable(str(event.anchor))}", "write the value out; quote it if the * belongs to it"
        )
        return
    anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
    if anchor is not None:
        yield NodeIssue(
            f"found the anchor &{printable(anchor)}", "leave it out; quote the value if the & belongs to it"
        )
    if tag is not None:
        written = printable(tag.replace("tag:yaml.org,2002:", "!!"))
        yield NodeIssue(f"found the tag {written}", "leave it out; quote the value if the ! belongs to it")


class Composer:
    """Reads one text, document by document. ``documents`` raises ``yaml.YAMLError`` or ``LimitExceeded``."""

    def __init__(self, text: str | bytes) -> None:
        self._next_event = make_event_reader(text)
        self._entry_count = 0

    def compose_documents(self) -> Iterator[ComposedDocument]:
        """Every document of the text."""
        while not isinstance(event := self._next_event(), StreamEndEvent):
            if isinstance(event, DocumentStartEvent):
                mark: Any = event.start_mark
                self._entry_count = 0
                root = self._compose_node(self._next_event(), 0)
                if event.version or event.tags:
                    root.issues += (NodeIssue("found a % directive", "leave it out: YAML readers differ on it"),)
                end = self._next_event().end_mark.index
                yield ComposedDocument(root, mark.index - mark.column, end, mark.line)

    def _compose_node(self, event: Event, depth: int) -> Node:
        node = Node(event)
        if not isinstance(event, CollectionStartEvent):
            return node
        if depth >= MAX_DEPTH:
            node.issues += (NodeIssue(f"found lists or mappings nested more than {MAX_DEPTH} deep"),)
            self._skip_collection(depth)
        elif isinstance(event, MappingStartEvent):
            self._compose_pairs(node, depth + 1)
        else:
            self._compose_items(node, depth + 1)
        return node

    def _compose_items(self, node: Node, depth: int) -> None:
        node.items = []
        while not isinstance(event := self._next_event(), CollectionEndEvent):
            self._count_entry(event)
            node.items.append(self._compose_node(event, depth))

    def _compose_pairs(self, node: Node, depth: int) -> None:
        node.pairs = []
        while not isinstance(event := self._next_event(), CollectionEndEvent):
            self._count_entry(event)
            key = self._compose_node(event, depth)
            node.pairs.append((key, self._compose_node(self._next_event(), depth)))

    def _count_entry(self, event: Event) -> None:
        self._entry_count += 1
        if self._entry_count > MAX_ENTRIES:
            raise _make_limit_exceeded(event, f"found more than {MAX_ENTRIES:,} list items and fields in one document")

    def _skip_collection(self, depth: int) -> None:
        """Pass over the rest of a collection without recursion, whatever is in it."""
        outer = depth
        while depth >= outer:
            event = self._next_event()
            if isinstance(event, CollectionStartEvent):
                depth += 1
                if depth > MAX_FOREIGN_DEPTH:
                    raise _make_limit_exceeded(
                        event, f"found lists or mappings nested more than {MAX_FOREIGN_DEPTH} deep"
                    )
            elif isinstance(event, CollectionEndEvent):
                depth -= 1


def _make_limit_exceeded(event: Any, message: str) -> LimitExceeded:
    return LimitExceeded(message, event.start_mark.line, event.start_mark.column)


def compose_document(text: str | bytes) -> Node:
    """The root of a text that is one document and has been read before."""
    return next(Composer(text).compose_documents()).root


def locate_node(root: Node, path: FieldPath) -> tuple[int, int]:
    """Line and column, from 0, of what ``path`` leads to, or of its nearest ancestor."""
    node, place = root, (root.line, root.column)
    for step in path:
        if isinstance(step, str) and node.pairs is not None:
            found = next((pair for pair in node.pairs if pair[0].text == step), None)
            if found is None:
                break
            key, node = found
            at = node if node.is_scalar and type(step) is not FieldKey else key
        elif isinstance(step, int) and node.items is not None and step < len(node.items):
            at = node = node.items[step]
        else:
            break
        place = (at.line, at.column)
    return place
