"""Explanations of reasons, configs and fields: complete, from the documentation, and found as users write them."""

from __future__ import annotations

import pytest

from support.cli.runs import run_topiarist
from topiarist.errors import Exit, Reason
from topiarist.inspection.describe import Explanation, explain, list_words
from topiarist.output.describe import format_explanation
from topiarist.output.text.layout import TextLayout


def find(word: str) -> Explanation:
    """Return the only explanation of a word."""
    (found,) = explain(word)
    return found


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_every_reason_has_cause_and_remedy(reason: Reason) -> None:
    """The page of reasons has them, and the text has no Markdown."""
    found = find(reason.value)
    remedy = dict(found.facts)["remedy"]
    assert found.meaning
    assert remedy
    assert not any(mark in found.meaning + remedy for mark in ("`", "](", "|")), found


def test_a_reason_says_what_its_table_says() -> None:
    """A link is followed by its page, so that it can be read in a terminal."""
    found = find("stuckreassignment")
    assert found.title == "reason StuckReassignment"
    assert "(docs/deleting.md#entries-that-outlive-their-topic)" in dict(found.facts)["remedy"]
    assert dict(found.facts)["exit code"] == "1"


def test_a_config_has_units_and_the_settings_of_brokers() -> None:
    """Only a time or a size has units."""
    facts = dict(find("retention.ms").facts)
    assert facts["units"] == "ms, s, m, h, d, w"
    assert facts["broker settings"].startswith("log.retention.ms")
    assert "units" not in dict(find("min.insync.replicas").facts)
    assert dict(find("message.format.version").facts)["ignored from"] == "Kafka 4.0"


@pytest.mark.parametrize("word", ["Topic.spec.moves", "topic.spec.moves", "Topic.spec.overrides.moves"])
def test_a_field_is_found_by_its_path(word: str) -> None:
    """Without regard to case; the brackets of a list are not needed."""
    assert find(word).facts[0] == ("takes", "map")


def test_the_end_of_a_path_may_have_several_fields() -> None:
    """Each kind that has the field explains it, and a map lists the fields directly inside."""
    titles = [each.title for each in explain("moves.allow")]
    assert titles[:1] == ["field Topic.spec.moves.allow"]
    assert "field Cluster.spec.moves.allow" in titles
    assert [name for name, _ in find("Topic.spec.moves").facts] == ["takes", ".allow", ".spread"]


@pytest.mark.parametrize("word", ["", "frozn", "spec.mov", "oves.allow", "."])
def test_other_words_have_none(word: str) -> None:
    """A part of a name is no word."""
    assert explain(word) == []


def test_every_word_of_the_list_is_explained() -> None:
    """What completion offers is explained."""
    words = list_words()
    assert len(words) > len(Reason)
    assert all(map(explain, words))


def test_text_keeps_its_width() -> None:
    """Long meanings and facts are wrapped."""
    layout = TextLayout(width=60)
    shown = (format_explanation(layout, each) for word in list_words() for each in explain(word))
    below_titles = {line for text in shown for line in text.splitlines()[1:]}
    assert {line for line in below_titles if len(line) > 60 and " " in line.strip()} == set()


def test_the_command_explains_and_suggests() -> None:
    """JSON for programs, and a suggestion for a misspelled word."""
    shown = run_topiarist("explain", "Frozen", "--format", "json")
    assert shown.code == Exit.DONE
    assert '"title": "reason Frozen"' in shown.out
    unknown = run_topiarist("explain", "frozn")
    assert unknown.code == Exit.USAGE
    assert "did you mean Frozen?" in unknown.err


@pytest.mark.parametrize(
    ("words", "has_color"), [((), False), (("--color", "never"), False), (("--color", "always"), True)]
)
def test_color_is_written_to_a_pipe_on_request(words: tuple[str, ...], has_color: bool) -> None:
    """``--color always`` is for logs that show colors; without it, a pipe gets plain text."""
    shown = run_topiarist("explain", "Frozen", *words)
    assert shown.code == Exit.DONE
    assert ("\x1b[1m" in shown.out) is has_color
