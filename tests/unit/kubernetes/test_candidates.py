"""Claims on topics of a cluster: namespaces by name and label, name patterns, and the older of two claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import Any

import pytest

from support.kubernetes import resource_bodies
from topiarist.desired.merge import merge
from topiarist.errors import Reason
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.cache import Candidate, build_candidate, select_candidates
from unit.kubernetes.topic_results import spec_of

NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "shop": {"kubernetes.io/metadata.name": "shop"},
    "pay": {"kubernetes.io/metadata.name": "pay", "team": "pay", "tier": "1"},
    "web": {"kubernetes.io/metadata.name": "web", "team": "web"},
}
OLD, YOUNG = {"creationTimestamp": "2025-01-01T00:00:00Z"}, {"creationTimestamp": "2027-01-01T00:00:00Z"}
GOING = {"deletionTimestamp": "2028-01-01T00:00:00Z", "finalizers": [FINALIZER]}
STRANGE = "unknown"
"""A namespace that the informer does not know."""


def judged(home: Resource, *topics: Resource, silent: Iterable[Resource] = ()) -> list[Candidate]:
    """Return the candidates for these Topics on a Cluster in the namespace ``shop``, with the unreadable Topics."""
    spec = spec_of(home)
    single = [build_candidate(each, merge(each.manifest, spec)) for each in topics if each.manifest]
    return select_candidates(spec, "shop", single, NAMESPACES, silent)


def reasons(found: Candidate) -> list[Reason]:
    """Return the reasons of a Topic's refusals."""
    return [objection.reason for objection in found.refusals]


def may(rules: list[dict[str, Any]] | None, namespace: str, name: str = "orders") -> bool:
    """Return if a namespace may declare a topic under these rules of a Cluster (None: no rules)."""
    home = resource_bodies.cluster() if rules is None else resource_bodies.cluster(allowedTopics=rules)
    (found,) = judged(home, resource_bodies.topic(name, meta={"namespace": namespace}))
    assert reasons(found) in ([], [Reason.NOT_ALLOWED])
    return not found.refusals


def selecting(**selector: Any) -> list[dict[str, Any]]:
    """Return one rule for the namespaces that a selector matches."""
    return [{"namespaces": {"from": "Selector", "selector": selector}}]


def test_by_default_only_the_clusters_own_namespace_may() -> None:
    """By default only the Cluster's own namespace may declare topics; the refusal of another names the permitted
    namespaces.
    """
    assert may(None, "shop")
    assert not may(None, "pay")
    (found,) = judged(resource_bodies.cluster(), resource_bodies.topic("orders", meta={"namespace": "pay"}))
    (objection,) = found.refusals
    assert objection.message == "namespace pay may not declare topic orders on cluster prod"
    assert "spec.allowedTopics" in objection.hint


def test_an_empty_list_allows_nobody() -> None:
    """An empty list permits no namespace, not even the Cluster's own."""
    assert not may([], "shop")


@pytest.mark.parametrize(
    ("rules", "who"),
    [
        ([{}], {"shop"}),
        ([{"namespaces": {"from": "Same"}}], {"shop"}),
        ([{"namespaces": {"from": "All"}}], {"shop", "pay", "web", STRANGE}),
        (selecting(matchLabels={"team": "pay"}), {"pay"}),
        (selecting(matchLabels={"team": "pay", "tier": "2"}), set()),
        (selecting(matchLabels={"kubernetes.io/metadata.name": "web"}), {"web"}),
        (selecting(matchExpressions=[{"key": "team", "operator": "In", "values": ["pay", "web"]}]), {"pay", "web"}),
        (
            selecting(matchExpressions=[{"key": "team", "operator": "NotIn", "values": ["pay"]}]),
            {"shop", "web", STRANGE},
        ),
        (selecting(matchExpressions=[{"key": "tier", "operator": "Exists"}]), {"pay"}),
        (selecting(matchExpressions=[{"key": "team", "operator": "DoesNotExist"}]), {"shop", STRANGE}),
        (
            selecting(matchLabels={"team": "pay"}, matchExpressions=[{"key": "tier", "operator": "DoesNotExist"}]),
            set(),
        ),
        ([*selecting(matchLabels={"team": "pay"}), {"namespaces": {"from": "Same"}}], {"pay", "shop"}),
    ],
)
def test_namespaces_by_selector(rules: list[dict[str, Any]], who: set[str]) -> None:
    """Selectors match as in Kubernetes; an unknown namespace has no labels, and one matching rule is enough."""
    assert {name for name in (*NAMESPACES, STRANGE) if may(rules, name)} == who


