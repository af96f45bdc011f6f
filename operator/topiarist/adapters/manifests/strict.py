"""The fast pass: plain values out of documents that are as they should be, and ``Odd`` for all others.

It keeps neither positions nor reasons, which makes it twice as fast as PyYAML's C loader. A file with anything odd is
read again by ``thorough``, which finds all that is wrong and where. The two agree: a test holds them together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from yaml import YAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from topiarist.adapters.manifests.events import events
from topiarist.adapters.manifests.limits import MAX_DEPTH, MAX_ENTRIES, MAX_TAG_DIRECTIVES
from topiarist.adapters.manifests.scalars import Ambiguous, Meanings, key_meaning, meaning
from topiarist.adapters.manifests.source import Document, File
from topiarist.core.values import Scalar

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that no scalar may hold, not even in quotes; newline and tab are allowed."""

BREAKING = re.compile("[\x85\u2028\u2029\ufeff]")
"""Characters that end a line in YAML 1.1 and not in YAML 1.2, or that only some readers skip."""


class Odd(Exception):
    """Something that the fast pass does not take; ``thorough`` says what."""


class Parsed(NamedTuple):
    """A document's plain content (None if it is empty), and where it stands."""

    body: Any
    source: Document


class StrictLoader:
    """Reads many files; remembers between them what scalars mean, since manifests repeat themselves."""

    def __init__(self) -> None:
        self._plain: Meanings[Scalar] = Meanings(meaning)
        self._keys: Meanings[str] = Meanings(key_meaning)

    def documents(self, file: File) -> Iterator[Parsed]:
        """The documents of a file. Raises ``Odd``, after those that come before the odd one."""
        try:
            following = _events(file.data)
            while type(event := following()) is not StreamEndEvent:
                if type(event) is DocumentStartEvent:
                    yield self._document(file, event, following)
        except (Ambiguous, UnicodeDecodeError, YAMLError) as error:
            raise Odd from error

    def field(self, document: bytes, name: str) -> Any:
        """The value of a field that a document is known to have; what comes after it is not read. Raises ``Odd``."""
        try:
            following = _events(document)
            while type(following()) is not MappingStartEvent:
                pass
            reading = _Reading(following, self._plain, self._keys)
            while True:
                key, value = following(), reading.node(following(), 1)
                if key.value == name:
                    return value
        except (Ambiguous, UnicodeDecodeError, YAMLError) as error:
            raise Odd from error

    def _document(self, file: File, start: Any, following: Callable[[], Any]) -> Parsed:
        if start.version or start.tags:
            raise Odd
        mark = start.start_mark
        event = following()
        body = None
        if type(event) is not ScalarEvent or event.value or event.style or event.tag or event.anchor:
            body = _Reading(following, self._plain, self._keys).node(event, 0)
        return Parsed(body, Document(file, mark.index - mark.column, following().end_mark.index, mark.line))


def _events(data: bytes) -> Callable[[], Any]:
    """What ``events`` gives, of a file that all readers of YAML read alike."""
    if not data.isascii() and BREAKING.search(data.decode("utf-8-sig")):
        raise Odd
    if data.count(b"%TAG") > MAX_TAG_DIRECTIVES:
        raise Odd
    return events(data)


class _Reading:
    """One document being read. What is done once for each scalar is written out: a call would cost a tenth of all."""

    __slots__ = ("_entries", "_following", "_keys", "_plain")

    def __init__(self, following: Callable[[], Any], plain: Meanings[Scalar], keys: Meanings[str]) -> None:
        self._following = following
        self._plain = plain
        self._keys = keys
        self._entries = 0

    def node(self, event: Any, depth: int) -> Any:
        """The value that begins with ``event``."""
        kind = type(event)
        if kind is ScalarEvent:
            if event.style or event.tag is not None or event.anchor is not None:
                return _quoted(event)
            return self._plain[event.value]
        if depth >= MAX_DEPTH or kind is AliasEvent or event.tag is not None or event.anchor is not None:
            raise Odd
        collection = self._mapping(depth + 1) if kind is MappingStartEvent else self._sequence(depth + 1)
        self._entries += len(collection)
        if self._entries > MAX_ENTRIES:
            raise Odd
        return collection

    def _mapping(self, depth: int) -> dict[str, Any]:
        following, keys, plain, node = self._following, self._keys, self._plain, self.node
        mapping: dict[str, Any] = {}
        while type(event := following()) is ScalarEvent:
            if event.style or event.tag is not None or event.anchor is not None:
                key = _quoted(event)
            else:
                key = keys[event.value]
            if key in mapping or len(mapping) >= MAX_ENTRIES:
                raise Odd
            event = following()
            if type(event) is ScalarEvent and not event.style and event.tag is None and event.anchor is None:
                mapping[key] = plain[event.value]
            else:
                mapping[key] = node(event, depth)
        if type(event) is not MappingEndEvent:
            raise Odd
        return mapping

    def _sequence(self, depth: int) -> list[Any]:
        following, node = self._following, self.node
        sequence: list[Any] = []
        while type(event := following()) is not SequenceEndEvent:
            if len(sequence) >= MAX_ENTRIES:
                raise Odd
            sequence.append(node(event, depth))
        return sequence


def _quoted(event: Any) -> str:
    """The text of a scalar in quotes or in a block."""
    text: str = event.value
    if event.tag is not None or event.anchor is not None or not (text.isprintable() or not CONTROL.search(text)):
        raise Odd
    return text
