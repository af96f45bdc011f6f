"""The diagnosing parser: every error of a file as YAML, with its location and a hint.

``loader`` calls ``diagnose_documents`` for a file that the fast parser rejects. Reported are bytes that are not
UTF-8, everything that libyaml rejects, and everything that YAML allows but topiarist does not. ``loader`` ignores the
issues of a document of another API group. After text that is not YAML, parsing continues at the next ``---``.

``read_foreign_files`` reads documents of other tools strictly, for ``topiarist import``: each name and value is the
text that the file has. Duplicate fields are errors, as in manifests. Unlike manifests, these documents may have
anchors, merge keys, tags of YAML's core schema, and unquoted text with more than one meaning: it is never converted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple

from yaml import MarkedYAMLError, YAMLError
from yaml.events import AliasEvent, CollectionStartEvent, Event, ScalarEvent

from topiarist.adapters.manifests import yaml_text
from topiarist.adapters.manifests.files import IgnoredPath, is_project_file, read_files
from topiarist.adapters.manifests.source import (
    MAX_ERRORS,
    MAX_FOREIGN_DEPTH,
    MAX_FOREIGN_ENTRIES,
    MAX_TAG_DIRECTIVES,
    ComposedDocument,
    Composer,
    Document,
    File,
    LimitExceeded,
    Node,
)
from topiarist.errors import Diagnostic, FieldKey, FieldPath, Location, Reason
from topiarist.importers.topic import ForeignDocument
from topiarist.kafka.config_values import Scalar
from topiarist.schema.check import is_topiarist_document
from topiarist.text import (
    LOOKS_LIKE_TEMPLATE,
    RENDER_HINT,
    TEMPLATE_MARKER,
    find_lookalike,
    format_count,
    printable,
    quote,
)

# Causes of syntax errors: the line where the text goes wrong, which is often above the one where libyaml stops.
#
# ``locate_error`` asks for a cause when the structure of the text is not that of YAML.

LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""A line break as libyaml defines it."""

_MAX_CHARACTERS_ABOVE, _MAX_CHARACTERS_BELOW = 4096, 1024
_MAX_LINES = 4
_CONTENT = re.compile(r"\s*[^\s#]")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|(?:^|\s)#.*")

_CONFLICT = re.compile(r"(<{7}|={7}|>{7}|\|{7})(?: |$)")
_FIELD = re.compile(r"""[ ]*(?:- +)*(?:"[^"]*"|'[^']*'|[^\s#"'\ufeff][^#"']*?):(?:\s|$)""")
_ASSIGNMENT = re.compile(r"([ ]*)((?:- +)*)([A-Za-z][\w./-]*)(?:(:)(?=\S)|\s*(=)\s*|\s+|$)(|[\[{\"'].*|\S+)(?:\s+#.*)?")
_ITEM = re.compile("[ ]*- ")
_ITEM_WITHOUT_SPACE = re.compile("[ ]*(-)([A-Za-z\"'].*)")


class Cause(NamedTuple):
    """A place (line and column from 0) where a text goes wrong, why, and what to do."""

    line: int
    column: int
    message: str
    hint: str


def find_cause(text: str, index: int, line: int) -> Cause | None:
    """Return why the parser stopped at an index of a text, which is in ``line``; None if no cause is plain.

    Only the lines around the index are read, so that the time does not grow with the file.
    """
    start = max(index - _MAX_CHARACTERS_ABOVE, 0)
    lines = LINE_BREAK.split(text[start : index + _MAX_CHARACTERS_BELOW])
    at = len(LINE_BREAK.split(text[start:index])) - 1
    first = 1 if start else 0  # the beginning of the first line may be missing
    nearby = [number for number in range(at, first - 1, -1) if _CONTENT.match(lines[number])][:_MAX_LINES]
    cause = _find_cause([lines[number] for number in nearby])
    if cause is None:
        return None
    return cause._replace(line=line - at + nearby[cause.line])


