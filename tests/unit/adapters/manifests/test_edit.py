"""Edits of single values: everything else of a manifest stays, to the character."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.manifests.yaml_text import edit_document
from topiarist.errors import FieldPath, TopiaristError

MANIFEST = """\
# orders of the shop
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {name: orders}  # the name
spec:
  partitions: 6   # six
  # how long
  config:
    retention.ms: 7d      # a week
    "cleanup.policy": 'delete'

# the end
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("spec", "partitions"), 12, "partitions: 6   # six", "partitions: 12   # six"),
        (("spec", "config", "retention.ms"), "30d", "retention.ms: 7d      # a", "retention.ms: 30d      # a"),
        (("spec", "config", "cleanup.policy"), "compact", "'delete'\n", "compact\n"),
        (("spec", "config", "retention.ms"), None, "    retention.ms: 7d      # a week\n", ""),
        (("spec", "config", "x"), "on", "'delete'\n", "'delete'\n    x: \"on\"\n"),
        (("spec", "replicationFactor"), 3, "'delete'\n", "'delete'\n  replicationFactor: 3\n"),
        (("metadata", "labels", "team"), "a", "{name: orders}", "{name: orders, labels: {team: a}}"),
        (
            ("spec", "overrides", 0),
            {"clusters": ["eu", "us"], "config": {"retention.ms": 5}},
            "'delete'\n",
            "'delete'\n  overrides:\n    - clusters: [eu, us]\n      config:\n        retention.ms: 5\n",
        ),
    ],
)
def test_one_value_changes_and_nothing_else(path: FieldPath, value: Any, old: str, new: str) -> None:
    """A value is replaced, added or removed in its place; comments, blanks, quotes and order stay."""
    assert MANIFEST.count(old) == 1
    assert edit_document(MANIFEST, path, value) == MANIFEST.replace(old, new)
    windows = MANIFEST.replace("\n", "\r\n")
    assert edit_document(windows, path, value) == MANIFEST.replace(old, new).replace("\n", "\r\n")


def test_a_list_gets_one_more_entry() -> None:
    """An entry follows the last one, at its column, also in a list that is not indented."""
    text = "spec:\n  overrides:\n  - clusters: [a]  # first\n    partitions: 3\nother: 1\n"
    found = edit_document(text, ("spec", "overrides", 1), {"clusters": ["b"], "partitions": 4})
    assert found == text.replace("partitions: 3\n", "partitions: 3\n  - clusters: [b]\n    partitions: 4\n")
    assert edit_document(found, ("spec", "overrides", 0, "partitions"), 5) == found.replace(
        "partitions: 3", "partitions: 5"
    )
    assert edit_document("a: [1]", ("a", 1), 2) == "a: [1, 2]"


def test_a_mapping_that_gets_empty_goes_too() -> None:
    """Without its last key, a mapping would be null, which is no manifest."""
    assert edit_document("a:\n  b:\n    c: 1\nd: 2\n", ("a", "b", "c"), None) == "d: 2\n"


@pytest.mark.parametrize(
    ("text", "path", "value", "why"),
    [
        ("a: &x 1\nb: *x\n", ("b",), 2, "an alias"),
        ("a: &x 1\nb: *x\n", ("a",), 2, "not plain text"),
        ("a: !!int 1\n", ("a",), 2, "not plain text"),
        ("a: |\n  x\nb: 1\n", ("a",), 2, "not plain text"),
        ("a:\nb: 1\n", ("a", "c"), 1, "it has no value"),
        ("a: 5\n", ("a", "c"), 1, "no mapping"),
        ("a: [1]\n", ("a",), 1, "not plain text"),
        ("a: {b: 1, c: 2}\n", ("a", "b"), None, "on one line"),
        ("a: {b: 1}\nc: 2\n", ("x",), None, "not there"),
        ("a: 1\n", ("x", "y"), None, "not there"),
        ("- 1\n", ("a",), 1, "no mapping"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", ("c", "b"), 2, "without other values"),
    ],
)
def test_what_cannot_be_edited_alone_is_left_to_a_person(text: str, path: FieldPath, value: Any, why: str) -> None:
    """Shared text, text over several lines and what is not there are errors that name the path."""
    with pytest.raises(TopiaristError, match=why) as caught:
        edit_document(text, path, value)
    assert "by hand" in caught.value.hint


names = st.text("abc.-", min_size=1, max_size=4)
scalars = st.one_of(st.integers(-5, 10**12), names, st.sampled_from(["on", "1.10", "7d", "", "#x", ": y", "~"]))
trees = st.dictionaries(names, st.one_of(scalars, st.dictionaries(names, scalars, min_size=1, max_size=3)), max_size=4)


@given(trees, names, st.none() | names, scalars, st.booleans())
def test_any_document_differs_in_that_value_alone(
    tree: dict[str, Any], first: str, second: str | None, value: Any, flow: bool
) -> None:
    """Whatever a document has, it is edited to what was asked for, or it is an error."""
    text = yaml.safe_dump({"top": 1, **tree}, default_flow_style=flow)
    path = (first,) if second is None else (first, second)
    try:
        edited = edit_document(text, path, value)
    except TopiaristError:
        return
    found, wanted = yaml.safe_load(edited), yaml.safe_load(text)
    parent = wanted if second is None else wanted.setdefault(first, {})
    parent[path[-1]] = value
    assert found == wanted
