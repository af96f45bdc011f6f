"""The text of YAML that every YAML version reads alike: what unquoted text means, parsed fast, written, and edited.

``loader`` parses manifests with it. ``topiarist export``, ``render`` and ``import`` write their documents with it, and
``drift --fix manifest`` edits them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypeVar

import yaml
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
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from topiarist.adapters.manifests.source import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_TAG_DIRECTIVES,
    Document,
    File,
    make_event_reader,
)
from topiarist.errors import FieldPath, Reason, TopiaristError
from topiarist.kafka.config_values import PLAIN_FRACTION, PLAIN_INTEGER, Scalar, to_scalar
from topiarist.schema.load import load_schema
from topiarist.text import quote

# Meaning of unquoted scalars: one meaning in every YAML version, or an error.
#
# YAML 1.1, YAML 1.2 and the Go library inside kubectl read unquoted text differently: ``010`` is 8 or 10, ``yes`` is
# true or text, ``12:30:45`` is text or 45045. Such text is an ``AmbiguousScalar`` error with the hint to quote it, so
# that topiarist and kubectl never read one file differently. The fast parser stops at the first such error, and
# ``diagnose`` reports all.

T = TypeVar("T")

_NUMERIC_STARTS = frozenset("+-.0123456789")


def _case_variants(*words: str) -> set[str]:
    return {spelling for word in words for spelling in (word, word.capitalize(), word.upper())}


NULL_WORDS = _case_variants("null") | {"~", ""}
"""Unquoted text that means no value in every YAML version."""

_RESERVED_WORDS = _case_variants("true", "false", "yes", "no", "on", "off", "y", "n") | NULL_WORDS | {"=", "<<"}

# Numbers are matched after underscores are removed, as kubectl does: this is a superset of YAML 1.1 and 1.2.
# In each pattern a digit can match in one place only. A scalar may have millions of digits, and with two possible
# places the regular expression would try every split between them.
_NUMBER_FORMS = (
    (re.compile(r"[-+]?0[bB][-+]?[01]+|[-+]?0[oO][-+]?[0-7]+"), "a number in another base"),
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]*(?:\.[0-9a-fA-F]*)?(?:[pP][-+]?[0-9]+)?"), "a number in another base"),
    (re.compile(r"[-+]?[0-9]+"), "a number with a sign, a leading zero or underscores"),
    (re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*)(?:[eE][-+]?[0-9]+)?"), "a number in an unusual form"),
    (re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"), "a number in base 60"),
    (re.compile(r"[-+]?\.?(?i:inf|infinity|nan)"), "infinity or not-a-number"),
)
_ANY_NUMBER = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in _NUMBER_FORMS))
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)


class AmbiguousScalar(ValueError):
    """Unquoted text that YAML versions read differently, or as nothing; has a message and a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def parse_plain_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar: text, an integer, a fraction, or a boolean.

    Integers fit 64 bits and fractions a float, because kubectl cannot carry more without quotes. Raises
    ``AmbiguousScalar`` for text that YAML versions read differently.
    """
    if text[:1] in _NUMERIC_STARTS:
        return _parse_number(text)
    if text not in _RESERVED_WORDS:
        return text
    if text in ("true", "false"):
        return text == "true"
    raise _reserved_word_error(text)


def parse_plain_key(text: str) -> str:
    """Return the text of an unquoted key, also of a key that looks like an integer.

    Raises ``AmbiguousScalar``, also for a fraction: kubectl would change the key ``1.50`` to ``1.5``.
    """
    if isinstance(parse_plain_scalar(text), Decimal):
        raise _quoting_error(text, "a number")
    return text


def _parse_number(text: str) -> Scalar:
    value = to_scalar(text)
    if not isinstance(value, str):
        return value
    if PLAIN_INTEGER.fullmatch(text):
        raise _quoting_error(text, "a number of more than 64 bits, which kubectl rounds")
    if PLAIN_FRACTION.fullmatch(text):
        is_zero = text.startswith("-") and not Decimal(text)
        raise _quoting_error(text, "a negative zero" if is_zero else "a number of more digits than kubectl keeps")
    bare = text.replace("_", "")
    if _ANY_NUMBER.fullmatch(bare):
        description = next(description for pattern, description in _NUMBER_FORMS if pattern.fullmatch(bare))
        raise _quoting_error(text, description, "write a plain decimal number")
    if _DATE.fullmatch(text):
        raise _quoting_error(text, "a date")
    return text


def _quoting_error(text: str, description: str, alternative: str = "") -> AmbiguousScalar:
    shown = quote(text)
    message = f"found {shown[1:-1]} without quotes, {description}: YAML versions read it differently"
    return AmbiguousScalar(message, f"quote it: {shown}" + (f", or {alternative}" if alternative else ""))


def _reserved_word_error(text: str) -> AmbiguousScalar:
    if text == "":
        return AmbiguousScalar("found no value", 'write one, or remove the line; empty text is ""')
    if text in NULL_WORDS:
        return AmbiguousScalar(f"found {text}, which means no value", f'remove the line, or quote it: "{text}"')
    if text == "<<":
        return AmbiguousScalar("found the merge key <<", 'write the fields out, or quote it: "<<"')
    if text == "=":
        return _quoting_error(text, "a special value")
    return _quoting_error(text, "a boolean in some YAML versions", "write true or false")


class ScalarCache(dict[str, T], Generic[T]):
    """A cache of parsed scalars, because manifests repeat them; raises ``AmbiguousScalar`` for a new one.

    Bounded, so that a hostile file cannot fill the memory.
    """

    MAX_SIZE = 50_000
    MAX_TEXT_LENGTH = 64

    def __init__(self, parse: Callable[[str], T]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, text: str) -> T:
        value = self._parse(text)
        if len(text) <= self.MAX_TEXT_LENGTH and len(self) < self.MAX_SIZE:
            self[text] = value
        return value


# The fast parser: plain values from valid documents, ``NeedsDiagnosis`` for all other documents.
#
# ``loader`` uses it first. It keeps neither positions nor reasons and is twice as fast as PyYAML's C loader. If it
# rejects a file, ``diagnose`` parses the file again and reports each error with its location. A test checks that both
# parsers accept the same documents.

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
        next_event, plain, node = self._next_event, self._scalars, self.parse_node
        sequence: list[Any] = []
        while (kind := type(event := next_event())) is not SequenceEndEvent:
            if len(sequence) >= MAX_ENTRIES:
                raise NeedsDiagnosis
            if kind is ScalarEvent and not event.style and event.tag is None and event.anchor is None:
                sequence.append(plain[event.value])
            else:
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


class _ManifestDumper(yaml.CSafeDumper):
    """A YAML dumper that quotes ambiguous text and never uses anchors."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: _ManifestDumper, text: str) -> yaml.ScalarNode:
    try:
        style = None if parse_plain_scalar(text) is text else '"'
    except AmbiguousScalar:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


