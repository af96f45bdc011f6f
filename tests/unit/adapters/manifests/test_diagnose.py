"""Cost of hostile manifests: the work grows with the size of a file, never with its square.

No test reads a clock. Tests count the work where it can be counted. Where a library does the work, the input is so
large that quadratic time would exceed the time limit of a test.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from topiarist.adapters.manifests import diagnose, source
from topiarist.adapters.manifests.diagnose import find_cause
from topiarist.adapters.manifests.loader import load_manifests
from topiarist.adapters.manifests.source import MAX_ERRORS, MAX_GUESSES, MAX_TAG_DIRECTIVES, make_event_reader
from topiarist.adapters.manifests.yaml_text import parse_plain_scalar
from topiarist.kafka import config_rules
from topiarist.schema import check, explain
from topiarist.schema import load as load_
from unit.adapters.manifests.test_loader import text

TOPIC = "---\napiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: t%d}\nspec: {partitions: 1, %s}\n"


def calls(work: Callable[[], object], module: str) -> int:
    """Return the number of calls to functions in files with ``module`` in their path."""
    number = 0

    def count(frame: Any, event: str, _argument: object) -> None:
        nonlocal number
        number += event == "call" and module in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.parametrize("begin", ["1", "0x1", "1.1", "-1", "0b1", "1:1"])
def test_a_scalar_of_any_length_is_judged_in_one_go(begin: str) -> None:
    """A million digits followed by a letter are text; no pattern backtracks over the digits."""
    long = begin + "1" * 1_000_000 + "x"
    assert parse_plain_scalar(long) == long


def test_tag_directives_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with too many %TAG directives is rejected before libyaml reads it in either pass.

    libyaml compares each %TAG with all others.
    """
    read = Remembering(make_event_reader)
    for module in ("yaml_text", "source"):
        monkeypatch.setattr(f"topiarist.adapters.manifests.{module}.make_event_reader", read)
    directives = [f"%TAG !t{number}! x\n" for number in range(2_000)]
    loaded = text("".join(directives))
    assert [diagnostic.location.line for diagnostic in loaded.errors] == [MAX_TAG_DIRECTIVES + 1]
    assert "found more than 100 %TAG directives" in loaded.errors[0].message
    assert read.given == []
    few = text("".join(directives[:MAX_TAG_DIRECTIVES]) + "--- {apiVersion: v1}\n")
    assert (few.errors, len(few.foreign)) == ((), 1)


class Remembering:
    """A function that records its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.given: list[tuple[Any, ...]] = []

    def __call__(self, *given: Any) -> Any:
        self.given.append(given)
        return self.function(*given)


class Counting:
    """A pattern that counts its matches."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self.matches = 0

    def finditer(self, *given: Any) -> Iterator[re.Match[str]]:
        for match in self.pattern.finditer(*given):
            self.matches += 1
            yield match


@pytest.mark.parametrize(
    ("find", "character"),
    [
        (diagnose.forbidden_character_issues, "\x01"),
        (diagnose.ambiguous_character_issues, "\ufeff"),
        (diagnose.ambiguous_character_issues, "\u2028"),
    ],
)
def test_lines_are_counted_once(
    monkeypatch: pytest.MonkeyPatch, find: Callable[[str], Iterator[diagnose.SyntaxIssue]], character: str
) -> None:
    """The lines of a file are counted once for any number of misplaced characters, and each has its line and column."""
    lines = Counting(diagnose.LINE_BREAK)
    monkeypatch.setattr(diagnose, "LINE_BREAK", lines)
    content = "\r\n" * 1000 + f"a{character}" * 50 + "\n" + character
    found = list(find(content))
    assert lines.matches <= 1100
    ends = character == "\u2028"
    assert [(flaw.line, flaw.column) for flaw in found[:2]] == [(1000, 1), (1001, 1) if ends else (1000, 3)]
    assert (found[-1].line, found[-1].column) == (1051 if ends else 1001, 0)


