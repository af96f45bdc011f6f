"""The parts of a page that are not its rows: texts, tables of texts, chunks and the policy."""

from __future__ import annotations

import pytest

from topiarist.output.html import plan


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("x" * 1000, "x" * 1000),
        ("x" * 1001, "x" * 997 + "..."),
        ("x" * 5000, "x" * 997 + "..."),
        ("x" * 999 + "\x1b", "x" * 997 + "..."),
        ("a\u202eb", "a\\u202eb"),
    ],
)
def test_a_text_has_a_thousand_characters(text: str, shown: str) -> None:
    """A longer text ends with three dots inside the limit; the limit counts what is shown."""
    assert plan.sanitize_text(text) == shown


def test_texts_are_made_printable_at_any_depth() -> None:
    """Texts in mappings and lists are made printable; keys, numbers and truth values stay."""
    value = {"a\x1b": ["\x1b", 1, {"b": "\x1b"}], "c": False, "d": None}
    assert plan.sanitize_texts(value) == {"a\x1b": ["\\x1b", 1, {"b": "\\x1b"}], "c": False, "d": None}


def test_a_repeated_text_is_an_index() -> None:
    """A text is written once; its index counts the distinct texts as they are shown."""
    table = plan.TextTable()
    assert [table.encode(text) for text in ("a", "b", "a", "\x1b", "\\x1b", "\x1b", "c", "c")] == [
        *("a", "b", 0, "\\x1b", 2, 2, "c", 3)
    ]


def test_data_ends_no_element() -> None:
    """Angle brackets, ampersands and letters beyond ASCII are escaped, without blanks between values."""
    assert plan.encode_data({"a": ["</script>&\u00e9", 1]}) == '{"a":["\\u003c/script\\u003e\\u0026\\u00e9",1]}'


@pytest.mark.parametrize(
    ("rows", "text"), [([], b"[]"), ([["a", 1]], b'[\n["a",1]\n]'), ([[1], [2], [3]], b"[\n[1],\n[2],\n[3]\n]")]
)
def test_rows_are_one_a_line(rows: list[list[object]], text: bytes) -> None:
    """Rows are a list in JSON with one row a line."""
    assert b"".join(plan.encode_rows(iter(rows))) == text


def test_a_page_has_its_data_at_the_place_of_each_name() -> None:
    """Text and chunks of bytes take the place of their names; everything else of the template stays."""
    parts = plan.PageParts("output/html/assets", "plan.html", ["plan.css"], ["shared/elements.js"])
    assert parts.script.startswith('(function () {\n"use strict";\n')
    assert parts.script.endswith("})();\n")
    whole = b"".join(plan.render_chunks(parts, {"plan": "{PLAN}", "rows": iter((b"[", b"]"))})).decode()
    data = {"plan": "{PLAN}", "rows": "[]", "style": parts.style, "script": parts.script, "policy": parts.policy}
    expected = parts.template
    for name, text in data.items():
        assert f"{{{{{name}}}}}" in expected
        expected = expected.replace(f"{{{{{name}}}}}", text)
    assert whole == expected


def test_the_policy_allows_images_in_data_and_no_form() -> None:
    """Behind the hashes the policy allows images of the page itself, and neither a base address nor a form."""
    parts = plan.PageParts("output/html/assets", "plan.html", ["page.css", "plan.css"], ["elements.js"])
    assert parts.policy.split("; ")[3:] == ["img-src data:", "base-uri 'none'", "form-action 'none'"]
    assert (
        "\n".join(
            plan.PageParts("output/html/assets", "plan.html", [name], []).style for name in ("page.css", "plan.css")
        )
        == parts.style
    )