def _find_cause(lines: Sequence[str]) -> Cause | None:
    """Return the cause in the lines around an error, the last line first; its line is an index of ``lines``."""
    for number, line in enumerate(lines):
        if found := _find_strange_text(_QUOTED.sub(lambda match: "x" * len(match[0]), line)):
            return Cause(number, *found)
    for number, line in enumerate(lines[:2]):
        if not _FIELD.match(line) and (found := _find_missing_colon(line)):
            return Cause(number, *found)
    return _compare_indentation(*lines[:2]) if len(lines) > 1 else None


def _find_strange_text(line: str) -> tuple[int, str, str] | None:
    if _CONFLICT.match(line):
        return 0, "found a conflict marker of git", "resolve the conflict, and remove the lines of the markers"
    if lookalike := find_lookalike(line):
        index, name = lookalike
        return index, f"found {name}", "write : and a space" if "colon" in name else "replace it by a plain space"
    return None


def _find_missing_colon(line: str) -> tuple[int, str, str] | None:
    if item := _ITEM_WITHOUT_SPACE.fullmatch(line.rstrip()):
        return item.start(1), 'found no space after "-"', f"write - {item[2]}"
    match = _ASSIGNMENT.fullmatch(line.rstrip())
    if match is None:
        return None
    indent, dashes, key, colon, equals, value = match.groups()
    if dashes and not value:
        return None  # an item of a list
    written = f"write {key}: {value}".rstrip()
    if colon:
        return match.start(4), f'found no space after ":" in {key}', written
    if equals:
        return match.start(5), 'found "=", wanted ":"', written
    return len(indent + dashes), f'found no ":" after {key}', written


def _compare_indentation(line: str, above: str) -> Cause | None:
    """Return the cause if a field, or an item of a list, is indented otherwise than the line above it allows."""
    width, before = (len(each) - len(each.lstrip(" ")) for each in (line, above))
    has_value = not above.split(" #")[0].rstrip().endswith((":", "|", ">"))
    is_item = bool(_ITEM.match(line) and _ITEM.match(above))
    if width == before or not (is_item or _FIELD.match(line)) or (width > before and not has_value):
        return None
    spaces, noun = format_count(width, "space"), "item" if is_item else "field"
    message = f"found {spaces} before the {noun}, and {before} in the line above it"
    hint = f"give the {noun}s of one {'list' if is_item else 'mapping'} the same indentation"
    is_nested = width > before + 1 and has_value
    return Cause(0, width, message, hint + (", or remove the value in the line above" if is_nested else ""))


_FORBIDDEN_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_TAG_DIRECTIVE = re.compile("%TAG")

_DELIMITED_CONTEXTS = ("flow sequence", "flow mapping", "quoted scalar")
"""Constructs with an end delimiter: if it is missing, the error also names the line of the start."""


class SyntaxIssue(NamedTuple):
    """A problem at a line and column (from 0) of a text.

    ``start_line`` is the line where the construct began, if it is another line.
    """

    line: int
    column: int
    message: str
    hint: str = ""
    start_line: int | None = None