@pytest.mark.slow
def test_a_list_is_not_compared_item_by_item_with_itself() -> None:
    """The search for duplicate items of a list takes one pass, also in a list that cannot be sorted."""
    mixed = [item for number in range(20_000) for item in (number, f"c{number}", [number])]
    assert explain.first_duplicate_index(mixed) is None
    assert explain.first_duplicate_index([*mixed, "c7"]) == len(mixed)
    assert explain.first_duplicate_index([1, True, "1", 0, False, [0], [False]]) is None
    found = check.check(
        {"apiVersion": load_.API_VERSION, "kind": "Topic", "metadata": {"name": "t"}, "spec": {"clusters": mixed}}
    )
    assert len(found) == explain.MAX_ERRORS


def test_what_nobody_is_told_is_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents beyond the error limit of a file are counted without explanations; valid ones are still loaded."""
    explained = Remembering(explain.explain_errors)
    monkeypatch.setattr(explain, "explain_errors", explained)
    wrong = [TOPIC % (number, "x: 1") for number in range(150)]
    loaded = text("".join(wrong) + TOPIC % (200, "replicationFactor: 1") + TOPIC % (201, "config: {a: yes, b: no}"))
    assert len(explained.given) == len(loaded.errors) == MAX_ERRORS
    assert loaded.suppressed_count == 52
    assert [manifest.name for manifest in loaded.manifests] == ["t200"]
    assert {name for _, name in loaded.invalid_documents} == {f"t{number}" for number in (*range(150), 201)}


def test_guesses_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """In invalid documents the loader searches for a similar known key only for the first unknown keys."""
    asked = Remembering(config_rules.suggest_config_name)
    monkeypatch.setattr(config_rules, "suggest_config_name", asked)
    config = ", ".join(f"q{number}: 1" for number in range(150))
    loaded = text("".join(TOPIC % (number, f"x: 1, config: {{{config}}}") for number in range(3)))
    assert len(loaded.errors) == 3
    assert len(asked.given) == MAX_GUESSES


def test_a_file_is_decoded_once_for_all_its_places() -> None:
    """The locations of many documents of one file need one decoding of the file."""
    loaded = text("# ü\n" + "".join(TOPIC % (number, "replicationFactor: 1") for number in range(50)))
    source._decode_text.cache_clear()
    places = [manifest.source.locate().line for manifest in loaded.manifests]
    assert places == list(range(3, 253, 5))
    assert source._decode_text.cache_info().misses == 1


def test_a_document_is_read_no_third_time_for_its_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thorough pass records all locations, and releases them when the document has been checked."""
    again = Remembering(source.compose_document)
    monkeypatch.setattr("topiarist.adapters.manifests.source.compose_document", again)
    loaded = text("a: b: c\n# d\n" + TOPIC % (1, "x: 1") + TOPIC % (2, "y: 1") + TOPIC % (3, "replicationFactor: 1"))
    assert [diagnostic.location.line for diagnostic in loaded.errors] == [1, 7, 12]
    assert again.given == []
    (manifest,) = loaded.manifests
    assert isinstance(manifest.source, source.Document)
    assert manifest.source.root is None
    assert manifest.source.locate(("spec",)).line == 17


# Causes of syntax errors: the line where the text goes wrong is named, not the one where the parser stops.

BROKEN_TOPIC = """apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: orders
spec:
  partitions: 3
  replicationFactor: 1
  config:
    retention.ms: 5
    cleanup.policy: delete
"""
LINES = BROKEN_TOPIC.splitlines()


def first_error(line: int, replacement: str) -> tuple[int, str, str]:
    """Return line, message and hint of the first error of the topic with one line replaced."""
    text = "\n".join([*LINES[: line - 1], replacement, *LINES[line:]]) + "\n"
    error = load_manifests(["-"], io.BytesIO(text.encode())).errors[0]
    return error.location.line, error.message, error.hint