def test_names_by_pattern() -> None:
    """Patterns match the topic name, not the resource name; one rule must match both namespace and name."""
    rules = [
        {"namespaces": {"from": "All"}, "names": ["pay.*", "audit"]},
        {"namespaces": {"from": "Same"}, "names": ["shop.*"]},
    ]
    for namespace, name, allowed in (
        ("pay", "pay.in", True),
        ("pay", "audit", True),
        ("pay", "audits", False),
        ("pay", "shop.in", False),
        ("shop", "shop.in", True),
        ("shop", "pay.in", True),
    ):
        assert may(rules, namespace, name) is allowed
    disguised = resource_bodies.topic("audit", topicName="shop.in", meta={"namespace": "pay"})
    (found,) = judged(resource_bodies.cluster(allowedTopics=rules), disguised)
    assert reasons(found) == [Reason.NOT_ALLOWED]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_oldest_of_several_claims_counts(order: tuple[int, ...]) -> None:
    """The oldest claim counts in any order, by creation time and then by uid."""
    topics = [
        resource_bodies.topic("a", topicName="orders", meta={"creationTimestamp": "2026-01-01T00:00:02Z", "uid": "1"}),
        resource_bodies.topic("b", topicName="orders", meta={"creationTimestamp": "2026-01-01T00:00:01Z", "uid": "3"}),
        resource_bodies.topic("c", topicName="orders", meta={"creationTimestamp": "2026-01-01T00:00:01Z", "uid": "2"}),
    ]
    found = judged(resource_bodies.cluster(), *(topics[index] for index in order))
    assert {each.resource.name: reasons(each) for each in found} == {
        "a": [Reason.RESOURCE_CONFLICT],
        "b": [Reason.RESOURCE_CONFLICT],
        "c": [],
    }
    losers = [each.refusals[0] for each in found if each.refusals]
    assert {each.message for each in losers} == {"Topic shop/c declares topic orders too, and came first"}
    assert {each.hint for each in losers} == {"delete one of the two, or give it another topicName"}


def test_names_that_kafka_cannot_tell_apart_collide() -> None:
    """Names that differ only in dots and underscores collide, as in Kafka's metrics."""
    found = judged(
        resource_bodies.cluster(), resource_bodies.topic("a.b"), resource_bodies.topic("other", topicName="a_b")
    )
    messages = [each.refusals[0].message for each in found if each.refusals]
    assert messages == ["topic a_b collides with a.b of Topic shop/a.b, which came first"]


def test_who_may_not_declare_a_topic_has_no_claim() -> None:
    """A Topic without permission has no claim, however old it is; otherwise it could block a name forever."""
    older = resource_bodies.topic("orders", meta={"namespace": "pay", "creationTimestamp": "2020-01-01T00:00:00Z"})
    found = judged(resource_bodies.cluster(), older, resource_bodies.topic("orders"))
    assert {each.resource.namespace: reasons(each) for each in found} == {"pay": [Reason.NOT_ALLOWED], "shop": []}


def test_one_that_is_being_deleted_gives_way() -> None:
    """A Topic that is being deleted loses its claim to any other Topic, and nothing is deleted."""
    older = resource_bodies.topic("older", topicName="orders", deletionPolicy="Delete", meta=GOING)
    younger = resource_bodies.topic("younger", topicName="orders")
    found = {each.resource.name: reasons(each) for each in judged(resource_bodies.cluster(), older, younger)}
    assert found == {"older": [Reason.RESOURCE_CONFLICT], "younger": []}
    (alone,) = judged(resource_bodies.cluster(), older)
    assert reasons(alone) == []


def test_what_is_wrong_with_a_spec_stands_against_it_alone() -> None:
    """An invalid spec refuses only its own Topic, with the path of the field; its claim still counts."""
    wrong = resource_bodies.topic("wrong", topicName="orders", config={"retention.ms": "soon"})
    found = judged(resource_bodies.cluster(), wrong, resource_bodies.topic("orders"), resource_bodies.topic("right"))
    by_name = {each.resource.name: reasons(each) for each in found}
    assert by_name == {"wrong": [Reason.CONFIG_INVALID], "orders": [Reason.RESOURCE_CONFLICT], "right": []}


