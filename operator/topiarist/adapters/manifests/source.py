"""The source text of manifests: files as read, and documents as node trees with positions.

The fast parser in ``yaml_text`` keeps no positions. A ``Document`` holds the start and end of its text, and ``locate``
parses that part again from memory: later changes of the file on disk have no effect. ``diagnose`` builds values from
the same node trees. ``Composer`` uses libyaml's events, as that parser does, but it accepts all of YAML: documents of
other API groups may have anchors, tags and duplicate keys. What topiarist does not allow is recorded in the node's
``issues``.
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

from topiarist.errors import FieldKey, FieldPath, Location
from topiarist.text import printable

# Limits of manifests that protect memory and time from a hostile or mistaken file.
#
# The parsers and the file reader check a limit before they spend the memory or the time.

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of one file or of standard input: some 35,000 topics."""

MAX_FILES = 250_000
"""Files in one run."""

MAX_FOLDER_DEPTH = 64
"""Depth of folders below a given path; each level holds one open file descriptor while it is read."""

MAX_PEEKS = 1000
"""JSON files of a run that are opened to check for a manifest."""

MAX_NAME_LENGTH = 4096
"""Characters of a file name in a message: more than Linux allows."""

MAX_DEPTH = 32
"""Depth of lists and mappings in a topiarist document."""

MAX_FOREIGN_DEPTH = 200
"""Depth in any document: beyond it, libyaml takes quadratic time (200 kB of brackets: 40 s)."""

MAX_FOREIGN_ENTRIES = 1_000_000
"""Values of one document of another tool, with those that aliases repeat."""

MAX_ENTRIES = 250_000
"""List items and mapping keys in one document: a topic of 40,000 partitions with five replicas still fits."""

MAX_TAG_DIRECTIVES = 100
"""%TAG directives in one file: libyaml compares each with all earlier ones, and each tag with all."""

MAX_ERRORS = 100
"""Errors kept for one file; beyond it, each invalid document is counted at least once."""

MAX_GUESSES = 100
"""Unknown config keys in the invalid documents of one file that get a suggestion."""


def make_event_reader(text: str | bytes) -> Callable[[], Any]:
    """Return a function that returns the next libyaml event of a text at each call.

    The function raises ``yaml.YAMLError`` where the text is not YAML.
    """
    following: Callable[[], Any] = CBaseLoader(text).get_event
    return following


class File(NamedTuple):
    """A file as it was read.

    ``name`` is the name as the user gave it: relative if the given path was relative.
    """

    name: str
    data: bytes

    def part(self, start: int, end: int) -> str:
        """Return the characters from ``start`` to ``end``, counted without a byte order mark."""
        return _decode_text(self.data)[start:end]


@lru_cache(maxsize=1)
def _decode_text(data: bytes) -> str:
    # The last text is cached, because many parts of one file may be requested.
    return data.decode("utf-8-sig")


class Document:
    """One document of a file, the ``Source`` of its manifest; ``start`` and ``end`` are characters.

    ``root`` is the parsed root node and the line at which the document begins in the parsed text, or None. While
    ``root`` is set, ``locate`` does not parse the document again.
    """

    __slots__ = ("end", "file", "line", "root", "start")

    def __init__(self, file: File, start: int, end: int, line: int) -> None:
        self.file = file
        self.start = start
        self.end = end
        self.line = line
        self.root: tuple[Node, int] | None = None

    def __reduce__(self) -> tuple[type[Document], tuple[File, int, int, int]]:
        """Pickle the document with its own text, without the rest of the file."""
        text = self.file.part(self.start, self.end)
        return Document, (File(self.file.name, text.encode()), 0, len(text), self.line)

    def lines(self) -> tuple[Location, int]:
        """Return the location of the first line, and the number of the last line."""
        text = self.file.part(self.start, self.end)
        return Location(self.file.name, self.line + 1), self.line + 1 + text.rstrip().count("\n")

    def locate(self, path: FieldPath = ()) -> Location:
        """Return the location of ``path``, of its nearest existing ancestor, or of the document.

        For a scalar or a list item it is the location of the value. For any other field, or if the path ends in a
        ``FieldKey``, it is the location of the key.
        """
        return _locate(self, *self.root, path) if self.root else _locate_anew(self, path)


def _locate(document: Document, root: Node, first: int, path: FieldPath) -> Location:
    line, column = locate_node(root, path)
    return Location(document.file.name, document.line + line - first + 1, column + 1)


@lru_cache(maxsize=16_384)
def _locate_anew(document: Document, path: FieldPath) -> Location:
    """Return a location; many are cached, because a list of many clusters has the same places for each of them."""
    return _locate(document, _compose_document(document), 0, path)


@lru_cache(maxsize=16)
def _compose_document(document: Document) -> Node:
    """Parse a document with all positions; the last few trees are cached for other places in them."""
    return compose_document(document.file.part(document.start, document.end))


class NodeIssue(NamedTuple):
    """YAML that topiarist does not allow: the message, and a hint."""

    message: str
    hint: str = ""


