"""Manifests in, located complaints out: YAML files become valid ``Manifest`` values, or places where they are wrong.

``files`` gives bytes, ``strict`` reads them fast, ``thorough`` reads again what is odd and says why, ``schema`` judges
each document, ``load`` ties them together. What documents mean together is for ``desired``. ``dump`` is the way back,
and ``folder`` writes what it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from topiarist import schema
from topiarist.adapters.manifests import thorough
from topiarist.adapters.manifests.dump import dump, dump_file
from topiarist.adapters.manifests.files import Ignored, place_of, read
from topiarist.adapters.manifests.folder import check_folder, write_folder
from topiarist.adapters.manifests.limits import MAX_COMPLAINTS, MAX_GUESSES
from topiarist.adapters.manifests.source import Document, File
from topiarist.adapters.manifests.strict import Odd, StrictLoader
from topiarist.adapters.manifests.thorough import Judged, Note, is_ours
from topiarist.core.spec import Manifest
from topiarist.core.values import quoted
from topiarist.errors import Complaint, Path, Place, Problem, Reason

__all__ = ["Loaded", "annotations_of", "check_folder", "dump", "dump_file", "load", "place_of", "write_folder"]


class Loaded(NamedTuple):
    """All that some paths hold: manifests in the order of their files, complaints sorted by place.

    ``more`` counts, at least, what is wrong beyond the first ``MAX_COMPLAINTS`` of a file; ``foreign`` documents of
    other API groups; ``files`` the files that were read. ``broken`` has the kind and name of documents that are there
    but wrong. ``warnings`` name what looks like input and brought none, sorted by place.
    """

    manifests: tuple[Manifest, ...]
    complaints: tuple[Complaint, ...]
    more: int
    foreign: int
    files: int
    broken: frozenset[tuple[str, str]]
    warnings: tuple[Complaint, ...] = ()


def load(paths: Iterable[str], stdin: BinaryIO | None = None) -> Loaded:
    """Read every manifest that ``paths`` mean; ``-`` is ``stdin``. Never raises for what is in the files."""
    loading = _Loading()
    for found in read(paths, stdin):
        if isinstance(found, Complaint):
            loading.complaints.append(found)
        elif isinstance(found, Ignored):
            loading.warnings.append(found.warning)
        else:
            loading.file(found)
    return Loaded(
        tuple(loading.manifests),
        tuple(sorted(loading.complaints)),
        loading.more,
        loading.foreign,
        loading.files,
        frozenset(loading.broken),
        tuple(sorted(loading.warnings)),
    )


class _Loading:
    """One run over all files; collects as it goes."""

    def __init__(self) -> None:
        self.manifests: list[Manifest] = []
        self.complaints: list[Complaint] = []
        self.warnings: list[Complaint] = []
        self.more = 0
        self.foreign = 0
        self.files = 0
        self.broken: set[tuple[str, str]] = set()
        self._strict = StrictLoader()
        self._room = MAX_COMPLAINTS
        self._guesses = iter(range(MAX_GUESSES))
        self._empty = True

    def file(self, file: File) -> None:
        """Take in one file: fast as far as nothing is odd, then thoroughly."""
        self.files += 1
        self._room = MAX_COMPLAINTS
        self._guesses = iter(range(MAX_GUESSES))
        self._empty = True
        read = 0
        try:
            for body, source in self._strict.documents(file):
                read += 1
                self._document(body, source, [])
        except Odd:
            self._thoroughly(file, read)
        if self._empty:
            self.warnings.append(Complaint(Place(file.name), "found no document", reason=Reason.UNREADABLE.value))

    def _thoroughly(self, file: File, read: int) -> None:
        """What is wrong with a file whose first ``read`` documents are known already."""
        for document in islice(thorough.documents(file), read, None):
            if isinstance(document, Judged):
                self._document(document.body, document.source, document.notes)
                document.source.root = None
                self.more += document.more if is_ours(document.body) else 0
            else:
                self._complain(document)

    def _document(self, body: Any, source: Document, notes: Sequence[Note]) -> None:
        self._empty = self._empty and body is None
        if is_ours(body):
            if not self._room and (notes or not schema.is_valid(body)):
                # To say what is wrong would take its time, and nobody would be told.
                self.more += len(notes) or 1
                self.broken.add(_identity(body))
                return
            for note in notes:
                self._complain(note.complaint)
            problems = [problem for problem in schema.check(body) if not _known(problem.path, notes)]
            for problem in problems:
                self._problem(problem, source)
            if not problems and not notes:
                self.manifests.append(schema.manifest(body, source))
                return
            self.broken.add(_identity(body))
            for problem in schema.wrong_values(body, self._guesses):
                if not _known(problem.path, notes) and problem.path not in {known.path for known in problems}:
                    self._problem(problem, source)
        elif body is not None:
            wrong = _stranger(body)
            if wrong is None:
                self.foreign += 1
            else:
                self._problem(wrong, source)

    def _problem(self, problem: Problem, source: Document) -> None:
        """Keep a problem with its place; the place of one that would only be counted is not looked for."""
        if self._room:
            self._complain(Complaint(source.place(problem.path), problem.message, problem.hint))
        else:
            self.more += 1

    def _complain(self, complaint: Complaint) -> None:
        self._empty = False
        if self._room:
            self._room -= 1
            self.complaints.append(complaint)
        else:
            self.more += 1


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    """``metadata.annotations`` of a manifest, read again: kept for all, they would take a tenth of a run's memory."""
    source = manifest.source
    assert isinstance(source, Document)
    document = source.file.part(source.start, source.end).encode()
    try:
        metadata = _again().field(document, "metadata")
    except Odd:
        read = thorough.documents(File(source.file.name, document))
        metadata = next(found.body["metadata"] for found in read if isinstance(found, Judged))
    found: Mapping[str, str] = metadata.get("annotations", {})
    return found


@cache
def _again() -> StrictLoader:
    """One loader for all that is read again: it remembers what scalars mean."""
    return StrictLoader()


def _identity(body: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of a document that may be wrong everywhere; empty text where there is none."""
    metadata = body.get("metadata")
    return str(body.get("kind", "")), str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _known(path: Path, notes: Sequence[Note]) -> bool:
    """Whether what stands at ``path`` has been complained about already, or what it is in."""
    return any(path[: len(note.path)] == note.path for note in notes)


def _stranger(body: Any) -> Problem | None:
    """What is wrong with a document that is not ours; None if it may stand among manifests."""
    if not isinstance(body, dict):
        return Problem((), "found no mapping, wanted a document with apiVersion and kind")
    version = body.get("apiVersion")
    if not isinstance(version, str) or not version:
        return Problem((), "found a document without apiVersion", f"ours begin with apiVersion: {schema.VERSION}")
    group = version.partition("/")[0]
    if abs(len(group) - len(schema.GROUP)) <= 2 and SequenceMatcher(None, group, schema.GROUP).ratio() > 0.9:
        return Problem(("apiVersion",), f"apiVersion: found {quoted(version)}", f"did you mean {schema.VERSION}?")
    items = body.get("items")
    if body.get("kind") == "List" and isinstance(items, list) and any(map(is_ours, items)):
        message = "found a List that holds documents of ours, wanted each on its own"
        return Problem(("items",), message, "put --- between them")
    return None
