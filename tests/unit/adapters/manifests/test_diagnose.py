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
from topiarist.adapters.manifests.loader import Loaded, load_manifests
from topiarist.adapters.manifests.source import MAX_ERRORS, MAX_GUESSES, MAX_TAG_DIRECTIVES, make_event_reader
from topiarist.adapters.manifests.yaml_text import parse_plain_scalar
from topiarist.kafka import config_rules
from topiarist.schema import check, explain
from topiarist.schema import load as load_

TOPIC = "---\napiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: t%d}\nspec: {partitions: 1, %s}\n"


def text(content: str) -> Loaded:
    return load_manifests(["-"], io.BytesIO(content.encode()))


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