_LIBYAML_MESSAGES: dict[str, tuple[str, str]] = {
    "mapping values are not allowed in this context": (
        'found ":" where YAML allows none',
        "quote the text if the colon belongs to it; otherwise check the indentation",
    ),
    "could not find expected ':'": ('found text without ":", wanted a field', "check the indentation"),
    "did not find expected key": (
        "found other text, wanted a field: KEY, colon, space",
        "check the indentation and the quotes",
    ),
    "did not find expected '-' indicator": ('found other text, wanted "- " and an item', "check the indentation"),
    "did not find expected ',' or ']'": ('found no "," or "]" after an item', "close the list with ]"),
    "did not find expected ',' or '}'": ('found no "," or "}" after a field', "close the mapping with }"),
    "found unexpected end of stream": ("found quotes that are not closed", "close them, or escape them in the text"),
    "found unexpected document indicator": (
        "found quotes that are not closed",
        "close them, or escape them in the text",
    ),
    "found unknown escape character": (
        "found an unknown escape sequence in double quotes",
        r"write \\ for a backslash, or use single quotes",
    ),
    "found invalid Unicode character escape code": (
        "found an escape sequence that is not a character",
        "write the character itself",
    ),
    "did not find expected hexdecimal number": (
        "found an escape sequence without its digits",
        r"write \\ for a backslash",
    ),
    "did not find expected alphabetic or numeric character": (
        "found & or * without a name after it",
        'quote the text if the & or * belongs to it: "*"',
    ),
    "block sequence entries are not allowed in this context": (
        'found "- " where no list can begin',
        "start the list on its own line, or write [...]",
    ),
    "did not find expected <document start>": (
        "found more text, wanted --- or the end of the file",
        "check the indentation",
    ),
    "did not find expected node content": ("found no value, wanted one", "check the brackets and commas"),
    "did not find expected comment or line break": ("found more text after | or >", "start the text on the next line"),
    "found a tab character where an indentation space is expected": (
        "found a tab as indentation",
        "indent with spaces",
    ),
    "found a tab character that violates indentation": ("found a tab as indentation", "indent with spaces"),
    "found undefined tag handle": ("found a tag", "remove it; quote the value if the ! belongs to it"),
    "found unknown directive name": ("found a % directive", "remove it"),
    "found incompatible YAML document": ("found a % directive", "remove it"),
}


_STRUCTURAL_PROBLEMS = frozenset(
    {
        *("mapping values are not allowed in this context", "could not find expected ':'"),
        *("did not find expected key", "did not find expected '-' indicator", "did not find expected <document start>"),
        *("found character that cannot start any token", "did not find expected node content"),
    }
)
"""Problems with a cause that may be in a line above."""


def _find_positions(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int, str]]:
    """Yield line and column, from 0, and text of each match.

    Each line is counted once, so the time does not grow with lines times matches.
    """
    line = start = counted = 0
    for match in pattern.finditer(text):
        for end in LINE_BREAK.finditer(text, counted, match.start()):
            line, start = line + 1, end.end()
        counted = match.start()
        yield line, counted - start, match[0]


def _describe_decode_error(error: UnicodeDecodeError) -> SyntaxIssue:
    data = error.object  # the codec has removed the byte order mark
    *lines, last = LINE_BREAK.split(data[: error.start].decode())
    message = f"found the byte 0x{data[error.start]:02x}, which is not UTF-8"
    return SyntaxIssue(len(lines), len(last), message, "save the file as UTF-8")


def forbidden_character_issues(text: str) -> Iterator[SyntaxIssue]:
    """Yield the control characters that YAML forbids; libyaml rejects a file that has one."""
    for line, column, character in _find_positions(_FORBIDDEN_CHARACTERS, text):
        yield SyntaxIssue(line, column, f"found the control character U+{ord(character):04X}", "remove it")


def ambiguous_character_issues(text: str) -> Iterator[SyntaxIssue]:
    """Yield the characters that are line breaks or are skipped in some YAML versions only.

    Such a character could end a comment at a place that no editor shows.
    """
    for line, column, character in _find_positions(yaml_text.AMBIGUOUS_CHARACTERS, text):
        message = f"found the character U+{ord(character):04X}, which YAML versions read differently"
        yield SyntaxIssue(line, column, message, "remove it")


def tag_directive_issues(text: str) -> Iterator[SyntaxIssue]:
    """Yield the first %TAG above the limit for one file; also counted in comments and values, as ``parser`` does."""
    excess = next(islice(_find_positions(_TAG_DIRECTIVE, text), MAX_TAG_DIRECTIVES, None), None)
    if excess:
        message = f"found more than {MAX_TAG_DIRECTIVES} %TAG directives in one file"
        yield SyntaxIssue(excess[0], excess[1], message, "remove them, or split the file")


