"""A document as a tree that knows where everything stands: what the thorough pass judges, and where places are found.

Made over libyaml's events, like the fast pass in ``strict``, but it takes everything that is YAML: documents of others
may have anchors, tags and duplicate keys. What is not allowed in ours is noted at its node as a ``fault``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

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

from topiarist.adapters.manifests.events import events
from topiarist.adapters.manifests.limits import MAX_DEPTH, MAX_ENTRIES, MAX_FOREIGN_DEPTH
from topiarist.core.values import shown
from topiarist.errors import Key, Path


class Fault(NamedTuple):
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

    __slots__ = ("column", "faults", "items", "line", "pairs", "plain", "text")

    def __init__(self, event: Any) -> None:
        mark, scalar = event.start_mark, type(event) is ScalarEvent
        self.line: int = mark.line
        self.column: int = mark.column
        self.text: str = event.value if scalar else ""
        self.plain = scalar and not event.style
        self.items: list[Node] | None = None
        self.pairs: list[tuple[Node, Node]] | None = None
        # An alias has no tag, but always an anchor.
        odd = event.anchor is not None or event.tag is not None
        self.faults: tuple[Fault, ...] = tuple(_faults(event)) if odd else ()

    @property
    def scalar(self) -> bool:
        """Whether this is neither a mapping nor a sequence."""
        return self.items is None and self.pairs is None


class Composed(NamedTuple):
    """A document's root and where the document begins (its line's first character) and ends."""

    root: Node
    start: int
    end: int
    line: int


def _faults(event: Any) -> Iterator[Fault]:
    if isinstance(event, AliasEvent):
        yield Fault(
            f"found the alias *{shown(str(event.anchor))}", "write the value out; quote it if the * belongs to it"
        )
        return
    anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
    if anchor is not None:
        yield Fault(f"found the anchor &{shown(anchor)}", "leave it out; quote the value if the & belongs to it")
    if tag is not None:
        written = shown(tag.replace("tag:yaml.org,2002:", "!!"))
        yield Fault(f"found the tag {written}", "leave it out; quote the value if the ! belongs to it")


class Composer:
    """Reads one text, document by document. ``documents`` raises ``yaml.YAMLError`` or ``LimitExceeded``."""

    def __init__(self, text: str | bytes) -> None:
        self._next = events(text)
        self._entries = 0

    def documents(self) -> Iterator[Composed]:
        """Every document of the text."""
        while not isinstance(event := self._next(), StreamEndEvent):
            if isinstance(event, DocumentStartEvent):
                mark: Any = event.start_mark
                self._entries = 0
                root = self._node(self._next(), 0)
                if event.version or event.tags:
                    root.faults += (Fault("found a % directive", "leave it out: YAML readers differ on it"),)
                end = self._next().end_mark.index
                yield Composed(root, mark.index - mark.column, end, mark.line)

    def _node(self, event: Event, depth: int) -> Node:
        node = Node(event)
        if not isinstance(event, CollectionStartEvent):
            return node
        if depth >= MAX_DEPTH:
            node.faults += (Fault(f"found lists or mappings nested more than {MAX_DEPTH} deep"),)
            self._skip(depth)
        elif isinstance(event, MappingStartEvent):
            self._pairs(node, depth + 1)
        else:
            self._items(node, depth + 1)
        return node

    def _items(self, node: Node, depth: int) -> None:
        node.items = []
        while not isinstance(event := self._next(), CollectionEndEvent):
            self._count(event)
            node.items.append(self._node(event, depth))

    def _pairs(self, node: Node, depth: int) -> None:
        node.pairs = []
        while not isinstance(event := self._next(), CollectionEndEvent):
            self._count(event)
            key = self._node(event, depth)
            node.pairs.append((key, self._node(self._next(), depth)))

    def _count(self, event: Event) -> None:
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise _limit(event, f"found more than {MAX_ENTRIES:,} list items and fields in one document")

    def _skip(self, depth: int) -> None:
        """Pass over the rest of a collection without recursion, whatever is in it."""
        outer = depth
        while depth >= outer:
            event = self._next()
            if isinstance(event, CollectionStartEvent):
                depth += 1
                if depth > MAX_FOREIGN_DEPTH:
                    raise _limit(event, f"found lists or mappings nested more than {MAX_FOREIGN_DEPTH} deep")
            elif isinstance(event, CollectionEndEvent):
                depth -= 1


def _limit(event: Any, message: str) -> LimitExceeded:
    return LimitExceeded(message, event.start_mark.line, event.start_mark.column)


def compose_one(text: str | bytes) -> Node:
    """The root of a text that is one document and has been read before."""
    return next(Composer(text).documents()).root


def locate(root: Node, path: Path) -> tuple[int, int]:
    """Line and column, from 0, of what ``path`` leads to, or of its nearest ancestor."""
    node, place = root, (root.line, root.column)
    for step in path:
        if isinstance(step, str) and node.pairs is not None:
            found = next((pair for pair in node.pairs if pair[0].text == step), None)
            if found is None:
                break
            key, node = found
            at = node if node.scalar and type(step) is not Key else key
        elif isinstance(step, int) and node.items is not None and step < len(node.items):
            at = node = node.items[step]
        else:
            break
        place = (at.line, at.column)
    return place