@pytest.mark.parametrize(
    ("silent", "wins"),
    [
        (OLD, True),
        (YOUNG, False),
        ({**OLD, **GOING}, False),
        ({**OLD, "namespace": "pay"}, False),
        ({**OLD, "deletionTimestamp": "2028-01-01T00:00:00Z"}, False),
    ],
)
def test_who_cannot_be_read_keeps_its_claim(silent: dict[str, Any], wins: bool) -> None:
    """An unreadable older Topic keeps its claim, so no other Topic takes its topic.

    An unreadable Topic that is being deleted, or that may not declare the topic, has no claim.
    """
    broken = resource_bodies.topic("a", topicName="or_ders", partitions=0, meta=silent)
    topic = resource_bodies.topic("b", topicName="or.ders")
    assert broken.manifest is None
    (found,) = judged(resource_bodies.cluster(), topic, silent=[broken])
    assert reasons(found) == ([Reason.RESOURCE_CONFLICT] if wins else [])


def test_a_claim_passes_on_to_who_cannot_be_read() -> None:
    """A Topic that is being deleted does not delete a topic that an unreadable Topic also declares."""
    going = resource_bodies.topic("orders", deletionPolicy="Delete", meta=GOING)
    broken = resource_bodies.topic("again", topicName="orders", partitions=0, meta=YOUNG)
    (found,) = judged(resource_bodies.cluster(), going, silent=[broken])
    (objection,) = found.refusals
    assert objection.message == "Topic shop/again declares topic orders too, and is not being deleted"


def test_who_has_been_let_go_asks_for_nothing() -> None:
    """A Topic that is being deleted without topiarist's finalizer has no claim, readable or not."""
    gone = {**OLD, "deletionTimestamp": "2028-01-01T00:00:00Z"}
    left = resource_bodies.topic("left", topicName="orders", deletionPolicy="Delete", meta=gone)
    broken = resource_bodies.topic("broken", topicName="orders", partitions=0, meta=gone)
    going = resource_bodies.topic("orders", deletionPolicy="Delete", meta={**YOUNG, **GOING})
    (found,) = judged(resource_bodies.cluster(), left, going, silent=[broken])
    assert (found.resource.name, reasons(found)) == ("orders", [])


def test_of_two_that_are_being_deleted_the_older_counts() -> None:
    """Of two Topics that are being deleted the older has the claim, and may delete the topic."""
    first, second = (
        resource_bodies.topic(name, topicName="orders", deletionPolicy="Delete", meta=GOING) for name in "ab"
    )
    found = {
        each.resource.name: [one.message for one in each.refusals]
        for each in judged(resource_bodies.cluster(), second, first)
    }
    assert found == {"a": [], "b": ["Topic shop/a declares topic orders too, and came first"]}


def test_candidates_come_in_the_order_of_their_topics() -> None:
    """Candidates are in the order of their topics, and by age for one topic."""
    topics = [
        resource_bodies.topic("z"),
        resource_bodies.topic("b", topicName="m"),
        resource_bodies.topic("a", topicName="m"),
        resource_bodies.topic("c"),
    ]
    found = judged(resource_bodies.cluster(), *topics)
    assert [each.resource.name for each in found] == ["c", "b", "a", "z"]


def test_of_two_that_came_in_one_second_the_one_that_has_the_topic_keeps_it() -> None:
    """Of two Topics from the same second, the one that has the topic keeps the claim, whatever the uids are."""
    has = {"topiarist.dev/applied-to": "prod"}
    for uids in (("a", "b"), ("b", "a")):
        holder = resource_bodies.topic("first", topicName="orders", meta={"uid": uids[0], "annotations": has})
        rival = resource_bodies.topic("second", topicName="orders", meta={"uid": uids[1]})
        assert holder.created == rival.created
        spec = spec_of(resource_bodies.cluster())
        single = [build_candidate(each, merge(each.manifest, spec)) for each in (rival, holder) if each.manifest]
        won = [each.resource.name for each in select_candidates(spec, "shop", single, {}) if not each.refusals]
        assert won == ["first"]
