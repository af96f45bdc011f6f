"""Selections of topics, by patterns of names and by labels."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.builders import spec
from topiarist.desired.resolve import TopicSelection, parse_label_selector, select_with_groups
from topiarist.model.spec import TopicSpec


def labelled(name: str, **labels: str) -> TopicSpec:
    """Return a spec with these labels in its manifest."""
    made = spec(name)
    return replace(made, manifest=made.manifest._replace(labels=labels))


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", ["a", "b", "c"]),
        ("team=shop", ["a"]),
        ("team==shop", ["a"]),
        ("team!=shop", ["b", "c"]),
        ("team", ["a", "b"]),
        ("!team", ["c"]),
        ("team!=shop, team", ["b"]),
        ("team=shop,team=ads", []),
        ("tier=", ["b"]),
    ],
)
def test_labels_select_as_kubectl_does(selector: str, selected: list[str]) -> None:
    """All requirements must be met; another value and a missing label both differ from a value."""
    labels: dict[str, dict[str, str]] = {"a": {"team": "shop"}, "b": {"team": "ads", "tier": ""}, "c": {}}
    selection = TopicSelection(requirements=parse_label_selector(selector))
    assert [name for name in labels if selection.matches(labelled(name, **labels[name]))] == selected


def test_names_and_labels_must_both_match() -> None:
    """One of the patterns, and all requirements."""
    selection = TopicSelection(("orders.*", "clicks"), parse_label_selector("team=shop"))
    assert selection.matches(labelled("orders.eu", team="shop"))
    assert selection.matches(labelled("clicks", team="shop"))
    assert not selection.matches(labelled("orders.eu"))
    assert not selection.matches(labelled("users", team="shop"))


@pytest.mark.parametrize("text", [",", "=shop", "team=a=b", "team in (a,b)", "team=shop,", "te am", "team>1"])
def test_other_text_is_an_error(text: str) -> None:
    """The message has the found part and the forms that are wanted."""
    with pytest.raises(ValueError, match="wanted KEY=VALUE, KEY!=VALUE, KEY or !KEY, with commas between"):
        parse_label_selector(text)


def test_a_selected_topic_selects_its_co_partition_group() -> None:
    """The topics of a group grow together or not at all; topics without a group are no group."""
    specs = [
        spec("a", partitions=3, coPartitionGroup="join"),
        spec("b"),
        spec("c", partitions=3, coPartitionGroup="join"),
        spec("d"),
    ]
    for pattern, names in (("a", ["a", "c"]), ("b", ["b"]), ("x", [])):
        selection = TopicSelection((pattern,))
        assert [each.topic for each in select_with_groups(selection, specs)] == names
