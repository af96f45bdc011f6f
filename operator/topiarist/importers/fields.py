"""The account of the fields of foreign documents: a field is taken by an importer, or it is left out and named.

Each importer wraps its documents in ``Fields``, takes what it understands, and calls ``finish``: whatever was not taken
becomes a ``LeftOut``, so that no field is dropped in silence, not even one that the importer does not know. Scalars are
texts as the file has them. The account converts them only where Kafka has a number: counts and numeric configs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from topiarist.errors import FieldPath
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_table import MAX_BY_TYPE, THROTTLE_CONFIGS, TOPIC_CONFIGS
from topiarist.model.spec import Source
from topiarist.text import LOOKS_LIKE_TEMPLATE, RENDER_HINT, TEMPLATE_MARKER

NO_COUNTERPART = "topiarist has no counterpart"

_MAX_SHOWN = 60
_CONFIG_RULES = ConfigRules(mode=None, allow_unknown_configs=("*",))

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,2})?")
_FREE_TEXT = {"annotations", "description"}
"""Fields with text for people, in which braces are no template."""


class ForeignDocument(NamedTuple):
    """A document of another tool: mappings, lists, texts and None; its file, and the source with its positions."""

    body: Any
    file: str
    source: Source

    def line_of(self, path: FieldPath) -> int:
        """Return the line of the value at a path, or of its nearest ancestor with a place, from 1."""
        return self.source.locate(path).line


class LeftOut(NamedTuple):
    """A field, or a whole topic, that is not part of the result; ``field`` is empty for a document as a whole.

    ``is_expected`` is a field that no user has written, such as the status of a resource.
    """

    file: str
    line: int
    field: str
    value: str
    reason: str
    is_expected: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        found = f"{self.field} {self.value}".strip() or "the document"
        return f"{place}: {found}: {self.reason}"


class Fields:
    """One mapping of a document. ``left_out`` collects what has no counterpart; all mappings of a run share it."""

    def __init__(
        self, document: ForeignDocument, left_out: list[LeftOut], body: Any = None, path: FieldPath = ()
    ) -> None:
        self._document = document
        self._left_out = left_out
        self._path = path
        found = document.body if body is None and not path else body
        self._body: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        self._taken: set[str] = set()
        if found is not None and not isinstance(found, Mapping):
            self._add((), found, "found no mapping here")

    def __contains__(self, name: str) -> bool:
        return name in self._body

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    @property
    def place(self) -> str:
        """The file and the line of the mapping."""
        return f"{self._document.file}:{self._document.line_of(self._path)}"

    def take(self, name: str) -> Any:
        """Return the value of a field as it is, and count it as mapped; None if it is absent or null."""
        self._taken.add(name)
        return self._body.get(name)

    def take_text(self, name: str) -> str:
        """Return a text; empty if it is absent. Other values are named as left out."""
        value = self.take(name)
        if isinstance(value, list | Mapping):
            self.leave_out(name, "found no text here")
            return ""
        return value or ""

    def take_count(self, name: str) -> int | None:
        """Return a number of partitions or replicas; None if it is absent or -1, which stands for the default."""
        value = self.take(name)
        count = read_whole_number(value) if isinstance(value, str) else None
        if value is None or count == -1:
            return None
        if count is None or count < 1:
            self.leave_out(name, "found no positive number here")
            return None
        return count

    def take_texts(self, name: str) -> dict[str, str]:
        """Return a mapping of texts, such as labels; null and nested values in it are named as left out."""
        inner = self.take_fields(name)
        found = {}
        for key in inner:
            value = inner._body[key]
            if isinstance(value, list) and all(isinstance(each, str) for each in value):
                found[key] = ",".join(value)
            elif not isinstance(value, str):
                inner.leave_out(key, "found no value here")
            else:
                found[key] = value
            inner._taken.add(key)
        return found

    def take_config(self, name: str) -> dict[str, str]:
        """Return the configs of a topic as Kafka's texts; whole numbers that a renderer printed as floats are such.

        Named are configs that a reassignment sets for a time, and values that every version of Kafka refuses.
        """
        found = self.take_texts(name)
        inner = self.take_fields(name)
        for key, text in [*found.items()]:
            if key in TOPIC_CONFIGS and TOPIC_CONFIGS[key].type in MAX_BY_TYPE:
                number = read_whole_number(text)
                found[key] = text if number is None else str(number)
            problem = _CONFIG_RULES.config_problem(key, found[key])
            if key in THROTTLE_CONFIGS:
                inner.leave_out(key, "a reassignment sets it for a time")
                del found[key]
            elif problem:
                inner.leave_out(key, problem[0].removeprefix(f"{key}: "))
                del found[key]
        return found

    def take_fields(self, name: str) -> Fields:
        """Return the mapping of a field; it is empty if it is absent."""
        value = self.take(name)
        return Fields(self._document, self._left_out, {} if value is None else value, (*self._path, name))

    def take_list(self, name: str) -> list[Fields]:
        """Return the mappings in a list."""
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.leave_out(name, "found no list here")
            return []
        return [
            Fields(self._document, self._left_out, {} if each is None else each, (*self._path, name, index))
            for index, each in enumerate(value)
        ]

    def leave_out(self, name: str, reason: str = NO_COUNTERPART) -> None:
        """Name a field as left out, if it is there."""
        self._taken.add(name)
        if name in self._body:
            self._add((name,), self._body[name], reason)

    def pass_over(self, *names: str) -> None:
        """Count fields that no user has written, such as the status of a resource, without a line for each."""
        for name in names:
            if name in self._body and name not in self._taken:
                self._taken.add(name)
                self._add((name,), None, "", is_expected=True)

    def refuse(self, reason: str) -> None:
        """Name the mapping as a whole as left out, such as a topic that no document can describe."""
        self._taken.update(self._body)
        self._add((), None, reason)

    def refuse_template(self) -> bool:
        """Name the first text in the mapping that a renderer would replace; return whether there is one."""
        for path, text in _find_texts(self._body):
            if reason := template_reason(text):
                self._add(path, text, reason)
                return True
        return False

    def finish(self, reason: str = NO_COUNTERPART) -> None:
        """Name all fields that were not taken."""
        for name in self._body:
            if name not in self._taken:
                self.leave_out(name, reason)

    def _add(self, below: FieldPath, value: Any, reason: str, *, is_expected: bool = False) -> None:
        path = (*self._path, *below)
        field = ".".join(map(str, path))
        shown = "" if value is None else _shorten(value)
        line = self._document.line_of(path)
        self._left_out.append(LeftOut(self._document.file, line, field, shown, reason, is_expected))


def read_whole_number(text: str) -> int | None:
    """Return a whole number, also one that a renderer printed as a float: ``6.048e+08``; None if the text is none.

    Numbers that YAML versions read differently, such as ``010`` and ``1_000``, are none.
    """
    if not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    return int(value) if value == value.to_integral_value() else None


def template_reason(text: str) -> str:
    """Return why a text is not imported if it has a marker of a template; else empty text."""
    found = TEMPLATE_MARKER.search(text)
    return f"{LOOKS_LIKE_TEMPLATE} ({found[0]}): {RENDER_HINT}" if found else ""


def _find_texts(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """Yield each text of a value with its path; fields with text for people are left out."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if key not in _FREE_TEXT:
                yield from _find_texts(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _find_texts(each, (*path, index))


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else f"({len(value)} entries)"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