def locate_error(error: YAMLError | LimitExceeded, text: str) -> tuple[SyntaxIssue, int]:
    """Return the issue of a parser error, and the index of its character.

    The parser stopped at that index, so parsing can continue after it.
    """
    if isinstance(error, LimitExceeded):
        return SyntaxIssue(error.line, error.column, error.message, "split the file"), len(text)
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return SyntaxIssue(0, 0, f"not valid YAML: {error}"), len(text)
    mark, problem = error.problem_mark, str(error.problem)
    if problem == "found character that cannot start any token":
        character = text[mark.index : mark.index + 1]
        message, hint = f"found {quote(character)}, which cannot start a value", "quote the value"
        if character == "\t":
            message, hint = "found a tab as indentation", "indent with spaces"
    else:
        message, hint = _LIBYAML_MESSAGES.get(problem, (f"not valid YAML: {problem}", ""))
    if problem in _STRUCTURAL_PROBLEMS and (cause := find_cause(text, mark.index, mark.line)):
        return SyntaxIssue(*cause), mark.index
    opened = error.context_mark if str(error.context).endswith(_DELIMITED_CONTEXTS) else None
    if opened is not None and problem.startswith("found unexpected"):
        return SyntaxIssue(opened.line, opened.column, message, hint), mark.index
    since = opened.line if opened is not None and opened.line != mark.line else None
    return SyntaxIssue(mark.line, mark.column, message, hint, since), mark.index


_STATEMENT = re.compile(r"^[^\"'#\n]*?(\{\{|\{%|<%)", re.MULTILINE)
_MARKER_IN_LINE = re.compile(rf"[^\"'#\n]*?[\"']?({TEMPLATE_MARKER.pattern})")

_SEPARATOR = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)


class LocatedIssue(NamedTuple):
    """A problem in a document, with its path and its diagnostic.

    ``text`` is the unquoted text that YAML versions read differently; None for any other problem.
    """

    path: FieldPath
    diagnostic: Diagnostic
    text: str | None = None


class DiagnosedDocument(NamedTuple):
    """A document's content as far as it could be read, its source, and its issues.

    ``suppressed_count`` counts the issues beyond the first ``MAX_ERRORS``. ``source`` still has its ``root``; a caller
    that keeps ``source`` should set ``root`` to None to free the memory.
    """

    body: Any
    source: Document
    issues: list[LocatedIssue]
    suppressed_count: int


def diagnose_documents(file: File) -> Iterator[DiagnosedDocument | Diagnostic]:
    """Yield all documents of a file, with their issues.

    Yields a ``Diagnostic`` where a document or the whole file is unreadable.
    """
    has_own_document = False
    for document in read_documents(file):
        # Ambiguous characters may be why a document is unreadable: some editors count lines differently than YAML.
        has_own_document = has_own_document or isinstance(document, Diagnostic) or is_topiarist_document(document.body)
        yield document
    if has_own_document and not _find_flaws(file):
        for flaw in islice(ambiguous_character_issues(file.data.decode("utf-8-sig")), MAX_ERRORS):
            yield _make_diagnostic(file, flaw)


def read_documents(
    file: File, composer: type[Composer] = Composer, reader: type[DocumentReader] | None = None
) -> Iterator[DiagnosedDocument | Diagnostic]:
    """Yield the documents of a file as ``reader`` reads their node trees, which ``composer`` builds.

    Yields a ``Diagnostic`` where a document or the whole file is unreadable, one for a file that is a template.
    """
    flaws = _find_flaws(file)
    for flaw in flaws:
        yield _make_diagnostic(file, flaw)
    for found in () if flaws else _compose_text(file, file.data.decode("utf-8-sig"), composer):
        yield found if isinstance(found, Diagnostic) else _read_document(file, found, reader or DocumentReader)