def _represent_fraction(dumper: _ManifestDumper, value: Decimal) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", format(value, "f"))


_ManifestDumper.add_representer(str, _represent_text)
_ManifestDumper.add_representer(Decimal, _represent_fraction)


def dump_documents(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as one YAML text, each after ``---``, with fields in their order.

    Parsing the text returns equal documents.
    """
    return yaml.dump_all(
        documents, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, explicit_start=True, width=120
    )


def dump_file(document: Mapping[str, Any], kind: str = "") -> str:
    """Return one document as the text of its own file; ``kind`` is that of a document without the field.

    The first line names the document's schema for editors.
    """
    head = f"# yaml-language-server: $schema={load_schema(kind or document['kind'])['$id']}\n"
    return head + yaml.dump(document, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, width=120)


# Edits of single values in manifests, as by an editor: comments, order and every other character stay.
#
# ``edit_document`` replaces, adds or removes one value in the text of one document. Text that other values share (an
# alias, an anchor), and values over several lines, are not touched: the error says which. The result is parsed again:
# it differs from the document before in that value alone, or nothing is edited.

_STEP = 2
"""Columns of one more level, where a document has no level to copy."""


def edit_document(text: str, path: FieldPath, value: Any) -> str:
    """Return the text of a document with the value at ``path``, None without it.

    Parents that are missing are added; in a list, the path may end at its length, which appends. Raises
    ``TopiaristError`` (WriteFailed) if the text cannot be edited so that nothing else changes.
    """
    before = yaml.load(text, yaml.CBaseLoader)
    root = yaml.compose(text, yaml.CSafeLoader)
    if not isinstance(root, MappingNode):
        raise _refused(path, "the document is no mapping")
    edited = _remove(text, root, path) if value is None else _set(text, root, path, value)
    wanted = _with_value(before, path, value if value is None else _as_text(value))
    with suppress(yaml.YAMLError):
        if yaml.load(edited, yaml.CBaseLoader) == wanted:
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
    if isinstance(node, ScalarNode) and not node.value and key is not None and not node.style:
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
    return str(yaml.load(_render(value), yaml.CBaseLoader))


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
