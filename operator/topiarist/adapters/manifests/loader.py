"""The manifest loader: YAML files in, valid ``Manifest`` values and located errors out.

``files`` reads bytes, ``yaml_text`` parses them fast, ``diagnose`` parses a rejected file again and explains it,
``schema`` validates each document; this module combines them. ``runs.inputs`` calls ``load_manifests``. ``desired``
then validates the documents together.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn

from topiarist.adapters.manifests.files import IgnoredPath, is_project_file, read_files
from topiarist.adapters.manifests.source import MAX_ERRORS, MAX_GUESSES, Document, File
from topiarist.adapters.manifests.yaml_text import NULL_WORDS, NeedsDiagnosis, StrictParser
from topiarist.errors import Diagnostic, FieldKey, FieldPath, Location, Reason, SchemaError
from topiarist.model import spec
from topiarist.model.spec import Manifest
from topiarist.schema import check
from topiarist.schema.check import is_topiarist_document
from topiarist.schema.load import MANIFEST_KINDS, build_validator

if TYPE_CHECKING:
    from topiarist.adapters.manifests.diagnose import LocatedIssue


# A forked process that parses files while this process parses others.
#
# To parse ten thousand files takes half of a plan's time, and a second processor does half of that. ``load_manifests``
# parses by itself what the process does not return: files with a document that is not valid, since its errors need more
# than the result, and all files if the process fails in any way.

MIN_FILES = 1000
"""Fewer files are parsed in less time than a fork and the transfer of the result save."""

ParsedFile = Sequence[tuple[Any, Document]]
"""The documents of a file, each valid: content and source."""

_Transferred = Sequence[tuple[Any, int, int, int]]
"""The same, without the file: content, start, end and line."""


def start_parsing(files: Sequence[File]) -> Callable[[], Sequence[ParsedFile | None]] | None:
    """Parse files in a forked process; return a function that waits for the documents of each file.

    The function returns None for a file that must be parsed again, for all if the process failed. Returns None if a
    fork gains nothing (few files, one processor) or is not safe (other threads, another system than Linux).
    """
    if len(files) < MIN_FILES or sys.platform != "linux" or threading.active_count() > 1:
        return None
    if len(os.sched_getaffinity(0)) < 2:
        return None
    import pickle  # not above: only many files are worth a second process

    build_validator("Topic")  # once, before the fork
    reading, writing = os.pipe()
    # An interrupt between the fork and the child's own handling would make the child continue as the command.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = os.fork()
        if process == 0:
            _run_child(files, writing, mask)
    except OSError:  # a limit of processes or of memory
        os.close(reading)
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(writing)

    def collect() -> Sequence[ParsedFile | None]:
        with os.fdopen(reading, "rb") as pipe:
            raw = pipe.read()
        try:
            is_complete = os.waitpid(process, 0)[1] == 0
        except ChildProcessError:  # SIGCHLD is ignored, so that no process keeps its status
            is_complete = False
        if not is_complete:
            return [None] * len(files)
        parsed: Sequence[_Transferred | None] = pickle.loads(raw)
        return [
            None if documents is None else [(body, Document(file, *place)) for body, *place in documents]
            for file, documents in zip(files, parsed, strict=True)
        ]

    return collect


def _run_child(files: Sequence[File], writing: int, mask: Iterable[int]) -> NoReturn:
    """Write the parsed files to the pipe, and end the process without what the other one does at its end."""
    import pickle

    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        parser = StrictParser()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump([_parse_valid(parser, file) for file in files], pipe, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)


def _parse_valid(parser: StrictParser, file: File) -> _Transferred | None:
    """Return the documents of a file; None unless all are valid documents of topiarist."""
    documents = []
    try:
        for body, source in parser.parse_documents(file):
            if type(body) is not dict or not check.is_valid(body):
                return None
            documents.append((body, source.start, source.end, source.line))
    except NeedsDiagnosis:
        return None
    return documents or None


_MAX_WAITING_BYTES = 32 << 20
"""Bytes of files that are read before they are parsed."""


class InvalidDocument(NamedTuple):
    """A document with errors, or the unreadable part of a file (``kind`` is empty).

    ``name`` is NAMESPACE/NAME, or NAME; empty if it is unknown. ``topics`` are the names in Kafka that the document may
    declare, one for a Topic with a name. ``last_line`` is the last line of the document; 0 for a file as a whole.
    """

    place: Location
    last_line: int
    kind: str = ""
    name: str = ""
    topics: frozenset[str] = frozenset()
    labels: Mapping[str, str] = MappingProxyType({})
    errors: tuple[Diagnostic, ...] = ()

    def contains(self, place: Location) -> bool:
        """Return whether a location is in this document."""
        return place.file == self.place.file and self.place.line <= place.line <= self.last_line


class ForeignDocument(NamedTuple):
    """A document of another API group, which is ignored; ``kind`` and ``name`` are empty if it has none."""

    place: Location
    kind: str
    name: str
    api_version: str

    def __str__(self) -> str:
        return f"{self.place}: {' '.join(filter(None, (self.kind, self.name)))} ({self.api_version})"


class Loaded(NamedTuple):
    """The content of the given paths: manifests in the order of files, errors sorted by location.

    ``suppressed_count`` is the minimum number of errors beyond the first ``MAX_ERRORS`` of a file. ``foreign``
    has the documents of other API groups, ``file_count`` the files that were read. ``invalid_documents`` has the
    kind and name of the documents with errors, and ``invalid_parts`` has these documents, and the unreadable parts of
    files, without their errors. ``warnings`` name files and folders that look like input but hold no
    manifest, sorted by location. ``has_unread_files`` if a path or a file has no text: nothing is known of its names.
    """

    manifests: tuple[Manifest, ...]
    errors: tuple[Diagnostic, ...]
    suppressed_count: int
    foreign: tuple[ForeignDocument, ...]
    file_count: int
    invalid_documents: frozenset[tuple[str, str]]
    warnings: tuple[Diagnostic, ...] = ()
    invalid_parts: tuple[InvalidDocument, ...] = ()
    has_unread_files: bool = False


def load_manifests(paths: Iterable[str], stdin: BinaryIO | None = None, *, may_fork: bool = False) -> Loaded:
    """Load every manifest in ``paths``; ``-`` is ``stdin``.

    A project file among them is no manifest: it is passed over, also if its own path is given. With ``may_fork``, a
    forked process parses half of many files. Never raises for the content of files: errors are in the result.
    """
    loading = _Loader(may_fork)
    files: list[File] = []
    size = 0
    for found in read_files(paths, stdin):
        if isinstance(found, Diagnostic):
            loading.errors.append(found)
            loading.invalid_parts.append(InvalidDocument(found.location, found.location.line))
            loading.has_unread_files = True
        elif isinstance(found, IgnoredPath):
            loading.warnings.append(found.warning)
        elif not is_project_file(found):
            files.append(found)
            size += len(found.data)
            if size > _MAX_WAITING_BYTES:
                loading.load_files(files)
                files, size = [], 0
    loading.load_files(files)
    return Loaded(
        tuple(loading.manifests),
        tuple(sorted(loading.errors)),
        loading.suppressed_count,
        tuple(loading.foreign),
        loading.file_count,
        frozenset(loading.invalid_documents),
        tuple(sorted(loading.warnings)),
        tuple(loading.invalid_parts),
        loading.has_unread_files,
    )


class _Loader:
    """A collector of manifests, errors and warnings over all files of a run."""

    def __init__(self, may_fork: bool) -> None:
        self._may_fork = may_fork
        self.manifests: list[Manifest] = []
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.suppressed_count = 0
        self.foreign: list[ForeignDocument] = []
        self.file_count = 0
        self.invalid_documents: set[tuple[str, str]] = set()
        self.invalid_parts: list[InvalidDocument] = []
        self.has_unread_files = False
        self._parser = StrictParser()
        self._remaining_errors = MAX_ERRORS
        self._remaining_guesses = iter(range(MAX_GUESSES))
        self._is_empty = True

    def load_files(self, files: Sequence[File]) -> None:
        """Load files; of many, a second process parses the later half meanwhile."""
        middle = len(files) // 2
        collect = start_parsing(files[middle:]) if self._may_fork else None
        for file in files[:middle]:
            self.load_file(file)
        parsed = collect() if collect else [None] * (len(files) - middle)
        for file, documents in zip(files[middle:], parsed, strict=True):
            if documents is None:
                self.load_file(file)
                continue
            self.file_count += 1
            self.manifests += [spec.make_manifest(body, source) for body, source in documents]

    def load_file(self, file: File) -> None:
        """Load one file with the fast parser.

        From the first document that the fast parser rejects, the diagnosing parser continues.
        """
        self.file_count += 1
        self._remaining_errors = MAX_ERRORS
        self._remaining_guesses = iter(range(MAX_GUESSES))
        self._is_empty = True
        parsed_count = 0
        try:
            for body, source in self._parser.parse_documents(file):
                parsed_count += 1
                if type(body) is dict and check.is_valid(body):  # almost all documents
                    self._is_empty = False
                    self.manifests.append(spec.make_manifest(body, source))
                else:
                    self._add_document(body, source, [])
        except NeedsDiagnosis:
            from topiarist.adapters.manifests.diagnose import diagnose_documents

            for document in islice(diagnose_documents(file), parsed_count, None):
                if isinstance(document, Diagnostic):
                    self._add_error(document)
                    self.invalid_parts.append(part := _unreadable_part(document, file))
                    self.has_unread_files |= not part.topics and b"\0" in file.data
                    continue
                self._add_document(document.body, document.source, document.issues)
                document.source.root = None
                self.suppressed_count += document.suppressed_count if is_topiarist_document(document.body) else 0
        if self._is_empty:
            self.warnings.append(Diagnostic(Location(file.name), "found no document", reason=Reason.UNREADABLE.value))

    def _add_document(self, body: Any, source: Document, notes: Sequence[LocatedIssue]) -> None:
        self._is_empty = self._is_empty and body is None
        if is_topiarist_document(body):
            if not self._remaining_errors and (notes or not check.is_valid(body)):
                # Explaining costs time, and this file has no errors left to show: only count.
                self.suppressed_count += len(notes) or 1
                self._add_invalid_document(body, source)
                return
            for note in notes:
                self._add_error(_fit_to_field(note, body))
            problems = [problem for problem in check.check(body) if not _is_reported(problem.path, notes)]
            for problem in problems:
                self._add_schema_error(problem, source)
            if not problems and not notes:
                self.manifests.append(spec.make_manifest(body, source))
                return
            self._add_invalid_document(body, source)
            for problem in check.config_value_errors(body, self._remaining_guesses):
                if not _is_reported(problem.path, notes) and problem.path not in {known.path for known in problems}:
                    self._add_schema_error(problem, source)
        elif body is not None:
            from topiarist.schema.identity import foreign_document_error  # only for a document of another tool

            error = foreign_document_error(body)
            if error is None:
                place = Location(source.file.name, source.line + 1, 1)
                self.foreign.append(ForeignDocument(place, *_kind_and_name(body), body["apiVersion"]))
            else:
                self._add_schema_error(error, source)
                self.invalid_parts.append(InvalidDocument(*source.lines(), topics=_find_words(source)))

    def _add_invalid_document(self, body: Mapping[str, Any], source: Document) -> None:
        kind, name = _kind_and_name(body)
        self.invalid_documents.add((kind, name))
        metadata, fields = (part if isinstance(part := body.get(key), dict) else {} for key in ("metadata", "spec"))
        namespace, labels = metadata.get("namespace"), metadata.get("labels")
        topics = _find_words(source)  # also of a kind with a typing error
        if kind in MANIFEST_KINDS and (name or kind != "Topic"):
            topics = frozenset({str(fields.get("topicName", name))} if kind == "Topic" else ())
        self.invalid_parts.append(
            InvalidDocument(
                *source.lines(),
                kind,
                f"{namespace}/{name}" if namespace and name else name,
                topics,
                {key: value for key, value in labels.items() if isinstance(value, str)}
                if isinstance(labels, dict)
                else {},
            )
        )

    def _add_schema_error(self, problem: SchemaError, source: Document) -> None:
        """Add an error with its location; an error that is only counted is not located."""
        if self._remaining_errors:
            self._add_error(Diagnostic(source.locate(problem.path), problem.message, problem.hint))
        else:
            self.suppressed_count += 1

    def _add_error(self, diagnostic: Diagnostic) -> None:
        self._is_empty = False
        if self._remaining_errors:
            self._remaining_errors -= 1
            self.errors.append(diagnostic)
        else:
            self.suppressed_count += 1


def read_annotations(manifest: Manifest) -> Mapping[str, str]:
    """Read ``metadata.annotations`` of a manifest again from its source.

    They are not kept in memory: for all manifests they would be a tenth of a run's memory.
    """
    source = manifest.source
    assert isinstance(source, Document)
    document = source.file.part(source.start, source.end).encode()
    try:
        metadata = _shared_parser.read_field(document, "metadata")
    except NeedsDiagnosis:
        from topiarist.adapters.manifests.diagnose import DiagnosedDocument, diagnose_documents

        read = diagnose_documents(File(source.file.name, document))
        metadata = next(found.body["metadata"] for found in read if isinstance(found, DiagnosedDocument))
    found: Mapping[str, str] = metadata.get("annotations", {})
    return found


_shared_parser = StrictParser()
"""One parser for all repeated reads, which share its cache of scalars."""


def find_documents(
    manifests: Iterable[Manifest], places: Sequence[Location]
) -> Iterator[tuple[Manifest, InvalidDocument]]:
    """Yield the manifests that have one of the locations, each with its document, which is invalid with others."""
    files = {place.file for place in places}
    candidates: list[tuple[Manifest, InvalidDocument]] = []
    for manifest in manifests:
        source = manifest.source
        assert isinstance(source, Document)
        if source.file.name in files:
            topics = frozenset({spec.topic_name(manifest)} if manifest.kind == "Topic" else ())
            document = InvalidDocument(*source.lines(), manifest.kind, manifest.full_name, topics, manifest.labels)
            candidates.append((manifest, document))
    found = {*match_documents([document for _, document in candidates], places)} - {None}
    return (candidate for index, candidate in enumerate(candidates) if index in found)


def match_documents(documents: Sequence[InvalidDocument], places: Iterable[Location]) -> Iterator[int | None]:
    """Yield for each location the index of the document that contains it; None if none does.

    Documents do not overlap, but a file may be given twice: then it is the first of equal ones.
    """

    def first_line(index: int) -> int:
        return documents[index].place.line

    by_file: dict[str, list[int]] = {}
    for index in sorted(range(len(documents)), key=lambda index: (first_line(index), -index)):
        by_file.setdefault(documents[index].place.file, []).append(index)
    for place in places:
        indexes = by_file.get(place.file, [])
        before = bisect_right(indexes, place.line, key=first_line)
        yield indexes[before - 1] if before and documents[indexes[before - 1]].contains(place) else None


_NAME = re.compile(r"[A-Za-z0-9._-]+")

_NAME_IN_TEXT = re.compile(r"""["']?\b(?:topicName|name)["']?[ \t]*:[ \t]*["']?([A-Za-z0-9._-]+)""")


def _unreadable_part(error: Diagnostic, file: File) -> InvalidDocument:
    """Return the part of a file that cannot be read; its topics are all names that the text of the file has."""
    return InvalidDocument(error.location, error.location.line, topics=_find_names(file.data))


@lru_cache(maxsize=1)  # many parts of one file may be unreadable
def _find_names(data: bytes) -> frozenset[str]:
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    return frozenset(_NAME_IN_TEXT.findall(data.decode(encoding, errors="replace")))


def _find_words(source: Document) -> frozenset[str]:
    """Return the words of a document that may be names in Kafka, if its errors hide which one is its name."""
    return frozenset(_NAME.findall(source.file.part(source.start, source.end)))


def _kind_and_name(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return kind and name of a document that may be invalid in any part; empty text for a missing one."""
    metadata = body.get("metadata")
    return str(body.get("kind", "")), str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _fit_to_field(issue: LocatedIssue, body: Mapping[str, Any]) -> Diagnostic:
    """Return the diagnostic of an issue with a hint that its field accepts; one of no value names the field."""
    if issue.text is None:
        return issue.diagnostic
    from topiarist.schema.explain import format_path, scalar_hint

    message, path = issue.diagnostic.message, issue.path
    if issue.text in NULL_WORDS and path and not isinstance(path[-1], FieldKey):
        message = f"{format_path(path)}: {message}"
    hint = scalar_hint(body.get("kind"), path, issue.text, issue.diagnostic.hint)
    return issue.diagnostic._replace(message=message, hint=hint)


def _is_reported(path: FieldPath, issues: Sequence[LocatedIssue]) -> bool:
    """Return whether an issue at ``path`` or at one of its ancestors is reported already."""
    return any(path[: len(note.path)] == note.path for note in issues)
