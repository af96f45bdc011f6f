"""The thorough pass: everything that is wrong with a file, each with its place, for files that the fast pass finds odd.

A document of another API group is not judged at all. After text that is no YAML, reading goes on at the next ``---``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from yaml import YAMLError

from topiarist.adapters.manifests import syntax
from topiarist.adapters.manifests.limits import MAX_COMPLAINTS
from topiarist.adapters.manifests.scalars import Ambiguous, Meanings, key_meaning, meaning
from topiarist.adapters.manifests.source import Document, File
from topiarist.adapters.manifests.strict import CONTROL
from topiarist.adapters.manifests.tree import Composed, Composer, LimitExceeded, Node
from topiarist.core.values import Scalar, shown
from topiarist.errors import Complaint, Key, Path, Place, Reason
from topiarist.schema import GROUP

_SEPARATOR = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)


class Note(NamedTuple):
    """Something wrong in a document, at a path and its place."""

    path: Path
    complaint: Complaint


class Judged(NamedTuple):
    """A document's content as far as it could be read, where it stands, and what is wrong with how it is written.

    ``more`` counts what is wrong beyond the first ``MAX_COMPLAINTS``. ``source`` still has its ``root``, which whoever
    keeps the source for longer is to drop.
    """

    body: Any
    source: Document
    notes: list[Note]
    more: int


def documents(file: File) -> Iterator[Judged | Complaint]:
    """All documents of a file; a complaint where one cannot be read, or where the file as a whole has a flaw."""
    try:
        text = file.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield _complaint(file, syntax.undecodable(error))
        return
    flaws = list(islice(chain(syntax.unreadable(text), syntax.directives(text)), MAX_COMPLAINTS))
    if not flaws:
        ours = False
        for document in _readable(file, text):
            # Text that cannot be read may be so because of them: some editors count their lines otherwise than YAML.
            ours = ours or isinstance(document, Complaint) or is_ours(document.body)
            yield document
        flaws = list(islice(syntax.breaking(text), MAX_COMPLAINTS)) if ours else []
    for flaw in flaws:
        yield _complaint(file, flaw)


def is_ours(body: Any) -> bool:
    """Whether a document's ``apiVersion`` is of our API group, in whatever version."""
    version = body.get("apiVersion") if isinstance(body, dict) else None
    return isinstance(version, str) and (version == GROUP or version.startswith(f"{GROUP}/"))


def _complaint(file: File, flaw: syntax.Flaw, line: int = 0) -> Complaint:
    since = "" if flaw.since is None else f" (it began on line {line + flaw.since + 1})"
    place = Place(file.name, line + flaw.line + 1, flaw.column + 1)
    return Complaint(place, flaw.message + since, flaw.hint, Reason.UNREADABLE.value)


def _readable(file: File, text: str) -> Iterator[Judged | Complaint]:
    offset = line = 0
    for _ in range(MAX_COMPLAINTS):
        part = text[offset:]
        try:
            for composed in Composer(part).documents():
                yield _judge(file, composed, offset, line)
            return
        except (YAMLError, LimitExceeded) as error:
            flaw, index = syntax.flaw(error, part)
        yield _complaint(file, flaw, line)
        following = _SEPARATOR.search(part, max(index, 1))
        if following is None:
            return
        line += sum(1 for _ in syntax.LINE_BREAK.finditer(part, 0, following.start()))
        offset += following.start()


def _judge(file: File, composed: Composed, offset: int, line: int) -> Judged:
    source = Document(file, offset + composed.start, offset + composed.end, line + composed.line)
    source.root = composed.root, composed.line
    if composed.root.scalar and composed.root.plain and not composed.root.text and not composed.root.faults:
        return Judged(None, source, [], 0)
    judge = _Judge(file.name, line + 1)
    return Judged(judge.value(composed.root, ()), source, judge.notes, judge.more)


class _Judge:
    """Makes values of one document's nodes, and notes what is wrong with each."""

    def __init__(self, name: str, line: int) -> None:
        self._name = name
        self._line = line
        self._plain: Meanings[Scalar] = Meanings(meaning)
        self._keys: Meanings[str] = Meanings(key_meaning)
        self.notes: list[Note] = []
        self.more = 0

    def value(self, node: Node, path: Path) -> Any:
        """The plain content of a node; the text itself where a scalar has no meaning."""
        for fault in node.faults:
            self._note(node, path, *fault)
        if node.pairs is not None:
            return self._mapping(node.pairs, path)
        if node.items is not None:
            return [self.value(item, (*path, index)) for index, item in enumerate(node.items)]
        return node.text if node.faults else self._scalar(node, path)

    def _mapping(self, pairs: list[tuple[Node, Node]], path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        first: dict[str, Node] = {}
        for key, child in pairs:
            name = self._key(key, path)
            if name is None:
                continue
            if name in first:
                hint = f"keep one of them; the first is on line {first[name].line + self._line}"
                self._note(key, (*path, Key(name)), f"found the field {shown(name)} a second time", hint)
                # Whoever claims to be ours, in either place, is judged as ours and does not pass as a stranger.
                if path == () and name == "apiVersion" and is_ours({name: child.text}):
                    mapping[name] = child.text
                continue
            first[name] = key
            mapping[name] = self.value(child, (*path, name))
        return mapping

    def _key(self, key: Node, path: Path) -> str | None:
        if not key.scalar:
            self._note(key, path, "found a list or a mapping as a key, wanted text")
            return None
        path = (*path, Key(key.text))
        for fault in key.faults:
            self._note(key, path, *fault)
        if not key.faults:
            self._scalar(key, path, is_key=True)
        return key.text

    def _scalar(self, node: Node, path: Path, *, is_key: bool = False) -> Any:
        if not node.plain:
            if found := CONTROL.search(node.text):
                self._note(node, path, f"found the control character U+{ord(found[0]):04X} in text", "take it out")
            return node.text
        try:
            return self._keys[node.text] if is_key else self._plain[node.text]
        except Ambiguous as error:
            # A key is never a truth value: in its place only quotes help.
            hint = error.hint.removesuffix(", or write true or false") if is_key else error.hint
            self._note(node, path, error.message, hint)
            return node.text

    def _note(self, node: Node, path: Path, message: str, hint: str = "") -> None:
        if len(self.notes) >= MAX_COMPLAINTS:
            self.more += 1
            return
        place = Place(self._name, node.line + self._line, node.column + 1)
        self.notes.append(Note(path, Complaint(place, message, hint, Reason.UNREADABLE.value)))