def _find_flaws(file: File) -> list[SyntaxIssue]:
    """Return the issues with which no part of a file can be parsed."""
    data = file.data
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[1:4:2] == b"\0\0" or data[:3:2] == b"\0\0":
        return [SyntaxIssue(0, 0, "found UTF-16, wanted UTF-8", "save the file as UTF-8")]
    if data.startswith((b"\0", b"\x1f\x8b")):
        hint = "decrypt or unpack it first, or give paths without it"
        return [SyntaxIssue(0, 0, "found an encrypted or compressed file, wanted YAML", hint)]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [_describe_decode_error(error)]
    return list(islice(chain(forbidden_character_issues(text), tag_directive_issues(text)), MAX_ERRORS))


def _make_diagnostic(file: File, issue: SyntaxIssue, line_offset: int = 0) -> Diagnostic:
    since = "" if issue.start_line is None else f" (it starts on line {line_offset + issue.start_line + 1})"
    place = Location(file.name, line_offset + issue.line + 1, issue.column + 1)
    return Diagnostic(place, issue.message + since, issue.hint, Reason.UNREADABLE.value)


def _compose_text(file: File, text: str, composer: type[Composer]) -> Iterator[ComposedDocument | Diagnostic]:
    offset = line = 0
    for _ in range(MAX_ERRORS):
        part = text[offset:]
        try:
            for root, start, end, first, _ in composer(part).compose_documents():
                yield ComposedDocument(root, offset + start, offset + end, first, line)
            return
        except (YAMLError, LimitExceeded) as error:
            flaw, index = locate_error(error, part)
        if template := _find_template(part, index, seek_statement=not offset):
            yield _make_diagnostic(file, template, line)
            return
        yield _make_diagnostic(file, flaw, line)
        following = _SEPARATOR.search(part, max(index, 1))
        if following is None:
            return
        line += sum(1 for _ in LINE_BREAK.finditer(part, 0, following.start()))
        offset += following.start()


def _find_template(text: str, index: int, *, seek_statement: bool) -> SyntaxIssue | None:
    """Return the issue of a template that is not YAML at ``index``; None if the text does not look like one.

    That is any marker of a template on the line of the error, or a statement outside of quotes and comments anywhere;
    ``seek_statement`` at the first error of a file: if there is none, there is none in the rest of the file.
    """
    found = (seek_statement and _STATEMENT.search(text)) or _MARKER_IN_LINE.match(text, text.rfind("\n", 0, index) + 1)
    if found is None:
        return None
    *lines, last = LINE_BREAK.split(text[: found.start(1)])
    return SyntaxIssue(len(lines), len(last), f"found {found[1]}: {LOOKS_LIKE_TEMPLATE}", RENDER_HINT)


def _read_document(file: File, composed: ComposedDocument, reader: type[DocumentReader]) -> DiagnosedDocument:
    line = composed.line_offset
    source = Document(file, composed.start, composed.end, line + composed.line)
    source.root = composed.root, composed.line
    if composed.root.is_scalar and composed.root.is_plain and not composed.root.text and not composed.root.issues:
        return DiagnosedDocument(None, source, [], 0)
    reading = reader(file.name, line + 1)
    return DiagnosedDocument(reading.read_document(composed.root), source, reading.issues, reading.suppressed_count)


def _describe_key_of_no_text(key: Node) -> tuple[str, str]:
    """Return message and hint for a list or a mapping as a key: ``{{ name }}`` without quotes is one."""
    if key.pairs and all(value.is_scalar and not value.text for _, value in key.pairs):
        return f"found {{{{: {LOOKS_LIKE_TEMPLATE}", RENDER_HINT
    return "found a list or a mapping as a key, wanted text", ""


