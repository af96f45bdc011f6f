"""Policy documents: errors of invalid ones, and the content of valid ones."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import PositionedSource, spec
from topiarist.desired import parse
from topiarist.errors import FieldPath, Reason
from topiarist.model import spec as spec_
from topiarist.model.policy import RuleSubject
from topiarist.model.spec import ValueOrigin
from topiarist.schema import check

TOPIC = spec("orders")
RULE = {"name": "no-x", "expression": "topic.partitions < 3", "message": "too\n  many"}


def policy(**spec: Any) -> dict[str, Any]:
    """Return a valid policy, except for these fields of its spec."""
    metadata = {"name": "sizes", "namespace": "ns"}
    return {"apiVersion": "topiarist.dev/v1", "kind": "Policy", "metadata": metadata, "spec": {"rules": [RULE]} | spec}


WRONG: list[tuple[dict[str, Any], FieldPath, str]] = [
    (policy(rules=[]), ("spec", "rules"), "found nothing in it, wanted at least 1 item"),
    (policy(rules=[RULE] * 101), ("spec", "rules"), "found 101 items, wanted at most 100"),
    (
        policy(selector={}),
        ("spec", "selector"),
        "found neither topics nor matchLabels nor clusters nor clusterSelector",
    ),
    (policy(selector={"matchLabels": {}}), ("spec", "selector", "matchLabels"), "wanted at least 1 item"),
    (
        policy(selector={"clusterSelector": {}}),
        ("spec", "selector", "clusterSelector", "matchLabels"),
        "required field is missing",
    ),
    (
        policy(selector={"clusters": ["a"], "clusterSelector": {"matchLabels": {"a": "b"}}}),
        ("spec", "selector", "clusters"),
        "found together with clusterSelector",
    ),
    (policy(rules=[RULE | {"on": "topic"}]), ("spec", "rules", 0, "on"), "found an unknown field"),
    (policy(rules=[RULE | {"action": "deny"}]), ("spec", "rules", 0, "action"), "wanted Deny or Warn"),
    (policy(rules=[RULE | {"expression": "x" * 2001}]), ("spec", "rules", 0, "expression"), "wanted at most 2000"),
    (policy(rules=[RULE | {"field": "config."}]), ("spec", "rules", 0, "field"), "wanted name, labels.KEY"),
]


@pytest.mark.parametrize(("body", "path", "words"), WRONG)
def test_what_is_wrong_with_a_policy(body: dict[str, Any], path: FieldPath, words: str) -> None:
    """Each error has its location; a selector that selects nothing, or everything by accident, is an error."""
    (problem,) = check.check(body)
    assert problem.path == path
    assert words in problem.message


def test_a_policy_is_what_the_document_says() -> None:
    """Selector and rules are parsed, with defaults for missing fields, and messages on one line."""
    source = PositionedSource("sizes.yaml")
    selector = {"topics": ["a.*"], "matchLabels": {"team": "x"}, "clusters": ["prod"]}
    other = RULE | {"name": "other", "subject": "Change", "action": "Warn", "field": "config.retention.ms"}
    body = policy(selector=selector, rules=[RULE, other])
    assert check.check(body) == []
    found = parse.parse_policy(spec_.make_manifest(body, source))
    assert (found.name, found.namespace, found.source) == ("sizes", "ns", source)
    assert (found.topic_patterns, found.topic_labels, found.cluster_names, found.cluster_labels) == (
        ("a.*",),
        {"team": "x"},
        ("prod",),
        {},
    )
    first, second = found.rules
    assert (first.title, first.message, first.subject) == ("policy sizes, rule no-x", "too many", RuleSubject.TOPIC)
    assert (second.subject, second.deny, second.field) == (RuleSubject.CHANGE, False, ("config", "retention.ms"))
    assert first.make_issue(TOPIC)[:3] == (Reason.POLICY_DENIED, "too many (policy sizes, rule no-x)", ())
    assert second.make_issue(TOPIC).reason is Reason.POLICY_WARNING
    assert second.make_issue(TOPIC).cause_origin == ValueOrigin(source, ("spec", "rules", 1))


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("name", ()),
        ("labels", ("metadata", "labels")),
        ("labels.example.com/team", ("metadata", "labels", "example.com/team")),
        ("annotations.a", ("metadata", "annotations", "a")),
        ("partitions", ("partitions",)),
        ("config", ("config",)),
        ("config.min.insync.replicas", ("config", "min.insync.replicas")),
    ],
)
def test_a_field_is_a_path(field: str, path: tuple[str, ...]) -> None:
    """A field path is split at the first dot only, because config keys may contain dots."""
    body = policy(rules=[RULE | {"field": field}])
    assert check.check(body) == []
    assert parse.parse_policy(spec_.make_manifest(body, PositionedSource("p.yaml"))).rules[0].field == path


@pytest.mark.parametrize("field", ["partitions", "replicationFactor", "config"])
def test_the_size_of_explicit_replica_lists_stands_in_them(field: str) -> None:
    """An issue about the size of a topic with ``replicaAssignment`` points at that field."""
    (rule,) = parse.parse_policy(
        spec_.make_manifest(policy(rules=[RULE | {"field": field}]), PositionedSource("p.yaml"))
    ).rules
    listed = replace(TOPIC, assignment=((1, 2), (2, 3)))
    assert rule.make_issue(TOPIC).field == (field,)
    assert rule.make_issue(listed).field == (("config",) if field == "config" else ("replicaAssignment",))