class LimitExceeded(Exception):
    """A document that is too large or too deep to continue with its file.

    Lines and columns count from 0.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


class Node:
    """A scalar, a mapping (``pairs``) or a sequence (``items``), with its start.

    ``line`` and ``column`` count from 0. ``is_plain`` is a scalar without quotes. ``issues`` are problems of the node
    itself, not of its children.
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
        # The order of the tests matters: an AliasEvent has no attribute tag, but it always has an anchor.
        is_decorated = event.anchor is not None or event.tag is not None
        self.issues: tuple[NodeIssue, ...] = tuple(_node_issues(event)) if is_decorated else ()

    @property
    def is_scalar(self) -> bool:
        """True if the node is neither a mapping nor a sequence."""
        return self.items is None and self.pairs is None


class ComposedDocument(NamedTuple):
    """A document's root node, its start (the first character of its line), its end and its line.

    ``line_offset`` is the number of lines before the parsed text, if the text is the rest of a file.
    """

    root: Node
    start: int
    end: int
    line: int
    line_offset: int = 0


def _node_issues(event: Any) -> Iterator[NodeIssue]:
    if isinstance(event, AliasEvent):
        yield NodeIssue(
            f"found the alias *{printable(str(event.anchor))}", "write the value out; quote it if the * belongs to it"
        )
        return
    anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
    if anchor is not None:
        yield NodeIssue(f"found the anchor &{printable(anchor)}", "remove it; quote the value if the & belongs to it")
    if tag is not None:
        written = printable(tag.replace("tag:yaml.org,2002:", "!!"))
        yield NodeIssue(f"found the tag {written}", "remove it; quote the value if the ! belongs to it")


class Composer:
    """A parser of one text that yields a node tree per document.

    ``compose_documents`` raises ``yaml.YAMLError`` or ``LimitExceeded``.
    """

    max_depth = MAX_DEPTH
    max_entries = MAX_ENTRIES
    directive_issues: tuple[NodeIssue, ...] = (
        NodeIssue("found a % directive", "remove it: YAML parsers differ on it"),
    )

    def __init__(self, text: str | bytes) -> None:
        self._next_event = make_event_reader(text)
        self._entry_count = 0

    def compose_documents(self) -> Iterator[ComposedDocument]:
        """Yield every document of the text."""
        while not isinstance(event := self._next_event(), StreamEndEvent):
            if isinstance(event, DocumentStartEvent):
                mark: Any = event.start_mark
                self._entry_count = 0
                root = self._compose_node(self._next_event(), 0)
                if event.version or event.tags:
                    root.issues += self.directive_issues
                end = self._next_event().end_mark.index
                yield ComposedDocument(root, mark.index - mark.column, end, mark.line)

    def _compose_node(self, event: Event, depth: int) -> Node:
        node = Node(event)
        if not isinstance(event, CollectionStartEvent):
            return node
        if depth >= self.max_depth:
            node.issues += (NodeIssue(f"found lists or mappings nested more than {self.max_depth} levels deep"),)
            self._skip_collection(depth)
        elif isinstance(event, MappingStartEvent):
            node.pairs = []
            while not isinstance(event := self._next_event(), CollectionEndEvent):
                self._count_entry(event)
                key = self._compose_node(event, depth + 1)
                node.pairs.append((key, self._compose_node(self._next_event(), depth + 1)))
        else:
            node.items = []
            while not isinstance(event := self._next_event(), CollectionEndEvent):
                self._count_entry(event)
                node.items.append(self._compose_node(event, depth + 1))
        return node

    def _count_entry(self, event: Event) -> None:
        self._entry_count += 1
        if self._entry_count > self.max_entries:
            raise _make_limit_exceeded(
                event, f"found more than {self.max_entries:,} list items and fields in one document"
            )

    def _skip_collection(self, depth: int) -> None:
        """Skip the rest of a collection without recursion.

        Raises ``LimitExceeded`` beyond a depth of ``MAX_FOREIGN_DEPTH``.
        """
        outer = depth
        while depth >= outer:
            event = self._next_event()
            if isinstance(event, CollectionStartEvent):
                depth += 1
                if depth > MAX_FOREIGN_DEPTH:
                    raise _make_limit_exceeded(
                        event, f"found lists or mappings nested more than {MAX_FOREIGN_DEPTH} levels deep"
                    )
            elif isinstance(event, CollectionEndEvent):
                depth -= 1


def _make_limit_exceeded(event: Any, message: str) -> LimitExceeded:
    return LimitExceeded(message, event.start_mark.line, event.start_mark.column)


def compose_document(text: str | bytes) -> Node:
    """Return the root of a text that is one document and was parsed before."""
    return next(Composer(text).compose_documents()).root


def locate_node(root: Node, path: FieldPath) -> tuple[int, int]:
    """Return line and column, from 0, of ``path`` or of its nearest existing ancestor."""
    node, place = root, (root.line, root.column)
    for step in path:
        if isinstance(step, str) and node.pairs is not None:
            match = next((pair for pair in node.pairs if pair[0].text == step), None)
            if match is None:
                break
            key, node = match
            target = node if node.is_scalar and type(step) is not FieldKey else key
        elif isinstance(step, int) and node.items is not None and step < len(node.items):
            target = node = node.items[step]
        else:
            break
        place = (target.line, target.column)
    return place