class DocumentReader:
    """A reader of the node tree of one document as plain values, which collects its issues.

    This one reads manifests; ``read_foreign_files`` has the one for documents of other tools.
    """

    max_errors = MAX_ERRORS

    def __init__(self, name: str, line: int) -> None:
        self._name = name
        self._line = line
        self._scalars: yaml_text.ScalarCache[Scalar] = yaml_text.ScalarCache(yaml_text.parse_plain_scalar)
        self._keys: yaml_text.ScalarCache[str] = yaml_text.ScalarCache(yaml_text.parse_plain_key)
        self.issues: list[LocatedIssue] = []
        self.suppressed_count = 0

    def read_document(self, root: Node) -> Any:
        """Return the plain content of a document."""
        return self.read_node(root, ())

    def read_node(self, node: Node, path: FieldPath) -> Any:
        """Return the plain content of a node; the text of a scalar without one meaning."""
        for fault in node.issues:
            self.add_issue(node, path, *fault)
        if node.pairs is not None:
            return self.read_mapping(node.pairs, path)
        if node.items is not None:
            return [self.read_node(item, (*path, index)) for index, item in enumerate(node.items)]
        return self.read_scalar(node, path)

    def read_mapping(self, pairs: list[tuple[Node, Node]], path: FieldPath) -> dict[str, Any]:
        """Return the fields of a mapping; of a repeated field the first."""
        mapping: dict[str, Any] = {}
        first: dict[str, Node] = {}
        for key, child in pairs:
            name = self._read_key(key, path)
            if name is None:
                continue
            if name in first:
                hint = f"keep one of them; the first is on line {first[name].line + self._line}"
                self.add_issue(key, (*path, FieldKey(name)), f"found the field {printable(name)} twice", hint)
                # A document with topiarist's API group in either field is validated and not skipped as foreign.
                if path == () and name == "apiVersion" and is_topiarist_document({name: child.text}):
                    mapping[name] = child.text
                continue
            first[name] = key
            mapping[name] = self.read_node(child, (*path, name))
        return mapping

    def _read_key(self, key: Node, path: FieldPath) -> str | None:
        if not key.is_scalar:
            self.add_issue(key, path, *_describe_key_of_no_text(key))
            return None
        path = (*path, FieldKey(key.text))
        for fault in key.issues:
            self.add_issue(key, path, *fault)
        self.read_scalar(key, path, is_key=True)
        return key.text

    def read_scalar(self, node: Node, path: FieldPath, *, is_key: bool = False) -> Any:
        """Return the value of a scalar; its text if it has issues, or without one meaning."""
        if node.issues:
            return node.text
        if not node.is_plain:
            if found := yaml_text.CONTROL_CHARACTERS.search(node.text):
                self.add_issue(node, path, f"found the control character U+{ord(found[0]):04X} in text", "remove it")
            return node.text
        try:
            return self._keys[node.text] if is_key else self._scalars[node.text]
        except yaml_text.AmbiguousScalar as error:
            # A key is never a boolean, so the hint must not suggest one: only quotes solve this.
            hint = error.hint.removesuffix(", or write true or false") if is_key else error.hint
            self.add_issue(node, path, error.message, hint, text=node.text)
            return node.text

    def add_issue(self, node: Node, path: FieldPath, message: str, hint: str = "", *, text: str | None = None) -> None:
        """Add an issue of a node; count it only, if there are too many."""
        if len(self.issues) >= self.max_errors:
            self.suppressed_count += 1
            return
        place = Location(self._name, node.line + self._line, node.column + 1)
        self.issues.append(LocatedIssue(path, Diagnostic(place, message, hint, Reason.UNREADABLE.value), text))


_TEXT_TAGS = {"!", "tag:yaml.org,2002:str"}
_TAGS = _TEXT_TAGS | {
    f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "map", "null", "seq", "timestamp")
}


def read_foreign_files(
    paths: Iterable[str], stdin: BinaryIO | None = None
) -> Iterator[ForeignDocument | Diagnostic | IgnoredPath]:
    """Yield the documents of the files that ``paths`` name, in order, and the errors of documents that are not read.

    A folder stands for its ``*.yaml`` and ``*.yml`` files; one without any is ignored. Empty documents and project
    files are left out. A scalar is text, also as a key; a value that means nothing in every YAML version is None.
    """
    for found in read_files(paths, stdin):
        if isinstance(found, IgnoredPath | Diagnostic):
            yield found
        elif not is_project_file(found):
            yield from parse_texts(_join_surrogates(found))


