"""The fast parser: plain values from valid documents, ``NeedsDiagnosis`` for all other documents.

``loader`` uses it first. It keeps neither positions nor reasons and is twice as fast as PyYAML's C loader. If it
rejects a file, ``diagnose`` parses the file again and reports each error with its location. A test checks that both
parsers accept the same documents.
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
"""Characters that are line breaks in YAML 1.1 but not in 1.2, or that only some parsers skip."""


class NeedsDiagnosis(Exception):
    """A document that the fast parser rejects; ``diagnose`` reports why."""


class ParsedDocument(NamedTuple):
    """A document's plain content (None if it is empty), and its source."""

    body: Any
    source: Document


class StrictParser:
    """A parser of many files that caches the meaning of scalars, because manifests repeat them."""

    def __init__(self) -> None:
        self._scalars: ScalarCache[Scalar] = ScalarCache(parse_plain_scalar)
        self._keys: ScalarCache[str] = ScalarCache(parse_plain_key)

    def parse_documents(self, file: File) -> Iterator[ParsedDocument]:
        """Yield the documents of a file; raise ``NeedsDiagnosis`` at the first that is rejected."""
        try:
            next_event = _checked_event_reader(file.data)
            while type(event := next_event()) is not StreamEndEvent:
                if type(event) is DocumentStartEvent:
                    yield self._parse_document(file, event, next_event)
        except (AmbiguousScalar, UnicodeDecodeError, YAMLError) as error:
            raise NeedsDiagnosis from error

    def read_field(self, document: bytes, name: str) -> Any:
        """Return the value of a field that a document is known to have.

        The text after the field is not parsed. Raises ``NeedsDiagnosis``.
        """
        try:
            next_event = _checked_event_reader(document)
            while type(next_event()) is not MappingStartEvent:
                pass
            parser = _DocumentParser(next_event, self._scalars, self._keys)
            while True:
                key, value = next_event(), parser.parse_node(next_event(), 1)
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
    """Return an event reader for a file that all YAML versions read alike; else raise ``NeedsDiagnosis``."""
    if not data.isascii() and AMBIGUOUS_CHARACTERS.search(data.decode("utf-8-sig")):
        raise NeedsDiagnosis
    if data.count(b"%TAG") > MAX_TAG_DIRECTIVES:
        raise NeedsDiagnosis
    return make_event_reader(data)


class _DocumentParser:
    """A parser of one document.

    The checks of a scalar are inlined in ``_parse_mapping``: a call per scalar would cost a tenth of the run time.
    """

    __slots__ = ("_entries", "_keys", "_next_event", "_scalars")

    def __init__(self, next_event: Callable[[], Any], scalars: ScalarCache[Scalar], keys: ScalarCache[str]) -> None:
        self._next_event = next_event
        self._scalars = scalars
        self._keys = keys
        self._entries = 0

    def parse_node(self, event: Any, depth: int) -> Any:
        """Return the value that begins with ``event``."""
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
        next_event, keys, plain, node = self._next_event, self._keys, self._scalars, self.parse_node
        mapping: dict[str, Any] = {}
        while type(event := next_event()) is ScalarEvent:
            if event.style or event.tag is not None or event.anchor is not None:
                key = _quoted_text(event)
            else:
                key = keys[event.value]
            if key in mapping or len(mapping) >= MAX_ENTRIES:
                raise NeedsDiagnosis
            event = next_event()
            if type(event) is ScalarEvent and not event.style and event.tag is None and event.anchor is None:
                mapping[key] = plain[event.value]
            else:
                mapping[key] = node(event, depth)
        if type(event) is not MappingEndEvent:
            raise NeedsDiagnosis
        return mapping

    def _parse_sequence(self, depth: int) -> list[Any]:
        next_event, node = self._next_event, self.parse_node
        sequence: list[Any] = []
        while type(event := next_event()) is not SequenceEndEvent:
            if len(sequence) >= MAX_ENTRIES:
                raise NeedsDiagnosis
            sequence.append(node(event, depth))
        return sequence


def _quoted_text(event: Any) -> str:
    """Return the text of a scalar in quotes or in a block."""
    text: str = event.value
    if (
        event.tag is not None
        or event.anchor is not None
        or not (text.isprintable() or not CONTROL_CHARACTERS.search(text))
    ):
        raise NeedsDiagnosis
    return text