@pytest.mark.parametrize("line", range(1, len(LINES) + 1))
def test_a_missing_colon_is_named_with_its_line(line: int) -> None:
    """Without the colon of any line, or the space after it, the error is on that line with the line to write."""
    right = LINES[line - 1].strip()
    key, _, value = right.partition(":")
    spellings = [("", f'found no ":" after {key}')]
    spellings += [(":", f'found no space after ":" in {key}'), ("=", 'found "=", wanted ":"')] if value else []
    for between, message in spellings:
        found = first_error(line, LINES[line - 1].replace(": " if between else ":", between, 1))
        # The only field of a mapping is text without its colon, and no error of the syntax.
        assert found in (
            (line, message, f"write {right}"),
            (4, f'metadata: found "{key}{between or " "}orders", wanted a mapping', f"write {right}"),
        )


@pytest.mark.parametrize(
    ("line", "replacement", "message"),
    [
        (2, "  kind: Topic", "found 2 spaces before the field, and 0 in the line above it"),
        (5, " spec:", "found 1 space before the field, and 2 in the line above it"),
        (7, "   replicationFactor: 1", "found 3 spaces before the field, and 2 in the line above it"),
        (7, " replicationFactor: 1", "found 1 space before the field, and 2 in the line above it"),
        (10, "   cleanup.policy: delete", "found 3 spaces before the field, and 4 in the line above it"),
        (10, "      cleanup.policy: delete", "found 6 spaces before the field, and 4 in the line above it"),
    ],
)
def test_indentation_is_compared_with_the_line_above(line: int, replacement: str, message: str) -> None:
    """A field or an item of a list with another indentation than its neighbours is named with both."""
    assert first_error(line, replacement)[:2] == (line, message)
    message = "found 2 spaces before the item, and 4 in the line above it"
    hint = "give the items of one list the same indentation"
    assert first_error(6, "  clusters:\n    - eu\n  - us") == (8, message, hint)


@pytest.mark.parametrize(
    ("items", "line"),
    [("  -eu", 7), ("    - eu\n    -us", 8), ('  - eu\n  -"us"', 8)],
)
def test_a_dash_without_a_space_is_named(items: str, line: int) -> None:
    """An item of a list without the space after its dash is named with the line to write."""
    right = items.rpartition("-")[2]
    assert first_error(6, f"  clusters:\n{items}") == (line, 'found no space after "-"', f"write - {right}")


@pytest.mark.parametrize(
    ("line", "replacement", "message"),
    [
        (6, "\u00a0 partitions: 3", "found a non-breaking space (U+00A0)"),
        (6, "  partitions:\u00a03", "found a non-breaking space (U+00A0)"),
        (6, "\u202f partitions: 3", "found a non-breaking space (U+202F)"),
        (6, "\u3000partitions: 3", "found a character that looks like a space (U+3000)"),
        (6, "\u200b  partitions: 3", "found a character that looks like a space (U+200B)"),
        (6, "  partitions\uff1a 3", "found a character that looks like a colon (U+FF1A)"),
        (5, "{{- range .x }}", "found {{: this looks like a template"),
        (5, "{% for x in y %}", "found {%: this looks like a template"),
        (6, "<<<<<<< HEAD", "found a conflict marker of git"),
        (6, "=======", "found a conflict marker of git"),
    ],
)
def test_text_that_looks_like_yaml_is_named(line: int, replacement: str, message: str) -> None:
    """Characters that look like a space or a colon, templates and conflict markers are named with their line."""
    assert first_error(line, replacement)[:2] == (line, message)


def test_text_in_quotes_and_comments_is_no_cause() -> None:
    """A template in quotes or in a comment above an error is not named as its cause."""
    line, message, _ = first_error(6, "  topicName: '{{ x }}'  # {% y %} \u00a0\n  # {{ z }}\n   partitions: 3")
    assert (line, message) == (8, "found 3 spaces before the field, and 2 in the line above it")


def test_only_lines_around_an_error_are_read() -> None:
    """The cause far inside of a long text is found with its line, from a few thousand characters above it."""
    text = "x: 1\n" * 100_000 + "partitions 3\ny: 1\n"
    cause = find_cause(text, len(text) - 4, 100_001)
    assert cause is not None
    assert (cause.line, cause.column) == (100_000, 0)
    assert find_cause("", 0, 0) is None