_SURROGATES = re.compile(rb"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


def _join_surrogates(file: File) -> File:
    """Return a JSON file with one escape sequence for each character beyond U+FFFF; any other file unchanged.

    JSON writes two for such a character, an emoji for example, and YAML has no escape sequence for half of one.
    """

    def join(found: re.Match[bytes]) -> bytes:
        character = bytes.fromhex((found[2] + found[3]).decode()).decode("utf-16-be")
        return found[1] + f"\\U{ord(character):08X}".encode()

    is_json = file.data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    return file._replace(data=_SURROGATES.sub(join, file.data)) if is_json else file


def parse_texts(file: File) -> Iterator[ForeignDocument | Diagnostic]:
    """Yield the documents of a file, and the errors of those that are not read."""
    for found in read_documents(file, _TextComposer, _TextReader):
        if isinstance(found, Diagnostic):
            yield found
            continue
        errors = [issue.diagnostic for issue in found.issues]
        yield from [each for each in errors if each.hint == RENDER_HINT][:1] or errors
        if found.body is not None and not errors:
            yield ForeignDocument(found.body, file.name, found.source)


class _TextComposer(Composer):
    """A composer that resolves aliases and accepts the tags of YAML's core schema."""

    max_depth = MAX_FOREIGN_DEPTH
    max_entries = MAX_FOREIGN_ENTRIES
    directive_issues = ()

    def __init__(self, text: str | bytes) -> None:
        super().__init__(text)
        self._anchors: dict[str, Node] = {}

    def _compose_node(self, event: Event, depth: int) -> Node:
        if isinstance(event, AliasEvent):
            return self._anchors.get(str(event.anchor)) or Node(event)
        node = super()._compose_node(event, depth)
        if isinstance(event, ScalarEvent | CollectionStartEvent):
            if event.tag is None or event.tag in _TAGS:
                node.issues = node.issues[(event.anchor is not None) + (event.tag is not None) :]
                node.is_plain = node.is_plain and event.tag not in _TEXT_TAGS
            if event.anchor is not None:
                self._anchors[event.anchor] = node
        return node


class _TextReader(DocumentReader):
    """A reader of documents of other tools: each scalar is its text, and merge keys are resolved."""

    max_errors = MAX_FOREIGN_ENTRIES
    _count = 0

    def read_document(self, root: Node) -> Any:
        """Return the content: mappings, lists, texts, and None."""
        try:
            return self.read_node(root, ())
        except LimitExceeded as error:
            self.issues.clear()
            self.add_issue(root, (), error.message)
            return None

    def read_node(self, node: Node, path: FieldPath) -> Any:
        """Return the content of a node; raise ``LimitExceeded`` if aliases repeat too many values."""
        self._count += 1
        if self._count > MAX_FOREIGN_ENTRIES:
            raise LimitExceeded(f"found more than {MAX_FOREIGN_ENTRIES:,} values, with those of aliases", 0, 0)
        return super().read_node(node, path)

    def read_mapping(self, pairs: list[tuple[Node, Node]], path: FieldPath) -> dict[str, Any]:
        """Return the fields of a mapping, and those of the mappings that it merges."""
        mapping = super().read_mapping(pairs, path)
        if not any(key.text == "<<" and key.is_plain for key, _ in pairs):
            return mapping
        given, merged = mapping.pop("<<"), dict[str, Any]()
        for each in reversed(given if isinstance(given, list) else [given]):
            merged |= each if isinstance(each, dict) else {}
        return merged | mapping

    def read_scalar(self, node: Node, _path: FieldPath, *, is_key: bool = False) -> str | None:
        """Return the text of a scalar; None for a value that means nothing in every YAML version."""
        return None if not is_key and node.is_plain and node.text in yaml_text.NULL_WORDS else node.text
