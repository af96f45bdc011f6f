"""Causes of syntax errors: the line where the text goes wrong is named, not the one where the parser stops."""

from __future__ import annotations

import io

import pytest

from topiarist.adapters.manifests.diagnose import find_cause
from topiarist.adapters.manifests.loader import load_manifests

TOPIC = """apiVersion: topiarist.dev/v1
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
LINES = TOPIC.splitlines()


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
    """A field with another indentation than its neighbours is named with both."""
    assert first_error(line, replacement)[:2] == (line, message)


@pytest.mark.parametrize(
    ("line", "replacement", "message"),
    [
        (6, "\u00a0 partitions: 3", "found a non-breaking space (U+00A0)"),
        (6, "  partitions:\u00a03", "found a non-breaking space (U+00A0)"),
        (6, "\u202f partitions: 3", "found a non-breaking space (U+202F)"),
        (6, "\u3000partitions: 3", "found a character that looks like a space (U+3000)"),
        (6, "\u200b  partitions: 3", "found a character that looks like a space (U+200B)"),
        (6, "  partitions\uff1a 3", "found the character U+FF1A, which looks like a colon"),
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
