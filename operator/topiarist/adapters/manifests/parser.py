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

from topiarist.adapters.manifests.limits import MAX_DEPTH, MAX_ENTRIES, MAX_TAG_DIRECTIVES
from topiarist.adapters.manifests.scalars import AmbiguousScalar, ScalarCache, parse_plain_key, parse_plain_scalar
from topiarist.adapters.manifests.source import Document, File, make_event_reader
from topiarist.kafka.config_values import Scalar

CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that no scalar may hold, not even in quotes; newline and tab are allowed."""

AMBIGUOUS_CHARACTERS = re.compile("[\x85\u2028\u2029\ufeff]")
"""Characters that end a line in YAML 1.1 and not in YAML 1.2, or that only some readers skip."""


class NeedsDiagnosis(Exception):
    """Something that the fast pass does not take; ``thorough`` says what."""


class ParsedDocument(NamedTuple):
    """A document's plain content (None if it is empty), and where it stands."""

    body: Any
    source: Document


class StrictParser:
    """Reads many files; remembers between them what scalars mean, since manifests repeat themselves."""

    def __init__(self) -> None:
        self._scalars: ScalarCache[Scalar] = ScalarCache(parse_plain_scalar)
        self._keys: ScalarCache[str] = ScalarCache(parse_plain_key)

    def parse_documents(self, file: File) -> Iterator[ParsedDocument]:
        """The documents of a file. Raises ``Odd``, after those that come before the odd one."""
        try:
            following = _checked_event_reader(file.data)
            while type(event := following()) is not StreamEndEvent:
                if type(event) is DocumentStartEvent:
                    yield self._parse_document(file, event, following)
        except (AmbiguousScalar, UnicodeDecodeError, YAMLError) as error:
            raise NeedsDiagnosis from error

    def read_field(self, document: bytes, name: str) -> Any:
        """The value of a field that a document is known to have; what comes after it is not read. Raises ``Odd``."""
        try:
            following = _checked_event_reader(document)
            while type(following()) is not MappingStartEvent:
                pass
            reading = _DocumentParser(following, self._scalars, self._keys)
            while True:
                key, value = following(), reading.parse_node(following(), 1)
                if key.value == name:
                    return value
        except (AmbiguousScalar, UnicodeDecodeError, YAMLError) as error:
            raise NeedsDiagnosis from error

    def _parse_document(self, file: File, start: Any, following: Callable[[], Any]) -> ParsedDocument:
        if start.version or start.tags:
            raise NeedsDiagnosis
        mark = start.start_mark
        event = following()
        body = None
        if type(event) is not ScalarEvent or event.value or event.style or event.tag or event.anchor:
            body = _DocumentParser(following, self._scalars, self._keys).parse_node(event, 0)
        return ParsedDocument(body, Document(file, mark.index - mark.column, following().end_mark.index, mark.line))


def _checked_event_reader(data: bytes) -> Callable[[], Any]:
    """What ``events`` gives, of a file that all readers of YAML read alike."""
    if not data.isascii() and AMBIGUOUS_CHARACTERS.search(data.decode("utf-8-sig")):
        raise NeedsDiagnosis
    if data.count(b"%TAG") > MAX_TAG_DIRECTIVES:
        raise NeedsDiagnosis
    return make_event_reader(data)


class _DocumentParser:
    """One document being read. What is done once for each scalar is written out: a call would cost a tenth of all."""

    __slots__ = ("_entries", "_keys", "_next_event", "_scalars")

    def __init__(self, next_event: Callable[[], Any], scalars: ScalarCache[Scalar], keys: ScalarCache[str]) -> None:
        self._next_event = next_event
        self._scalars = scalars
        self._keys = keys
        self._entries = 0

    def parse_node(self, event: Any, depth: int) -> Any:
        """The value that begins with ``event``."""
        kind = type(event)
        if kind is ScalarEvent:
            if event.style or event.tag is not None or event.anchor is not None:
                return _quoted_text(event)
            return self._scalars[event.value]
        if depth >= MAX_DEPTH or kind is AliasEvent or event.tag is not None or event.anchor is not None:
            raise NeedsDiagnosis
        collection = self._parse_mapping(depth + 1) if kind is MappingStartEvent else self._parse_sequence(depth + 1)
        self._entries += len(collection)
        if self._entries > MAX_ENTRIES:
            raise NeedsDiagnosis
        return collection

    def _parse_mapping(self, depth: int) -> dict[str, Any]:
        following, keys, plain, node = self._next_event, self._keys, self._scalars, self.parse_node
        mapping: dict[str, Any] = {}
        while type(event := following()) is ScalarEvent:
            if event.style or event.tag is not None or event.anchor is not None:
                key = _quoted_text(event)
            else:
                key = keys[event.value]
            if key in mapping or len(mapping) >= MAX_ENTRIES:
                raise NeedsDiagnosis
            event = following()
            if type(event) is ScalarEvent and not event.style and event.tag is None and event.anchor is None:
                mapping[key] = plain[event.value]
            else:
                mapping[key] = node(event, depth)
        if type(event) is not MappingEndEvent:
            raise NeedsDiagnosis
        return mapping

    def _parse_sequence(self, depth: int) -> list[Any]:
        following, node = self._next_event, self.parse_node
        sequence: list[Any] = []
        while type(event := following()) is not SequenceEndEvent:
            if len(sequence) >= MAX_ENTRIES:
                raise NeedsDiagnosis
            sequence.append(node(event, depth))
        return sequence


def _quoted_text(event: Any) -> str:
    """The text of a scalar in quotes or in a block."""
    text: str = event.value
    if (
        event.tag is not None
        or event.anchor is not None
        or not (text.isprintable() or not CONTROL_CHARACTERS.search(text))
    ):
        raise NeedsDiagnosis
    return text
