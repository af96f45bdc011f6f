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

from topiarist.adapters.manifests import diagnose
from topiarist.adapters.manifests.diagnose import DiagnosedDocument, LocatedIssue, is_topiarist_document
from topiarist.adapters.manifests.files import IgnoredPath, read_files
from topiarist.adapters.manifests.limits import MAX_ERRORS, MAX_GUESSES
from topiarist.adapters.manifests.parser import NeedsDiagnosis, StrictParser
from topiarist.adapters.manifests.source import Document, File
from topiarist.errors import Diagnostic, FieldPath, Location, Reason, SchemaError
from topiarist.model import spec
from topiarist.model.spec import Manifest
from topiarist.schema import check
from topiarist.schema import load as load_
from topiarist.text import quote


class Loaded(NamedTuple):
    """All that some paths hold: manifests in the order of their files, complaints sorted by place.

    ``more`` counts, at least, what is wrong beyond the first ``MAX_COMPLAINTS`` of a file; ``foreign`` documents of
    other API groups; ``files`` the files that were read. ``broken`` has the kind and name of documents that are there
    but wrong. ``warnings`` name what looks like input and brought none, sorted by place.
    """

    manifests: tuple[Manifest, ...]
    errors: tuple[Diagnostic, ...]
    suppressed_count: int
    foreign_count: int
    file_count: int
    invalid_documents: frozenset[tuple[str, str]]
    warnings: tuple[Diagnostic, ...] = ()


def load_manifests(paths: Iterable[str], stdin: BinaryIO | None = None) -> Loaded:
    """Read every manifest that ``paths`` mean; ``-`` is ``stdin``. Never raises for what is in the files."""
    loading = _Loader()
    for found in read_files(paths, stdin):
        if isinstance(found, Diagnostic):
            loading.errors.append(found)
        elif isinstance(found, IgnoredPath):
            loading.warnings.append(found.warning)
        else:
            loading.load_file(found)
    return Loaded(
        tuple(loading.manifests),
        tuple(sorted(loading.errors)),
        loading.suppressed_count,
        loading.foreign_count,
        loading.file_count,
        frozenset(loading.invalid_documents),
        tuple(sorted(loading.warnings)),
    )


class _Loader:
    """One run over all files; collects as it goes."""

    def __init__(self) -> None:
        self.manifests: list[Manifest] = []
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.suppressed_count = 0
        self.foreign_count = 0
        self.file_count = 0
        self.invalid_documents: set[tuple[str, str]] = set()
        self._parser = StrictParser()
        self._remaining_errors = MAX_ERRORS
        self._remaining_guesses = iter(range(MAX_GUESSES))
        self._is_empty = True

    def load_file(self, file: File) -> None:
        """Take in one file: fast as far as nothing is odd, then thoroughly."""
        self.file_count += 1
        self._remaining_errors = MAX_ERRORS
        self._remaining_guesses = iter(range(MAX_GUESSES))
        self._is_empty = True
        read = 0
        try:
            for body, source in self._parser.parse_documents(file):
                read += 1
                self._add_document(body, source, [])
        except NeedsDiagnosis:
            self._diagnose_file(file, read)
        if self._is_empty:
            self.warnings.append(Diagnostic(Location(file.name), "found no document", reason=Reason.UNREADABLE.value))

    def _diagnose_file(self, file: File, read: int) -> None:
        """What is wrong with a file whose first ``read`` documents are known already."""
        for document in islice(diagnose.diagnose_documents(file), read, None):
            if isinstance(document, DiagnosedDocument):
                self._add_document(document.body, document.source, document.issues)
                document.source.root = None
                self.suppressed_count += document.suppressed_count if is_topiarist_document(document.body) else 0
            else:
                self._add_error(document)

    def _add_document(self, body: Any, source: Document, notes: Sequence[LocatedIssue]) -> None:
        self._is_empty = self._is_empty and body is None
        if is_topiarist_document(body):
            if not self._remaining_errors and (notes or not check.is_valid(body)):
                # To say what is wrong would take its time, and nobody would be told.
                self.suppressed_count += len(notes) or 1
                self.invalid_documents.add(_kind_and_name(body))
                return
            for note in notes:
                self._add_error(note.diagnostic)
            problems = [problem for problem in check.check(body) if not _is_reported(problem.path, notes)]
            for problem in problems:
                self._add_schema_error(problem, source)
            if not problems and not notes:
                self.manifests.append(spec.make_manifest(body, source))
                return
            self.invalid_documents.add(_kind_and_name(body))
            for problem in check.config_value_errors(body, self._remaining_guesses):
                if not _is_reported(problem.path, notes) and problem.path not in {known.path for known in problems}:
                    self._add_schema_error(problem, source)
        elif body is not None:
            wrong = _foreign_document_error(body)
            if wrong is None:
                self.foreign_count += 1
            else:
                self._add_schema_error(wrong, source)

    def _add_schema_error(self, problem: SchemaError, source: Document) -> None:
        """Keep a problem with its place; the place of one that would only be counted is not looked for."""
        if self._remaining_errors:
            self._add_error(Diagnostic(source.locate(problem.path), problem.message, problem.hint))
        else:
            self.suppressed_count += 1

    def _add_error(self, complaint: Diagnostic) -> None:
        self._is_empty = False
        if self._remaining_errors:
            self._remaining_errors -= 1
            self.errors.append(complaint)
        else:
            self.suppressed_count += 1


def read_annotations(manifest: Manifest) -> Mapping[str, str]:
    """``metadata.annotations`` of a manifest, read again: kept for all, they would take a tenth of a run's memory."""
    source = manifest.source
    assert isinstance(source, Document)
    document = source.file.part(source.start, source.end).encode()
    try:
        metadata = _shared_parser().read_field(document, "metadata")
    except NeedsDiagnosis:
        read = diagnose.diagnose_documents(File(source.file.name, document))
        metadata = next(found.body["metadata"] for found in read if isinstance(found, DiagnosedDocument))
    found: Mapping[str, str] = metadata.get("annotations", {})
    return found


@cache
def _shared_parser() -> StrictParser:
    """One loader for all that is read again: it remembers what scalars mean."""
    return StrictParser()


def _kind_and_name(body: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of a document that may be wrong everywhere; empty text where there is none."""
    metadata = body.get("metadata")
    return str(body.get("kind", "")), str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _is_reported(path: FieldPath, issues: Sequence[LocatedIssue]) -> bool:
    """Whether what stands at ``path`` has been complained about already, or what it is in."""
    return any(path[: len(note.path)] == note.path for note in issues)


def _foreign_document_error(body: Any) -> SchemaError | None:
    """What is wrong with a document that is not ours; None if it may stand among manifests."""
    if not isinstance(body, dict):
        return SchemaError((), "found no mapping, wanted a document with apiVersion and kind")
    version = body.get("apiVersion")
    if not isinstance(version, str) or not version:
        return SchemaError(
            (), "found a document without apiVersion", f"ours begin with apiVersion: {load_.API_VERSION}"
        )
    group = version.partition("/")[0]
    if abs(len(group) - len(load_.API_GROUP)) <= 2 and SequenceMatcher(None, group, load_.API_GROUP).ratio() > 0.9:
        return SchemaError(("apiVersion",), f"apiVersion: found {quote(version)}", f"did you mean {load_.API_VERSION}?")
    items = body.get("items")
    if body.get("kind") == "List" and isinstance(items, list) and any(map(is_topiarist_document, items)):
        message = "found a List that holds documents of ours, wanted each on its own"
        return SchemaError(("items",), message, "put --- between them")
    return None
