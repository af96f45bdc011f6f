"""Markdown escaping: readers see any external text, and GitHub interprets none of it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.repo.github_markdown import parse_page
from topiarist.output.markdown.sections import (
    escape_prose,
    format_code,
    format_code_block,
    format_html_code,
    format_table_cell,
)
from topiarist.text import sanitize

NASTY = (
    *("@team", "#12", "GH-12", "owner/repo#3", "owner/repo@0123abc", "0123456789abcdef0123456789abcdef01234567"),
    *("http://localhost/x", "www.example.test", "me@example.test", "mailto:me@example.test", "xmpp:a@b.c/d"),
    *("<b>", "</details>", "<!--", "-->", "<script>alert(1)</script>", "<img src=x onerror=y>", "&lt;", "&#64;team"),
    *("*a*", "_a_", "__a__", "~~a~~", "~a~", "`", "``", "```", "````diff", "a`b``c", "|", "a|b", "\\|", "\\", "\\`"),
    *("[a](b)", "![a](b)", "[a]: b", "[^1]", "[ ] a", "# a", "> a", "- a", "+ a", "1. a", "1) a", "---", "===", "***"),
    *(":smile:", "$x$", "$`x`$", "a  b", " a", "a ", "\ta", "a\nb", "a\n\n# b", "\x1b[31m", "\u202e", "\u2028", "\xa0"),
)

outside = st.text(max_size=40) | st.lists(st.sampled_from(NASTY), min_size=1, max_size=4).map(" ".join)
outside |= st.lists(st.sampled_from(NASTY), min_size=1, max_size=4).map("".join)


def squeezed(text: str) -> str:
    return " ".join(text.split())


@given(outside)
def test_a_code_span_holds_any_text_and_nothing_else(text: str) -> None:
    """External text in a sentence is one code span, unchanged except for unprintable characters."""
    found = parse_page(f"before {format_code(text)} after")
    assert found.errors == []
    assert dict(found.tags) == {"p": 1, "code": 1}
    assert found.code == [sanitize(text) or '""']
    assert squeezed(found.text) == "before after"


@given(outside)
def test_a_cell_holds_any_text_in_a_table_that_stays_as_it_is(text: str) -> None:
    """The table keeps its columns and rows; a bar in a name adds no cell."""
    found = parse_page(f"| a | b |\n| --- | --- |\n| {format_table_cell(text)} | 1 |\n| x | 2 |")
    assert found.errors == []
    assert (found.tags["table"], found.tags["tr"], found.tags["td"]) == (1, 3, 4)
    assert set(found.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert found.references == []
    shown = "".join(found.code) + found.text
    assert sorted(shown.replace(" ", "").replace("\n", "")) == sorted(
        "abx12" + (sanitize(text) or '""').replace(" ", "")
    )


@given(outside)
def test_a_sentence_holds_any_text_as_words_and_code(text: str) -> None:
    """Text other than plain words becomes code; the sentence is readable, and is never a list, a heading or a link."""
    found = parse_page(escape_prose(text))
    assert found.errors == []
    assert set(found.tags) <= {"p", "code"}
    assert found.references == []
    words = parse_page(f"- {escape_prose(text)}")
    assert set(words.tags) <= {"ul", "li", "code", "p"}
    assert words.tags["li"] == 1


@given(outside)
def test_html_holds_any_text_as_code(text: str) -> None:
    """Names in the HTML summary of a folded section are code."""
    found = parse_page(f"<details>\n<summary>{format_html_code(text)}</summary>\n\nbody\n\n</details>")
    assert found.errors == []
    assert dict(found.tags) == {"details": 1, "summary": 1, "code": 1, "p": 1}
    assert found.code == [sanitize(text) or '""']


@given(st.lists(outside.map(sanitize), max_size=4))
@example(["```", "~~~"])
def test_a_fence_is_closed_by_its_own_end_only(lines: list[str]) -> None:
    """No text in a fenced block can close the block."""
    found = parse_page(f"{format_code_block(lines, 'diff')}\n\nafter")
    assert dict(found.tags) == {"pre": 1, "code": 1, "p": 1}
    assert found.code == ["".join(f"{line}\n" for line in lines) or "\n"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("48 -> 12 partitions, Kafka cannot remove any", "48 -&gt; 12 partitions, Kafka cannot remove any"),
        ("set partitions: 48, or (better) wait.", "set partitions: 48, or (better) wait."),
        ("the brokers' default; 1,000 topics' worth", "the brokers' default; 1,000 topics' worth"),
        ("min.insync.replicas is above 3", "`min.insync.replicas` is above 3"),
        ('found "a b", wanted 1', 'found `"a b"`, wanted 1'),
        ("if it is meant: --adopt=orders, or (x=1)", "if it is meant: `--adopt=orders`, or (`x=1`)"),
        ("1. 2) defaced deadbeef", "1\\. 2\\) `defaced` `deadbeef`"),
        ("ask @team about #12", "ask `@team` about `#12`"),
        ("", ""),
    ],
)
def test_plain_words_stay_plain(text: str, wanted: str) -> None:
    """Sentences of topiarist stay plain text; keys, values, flags and possible references are code."""
    assert escape_prose(text) == wanted


def test_long_text_is_cut() -> None:
    """A name is cut after 250 characters, a sentence after 1,000."""
    assert len(format_code("x" * 10_000)) == 252
    assert format_code("x" * 10_000).endswith("...`")
    assert len(escape_prose("word " * 1_000)) == 1_000


def test_the_tests_would_see_a_reference() -> None:
    """The reference check of these tests detects references in unescaped text."""
    for text in (
        "ask @team",
        "see #12",
        "see GH-12",
        "in 0123abcd",
        "at http://localhost",
        "at www.x",
        "to a@b.cd",
        ":smile:",
    ):
        assert parse_page(text).references or parse_page(text).tags["a"], text
