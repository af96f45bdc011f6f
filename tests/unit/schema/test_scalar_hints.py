"""Hints for ambiguous scalars: no hint leads to another error, whatever the field is."""

from __future__ import annotations

import io
import re

import pytest

from topiarist.adapters.manifests.loader import load_manifests
from topiarist.schema.explain import find_schema

TOPIC = """apiVersion: topiarist.dev/v1
kind: Topic
metadata: {{name: {name}, labels: {{team: {label}}}}}
spec:
  topicName: {topic}
  partitions: {partitions}
  replicationFactor: 1
  keyed: {keyed}
  ensure: {ensure}
  clusters: [{cluster}]
  config: {{retention.ms: {time}, cleanup.policy: {policy}, preallocate: {switch}, x.y: {other}}}
"""
VALID = {
    **{"name": "orders", "label": "shop", "topic": "orders", "partitions": "1", "keyed": "true", "ensure": "Present"},
    **{"cluster": "prod", "time": "1", "policy": "delete", "switch": "true", "other": "1"},
}
AMBIGUOUS = (
    *("010", "08", "0x1F", "0o17", "0b10", "+5", "1_000", "1e3", "1.", ".5", "-0", "007", "12:30:45", "2024-01-31"),
    *("yes", "No", "on", "OFF", "y", "True", "~", "null", "", ".inf", "9223372036854775808", "=", "-0x1"),
)


def errors_of(**values: str) -> list[tuple[str, str]]:
    """Return message and hint of the errors of a topic with these values."""
    text = TOPIC.format(**(VALID | values)).encode()
    return [(error.message, error.hint) for error in load_manifests(["-"], io.BytesIO(text)).errors]


@pytest.mark.parametrize("field", VALID)
def test_a_hint_for_an_ambiguous_scalar_leads_to_no_other_error(field: str) -> None:
    """Each value that the hint of an ambiguous scalar offers is valid for the field of the scalar."""
    assert errors_of() == []
    for text in AMBIGUOUS:
        ((_, hint),) = errors_of(**{field: text if field != "cluster" else text or "~"})
        assert hint
        for part in hint.split(", or "):
            values = re.findall(r'"[^"]*"|[A-Za-z0-9.-]+', re.sub(r"^(write|quote it:) ", "", part))
            if part.startswith("quote it:") or re.fullmatch(r'write (true|false|-?[0-9.]+|"")( or [0-9]+)?.*', part):
                for value in values if " or " in part else values[:1]:
                    assert value == "or" or errors_of(**{field: value}) == [], (text, hint)


@pytest.mark.parametrize(
    ("field", "text", "hint"),
    [
        ("partitions", "010", "write 10 or 8"),
        ("partitions", "0x1F", "write 31"),
        ("partitions", "yes", "write a whole number from 1 to 2147483647"),
        ("partitions", "", "write a whole number from 1 to 2147483647, or remove the line"),
        ("keyed", "yes", "write true"),
        ("keyed", "0x1", "write true or false"),
        ("ensure", "", "write Present or Absent, or remove the line"),
        ("topic", "010", 'quote it: "010"'),
        ("time", "1_000", "write 1000"),
        ("policy", "off", "write any of compact, delete"),
        ("label", "yes", 'quote it: "yes"'),
    ],
)
def test_the_hint_for_an_ambiguous_scalar_is_that_of_its_field(field: str, text: str, hint: str) -> None:
    """A number field gets numbers, a switch gets true or false, and text gets quotes."""
    assert [found for _, found in errors_of(**{field: text})] == [hint]


def test_the_schema_of_a_path_is_found_through_references() -> None:
    """Items, references and additional properties lead to the schema of a value; an unknown field has none."""
    number = find_schema("Topic", ("spec", "overrides", 0, "partitions"))
    assert number is not None
    assert number["type"] == "integer"
    assert find_schema("Cluster", ("spec", "defaults", "config", "retention.ms")) is not None
    assert find_schema("Topic", ("spec", "colour")) is None
