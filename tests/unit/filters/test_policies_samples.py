"""The sample policies: each allows valid topics, denies invalid ones, and has a test."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import cluster, plan, replica_lists, spec, state, topic
from support.checkout import ROOT
from support.policy_builders import evaluate_rules, labelled_spec
from topiarist.adapters.manifests.loader import load_manifests
from topiarist.desired import parse
from topiarist.desired.shared_specs import merge
from topiarist.filters.policies import PolicyResult
from topiarist.model.plan import Issue, Plan
from topiarist.model.policy import Policy
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.schema import load as load_

SAMPLES = ROOT / "manifests" / "policies"
PROD = cluster("prod", labels={"env": "prod"}, version=(3, 9))
FROZEN = replace(PROD, labels={"env": "prod", "change-freeze": "true"})


def sample(name: str) -> Policy:
    """Return the only policy of a sample."""
    (found,) = load_manifests([str(SAMPLES / f"{name}.yaml")]).manifests
    return parse.parse_policy(found)


def written(made: TopicSpec, **annotations: str) -> TopicSpec:
    """Return the topic as read from a file, with annotations."""
    metadata = {"name": made.manifest.name, "labels": made.manifest.labels, "annotations": annotations}
    body = {"apiVersion": load_.API_VERSION, "kind": "Topic", "metadata": metadata, "spec": made.manifest.spec}
    (found,) = load_manifests(["-"], io.BytesIO(json.dumps(body).encode())).manifests
    return merge(found, made.cluster)


TEAM = {"team": "shop"}
DURABLE = {"min.insync.replicas": 2}
SIZES: dict[str, Any] = {"partitions": 6, "replicationFactor": 3}

GOOD_TOPICS = [
    ("naming", labelled_spec("shop.orders-v1", TEAM, PROD)),
    ("partitions", spec("a", PROD, partitions=48, replicationFactor=3)),
    ("production-durability", spec("a", PROD, **SIZES, config=DURABLE)),
    ("production-durability", spec("a", cluster("test"), partitions=1, replicationFactor=1)),
    ("retention", spec("a", PROD, **SIZES)),
    ("retention", spec("a", PROD, **SIZES, config={"retention.ms": 2592000000})),
    ("retention", spec("a", PROD, **SIZES, config={"retention.ms": -1, "cleanup.policy": "compact"})),
]
BAD_TOPICS = [
    ("naming", labelled_spec("shop.orders", {}, PROD), {"team-label", "team-prefix"}),
    ("naming", labelled_spec("orders", TEAM, PROD), {"team-prefix"}),
    ("naming", labelled_spec("shop.orders", TEAM, PROD, topicName="shop.Orders_v1"), {"characters"}),
    ("partitions", spec("a", PROD, partitions=49, replicationFactor=3), {"at-most"}),
    ("partitions", spec("a", PROD, partitions=2, replicationFactor=3), {"at-least"}),
    (
        "production-durability",
        spec("a", PROD, partitions=6, replicationFactor=2),
        {"replication-factor", "min-insync-replicas"},
    ),
    (
        "production-durability",
        spec("a", PROD, **SIZES, config={"min.insync.replicas": 3, "unclean.leader.election.enable": True}),
        {"min-insync-replicas", "unclean-election"},
    ),
    ("retention", spec("a", PROD, **SIZES, config={"retention.ms": 2592000001}), {"ceiling"}),
    ("retention", spec("a", PROD, **SIZES, config={"retention.ms": -1}), {"ceiling"}),
    (
        "retention",
        spec("a", PROD, **SIZES, config={"retention.ms": -1, "cleanup.policy": "compact,delete"}),
        {"ceiling"},
    ),
]


def _rules(found: PolicyResult) -> set[str]:
    messages = [diagnostic.message for diagnostic in (*found.errors, *found.warnings)]
    return {message.rpartition(", rule ")[2].rstrip(")") for message in messages if ", rule " in message}


@pytest.mark.parametrize(("name", "made"), GOOD_TOPICS)
def test_samples_allow_the_good(name: str, made: TopicSpec) -> None:
    """The samples report nothing for a valid topic."""
    assert _rules(evaluate_rules([sample(name)], written(made))) == set()


@pytest.mark.parametrize(("name", "made", "broken"), BAD_TOPICS)
def test_samples_catch_the_bad(name: str, made: TopicSpec, broken: set[str]) -> None:
    """Every sample rule about topics denies a topic that violates it."""
    assert _rules(evaluate_rules([sample(name)], written(made))) == broken


def test_a_reason_in_an_annotation_lets_a_topic_keep_longer() -> None:
    """An annotation with a reason permits longer retention, as the sample documents."""
    made = spec("a", PROD, **SIZES, config={"retention.ms": -1})
    assert _rules(evaluate_rules([sample("retention")], written(made))) == {"ceiling"}
    excused = written(made, **{"example.com/long-retention": "the law wants it"})
    assert _rules(evaluate_rules([sample("retention")], excused)) == set()


def _changes(on: ClusterSpec) -> Plan:
    """Return a plan with a creation, a deletion, a growth to a multiple and a growth to another number."""
    seen = state(
        topic("gone"), topic("even", replica_lists("12", "23", "34")), topic("odd", replica_lists("12", "23", "34"))
    )
    return plan(
        seen,
        spec("even", on, partitions=6, replicationFactor=2),
        spec("gone", on, ensure="Absent"),
        spec("new", on),
        spec("odd", on, partitions=4, replicationFactor=2),
    )


def _found(findings: tuple[Issue, ...]) -> bool:
    return any("policy" in finding.message for finding in findings)


@pytest.mark.parametrize(
    ("name", "on", "refused", "warned"),
    [
        ("no-deletion-in-production", PROD, {"gone"}, set()),
        ("no-deletion-in-production", cluster("test"), set(), set()),
        ("frozen-window", FROZEN, {"gone", "even", "odd"}, set()),
        ("frozen-window", PROD, set(), set()),
        ("partitions", PROD, set(), {"odd"}),
    ],
)
def test_samples_about_changes(name: str, on: ClusterSpec, refused: set[str], warned: set[str]) -> None:
    """The samples about changes deny exactly their changes on their clusters."""
    found = _changes(on)
    specs = [each.spec for each in found.topics if each.spec]
    after = evaluate_rules([sample(name)], *specs, validate_only=False).plan_filter(found)
    assert {each.topic for each in after.topics if _found(each.refusals)} == refused
    assert {each.topic for each in after.topics if _found(each.notices)} == warned


def test_every_sample_is_tested() -> None:
    """Each file of the folder is in one of the tables of this module."""
    tested = {name for name, *_ in (*GOOD_TOPICS, *BAD_TOPICS)} | {"no-deletion-in-production", "frozen-window"}
    assert {path.stem for path in SAMPLES.iterdir()} == tested
