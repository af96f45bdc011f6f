"""The account of the fields of foreign documents: a field is taken by an importer, or it is left out and named.

Each importer wraps its documents in ``Fields``, takes what it understands, and calls ``finish``: whatever was not taken
becomes a ``LeftOut``, so that no field is dropped in silence, not even one that the importer does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from topiarist.kafka.config_table import THROTTLE_CONFIGS

NO_COUNTERPART = "topiarist has no counterpart"

_MAX_SHOWN = 60

Path = tuple[str | int, ...]


class ForeignDocument(NamedTuple):
    """A document of another tool: its plain values, its file, and the line of each path in it (0: unknown)."""

    body: Any
    file: str
    line_of: Callable[[Path], int] = lambda path: 0


class LeftOut(NamedTuple):
    """A field, or a whole topic, that is not part of the result; ``field`` is empty for a document as a whole."""

    file: str
    line: int
    field: str
    value: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        found = f"{self.field} {self.value}".strip() or "the document"
        return f"{place}: {found}: {self.reason}"


class Fields:
    """One mapping of a document. ``left_out`` collects what has no counterpart; all mappings of a run share it."""

    def __init__(self, document: ForeignDocument, left_out: list[LeftOut], body: Any = None, path: Path = ()) -> None:
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

    def take(self, name: str) -> Any:
        """Return the value of a field as it is, and count it as mapped; None if it is absent or null."""
        self._taken.add(name)
        return self._body.get(name)

    def take_text(self, name: str) -> str:
        """Return a text, number or boolean as text; empty if it is absent. Other values are named as left out."""
        value = self.take(name)
        if value is None or isinstance(value, list | Mapping):
            if value is not None:
                self.leave_out(name, "found no text here")
            return ""
        return to_text(value)

    def take_count(self, name: str) -> int | None:
        """Return a number of partitions or replicas; None if it is absent or -1, which stands for the default."""
        value = self.take(name)
        try:
            count = int(value) if not isinstance(value, bool) and value not in (None, "") else None
        except (TypeError, ValueError):
            count = 0
        if count is None or count == -1:
            return None
        if count < 1:
            self.leave_out(name, "found no positive number here")
            return None
        return count

    def take_texts(self, name: str) -> dict[str, str]:
        """Return a mapping of texts, such as labels; null and nested values in it are named as left out."""
        inner = self.take_fields(name)
        found = {}
        for key in inner:
            value = inner._body[key]
            if isinstance(value, list) and all(not isinstance(each, list | Mapping) for each in value):
                found[key] = ",".join(map(to_text, value))
            elif value is None or isinstance(value, list | Mapping):
                inner.leave_out(key, "found no value here")
            else:
                found[key] = to_text(value)
            inner._taken.add(key)
        return found

    def take_config(self, name: str) -> dict[str, str]:
        """Return the configs of a topic as Kafka's texts; configs that a reassignment sets for a time are named."""
        found = self.take_texts(name)
        inner = self.take_fields(name)
        for key in THROTTLE_CONFIGS & found.keys():
            inner.leave_out(key, "a reassignment sets it for a time")
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

    def refuse(self, reason: str) -> None:
        """Name the mapping as a whole as left out, such as a topic that no document can describe."""
        self._taken.update(self._body)
        self._add((), None, reason)

    def finish(self, reason: str = NO_COUNTERPART) -> None:
        """Name all fields that were not taken."""
        for name in self._body:
            if name not in self._taken:
                self.leave_out(name, reason)

    def _add(self, below: Path, value: Any, reason: str) -> None:
        path = (*self._path, *below)
        field = ".".join(map(str, path))
        shown = "" if value is None else _shorten(value)
        self._left_out.append(LeftOut(self._document.file, self._document.line_of(path), field, shown, reason))


def to_text(value: Any) -> str:
    """Return a scalar as Kafka's text: true and false in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shorten(value: Any) -> str:
    text = to_text(value) if not isinstance(value, list | Mapping) else f"({len(value)} entries)"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
