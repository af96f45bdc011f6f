"""The store of API server resources: the clusters that each event marks, and no repeated parsing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from support import builders
from support.kubernetes import resource_bodies
from support.kubernetes.passes import LONG, OWNER, SHORT, make_request, owned_topic, spec_of, with_approval
from support.kubernetes.schemas import validate_status
from support.memory_cluster import MemoryCluster
from topiarist.desired import parse
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason
from topiarist.kubernetes import cache, client
from topiarist.kubernetes.cache import UNASSIGNED, Candidate, Store, build_candidate, find_holders, select_candidates
from topiarist.kubernetes.identity import known_records_id
from topiarist.kubernetes.reconciler import reconcile_cluster
from topiarist.kubernetes.resources import FINALIZER, NOT_JUDGED, Resource, parse_resource
from topiarist.model.state import ClusterState, OperatorMemory, OwnershipRecord, TopicState
from topiarist.schema import load

# Claims on topics of a cluster: namespaces by name and label, name patterns, and the older of two claims.

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


def test_a_refusal_names_the_field_with_the_permitted_namespaces() -> None:
    """By default only the Cluster's own namespace may declare topics."""
    (found,) = judged(resource_bodies.cluster(), resource_bodies.topic("orders", meta={"namespace": "pay"}))
    (objection,) = found.refusals
    assert objection.message == "namespace pay may not declare topic orders on cluster prod"
    assert "spec.allowedTopics" in objection.hint


@pytest.mark.parametrize(
    ("rules", "who"),
    [
        (None, {"shop"}),
        ([], set()),
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
        (selecting(matchLabels={"team": "pay"}, matchExpressions=[{"key": "tier", "operator": "DoesNotExist"}]), set()),
        ([*selecting(matchLabels={"team": "pay"}), {"namespaces": {"from": "Same"}}], {"pay", "shop"}),
    ],
)
def test_namespaces_by_selector(rules: list[dict[str, Any]] | None, who: set[str]) -> None:
    """Selectors match as in Kubernetes; an unknown namespace has no labels, and one matching rule is enough.

    An empty list permits no namespace, not even the Cluster's own.
    """
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


@pytest.mark.parametrize("uids", [("a", "b"), ("b", "a")])
def test_of_two_that_came_in_one_second_the_one_of_the_pass_before_keeps_it(uids: tuple[str, str]) -> None:
    """A Topic that was served alone is served on, also while it cannot be read, whatever the uids are."""
    spec = spec_of(resource_bodies.cluster())
    holder = resource_bodies.topic("first", topicName="orders", meta={"uid": uids[0]})
    rival = resource_bodies.topic("second", topicName="orders", meta={"uid": uids[1]})
    first, second = (build_candidate(each, merge(each.manifest, spec)) for each in (holder, rival) if each.manifest)

    def winners(candidates: list[Candidate], holders: set[str], *unreadable: Resource) -> tuple[list[str], set[str]]:
        found = select_candidates(spec, "shop", candidates, {}, unreadable, holders)
        return [each.resource.name for each in found if not each.refusals], find_holders(found, unreadable, holders)

    assert winners([first], set()) == (["first"], {uids[0]})
    assert winners([second, first], {uids[0]}) == (["first"], {uids[0]})
    assert winners([second], {uids[0]}, holder) == ([], {uids[0]})
    assert winners([second], {uids[0]}) == (["second"], {uids[1]})


def test_who_may_not_declare_a_topic_does_not_hold_it() -> None:
    """Or its claim would be that of the pass before when its namespace is allowed."""
    spec = spec_of(resource_bodies.cluster())
    topic = resource_bodies.topic("orders", meta={"namespace": "other"})
    assert topic.manifest is not None
    found = select_candidates(spec, "shop", [build_candidate(topic, merge(topic.manifest, spec))], {})
    assert [issue.reason for each in found for issue in each.refusals] == [Reason.NOT_ALLOWED]
    assert find_holders(found, (), ()) == set()


class Kept(Store):
    """A store that records the clusters marked since the last call of ``marked``."""

    def __init__(self, *found: Resource) -> None:
        self._marks: list[str] = []
        super().__init__("shop", lambda name, _source: self._marks.append(name))
        for each in found:
            self.upsert(each)
        self.marked()

    def marked(self) -> list[str]:
        """Return the marked clusters, and clear the list."""
        found, self._marks[:] = [*self._marks], []
        return found

    def seen(self, of: Resource, **changes: Any) -> list[str]:
        """Add a later version of the resource, and return the marked clusters."""
        self.upsert(resource_bodies.updated_body(of, **changes))
        return self.marked()


A, B = (
    resource_bodies.cluster("a", meta={"labels": {"env": "prod"}}),
    resource_bodies.cluster("b", meta={"labels": {"env": "test"}}),
)


def named(name: str = "orders", *clusters: str, **spec: Any) -> Resource:
    """Return a Topic that names its clusters."""
    return resource_bodies.topic(name, clusters=list(clusters or ("a",)), **spec)


@pytest.mark.parametrize(
    ("spec", "marks"),
    [
        ({"clusters": ["a"]}, ["a"]),
        ({"clusters": ["b", "a"]}, ["a", "b"]),
        ({"clusterSelector": {"matchLabels": {"env": "test"}}}, ["b"]),
        ({"clusters": ["nowhere"]}, [UNASSIGNED]),
        ({"clusters": ["nowhere", "b"]}, ["b"]),
        ({}, [UNASSIGNED]),
    ],
)
def test_a_topic_marks_the_clusters_that_it_is_meant_for(spec: Mapping[str, Any], marks: list[str]) -> None:
    """A new or deleted Topic marks its clusters; without a cluster it marks the unassigned resources."""
    kept, topic = Kept(A, B), resource_bodies.topic("orders", **spec)
    kept.upsert(topic)
    assert kept.marked() == marks
    kept.remove(topic)
    assert kept.marked() == marks


def test_the_only_cluster_is_meant_by_whoever_names_none() -> None:
    """A Topic that names no cluster marks the only cluster. With a second Cluster the Topic has no target, and both
    clusters are marked.
    """
    topic = resource_bodies.topic("orders")
    kept = Kept(A)
    kept.upsert(topic)
    assert kept.marked() == ["a"]
    assert [each.spec.topic for each in kept.candidates("a")] == ["orders"]
    kept.upsert(B)
    assert kept.marked() == [UNASSIGNED, "a", "b"]
    assert [*kept.candidates("a")] == []
    assert [each.name for each in kept.untargeted_topics()] == ["orders"]
    kept.remove(B)
    assert kept.marked() == [UNASSIGNED, "a", "b"]
    assert [*kept.untargeted_topics()] == []


APPLIED = {"annotations": {"topiarist.dev/applied-to": "a"}}


def test_a_topic_stays_where_it_was_applied() -> None:
    """An applied Topic keeps its cluster if a second Cluster appears or the first disappears; only a new Topic has no
    target.
    """
    old, new = resource_bodies.topic("old", meta=APPLIED), resource_bodies.topic("new")
    kept = Kept(A, old)
    assert [kept.target_clusters(old), kept.has_ambiguous_target(old)] == [["a"], False]
    kept.upsert(B)
    kept.upsert(new)
    assert [kept.target_clusters(old), kept.has_ambiguous_target(old)] == [["a"], False]
    assert [kept.target_clusters(new), kept.has_ambiguous_target(new)] == [[], True]
    assert [each.spec.topic for each in kept.candidates("a")] == ["old"]
    assert [*kept.candidates("b")] == []
    kept.remove(A)
    assert [kept.target_clusters(old), kept.target_clusters(new)] == [[], ["b"]]
    assert [*kept.untargeted_topics()] == [old]
    kept.upsert(resource_bodies.cluster("a"))
    assert [kept.target_clusters(old), kept.target_clusters(new)] == [["a"], []]


def test_where_a_topic_was_applied_counts_only_if_it_selects_no_cluster() -> None:
    """The clusters in the spec of a Topic take precedence over the cluster where it was applied."""
    kept, named_b = Kept(A, B), resource_bodies.topic("orders", clusters=["b"], meta=APPLIED)
    assert [kept.target_clusters(named_b), kept.has_ambiguous_target(named_b)] == [["b"], False]
    nowhere = resource_bodies.topic("orders", clusters=["nowhere"])
    assert [kept.target_clusters(nowhere), kept.has_ambiguous_target(nowhere)] == [[], False]


def test_a_topic_that_moves_marks_both_sides() -> None:
    """A Topic that moves marks both its previous and its new cluster."""
    first = named("orders", "a")
    kept = Kept(A, B, first)
    kept.upsert(named("orders", "b", meta={"uid": first.uid, "generation": 2}))
    assert kept.marked() == ["a", "b"]


@pytest.mark.parametrize(
    "changes",
    [
        {"status": {"observedGeneration": 1}},
        {"managedFields": [{"manager": "other"}]},
        {"resourceVersion": "999999"},
        {"labels": {"a": "b"}},
        {"annotations": {"ci.example.com/run": "4711", "kubectl.kubernetes.io/restartedAt": "now"}},
        {"finalizers": [FINALIZER]},
        {"finalizers": ["another"]},
    ],
)
def test_what_changes_nothing_marks_nobody(changes: dict[str, Any]) -> None:
    """An event without a relevant change marks no cluster; otherwise each status write of the operator would start the
    next pass, and so would each change of an annotation or label that topiarist does not read.
    """
    topic = named()
    kept = Kept(A, topic)
    assert kept.seen(topic, **changes) == []
    assert kept.topics[topic.key].resource_version > topic.resource_version


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": 2},
        {"annotations": {"topiarist.dev/paused": "true"}},
        {"annotations": {"topiarist.io/paused": "true"}},
        {"annotations": {}},
        {"finalizers": []},
        {"deletionTimestamp": "2026-02-01T00:00:00Z"},
        {"uid": "another"},
    ],
)
def test_what_a_pass_asks_for_marks(changes: dict[str, Any]) -> None:
    """A change of spec, own annotations, own finalizer or deletion marks the cluster, as does a recreated resource."""
    topic = named(meta={"finalizers": [FINALIZER], "annotations": {"topiarist.dev/retain": "false"}})
    assert Kept(A, topic).seen(topic, **changes) == ["a"]


@pytest.mark.parametrize(
    ("expression", "changes", "marks"),
    [
        ("true", {"labels": {"a": "b"}}, ["a"]),
        ("true", {"annotations": {"team": "b"}}, []),
        ("has(topic.annotations.team)", {"annotations": {"team": "b"}}, ["a"]),
    ],
)
def test_what_policies_read_marks(expression: str, changes: dict[str, Any], marks: list[str]) -> None:
    """With a Policy, a change of labels marks the cluster, and with a rule about annotations each of theirs does."""
    topic, policy = named(), resource_bodies.policy("law", {"expression": expression})
    assert Kept(A, topic, policy).seen(topic, **changes) == marks


def test_labels_of_a_cluster_mark_it() -> None:
    """Topics select Clusters by label; annotations of other software mark nothing."""
    reads = resource_bodies.policy("law", {"expression": "has(topic.annotations.team)"})
    kept = Kept(A, B, reads)  # the Policy reads annotations of Topics alone
    assert kept.seen(A, annotations={"argocd.argoproj.io/tracking-id": "x"}) == []
    assert kept.seen(A, labels={"env": "test"}) == [UNASSIGNED, "a"]


def test_a_cluster_marks_itself_and_the_rest() -> None:
    """A Cluster marks itself and the unassigned resources, and no other cluster."""
    kept = Kept(A, B)
    assert kept.seen(A, generation=2) == [UNASSIGNED, "a"]
    assert kept.seen(A, annotations={"topiarist.dev/paused": "true"}) == [UNASSIGNED, "a"]


def test_a_policy_marks_every_cluster() -> None:
    """A Policy that is created, changed or deleted marks every cluster."""
    kept, policy = Kept(A, B), resource_bodies.policy("law", {"expression": "true"})
    kept.upsert(policy)
    assert kept.marked() == [UNASSIGNED, "a", "b"]
    assert kept.seen(policy, generation=2) == [UNASSIGNED, "a", "b"]
    assert kept.seen(policy, status={"observedGeneration": 2}, generation=2) == []
    assert kept.seen(policy, labels={"team": "platform"}, generation=2) == []  # no rule reads those of a Policy
    kept.remove(kept.policies[policy.name])
    assert kept.marked() == [UNASSIGNED, "a", "b"]
    assert kept.parsed_policies() == []


def test_clusters_and_policies_of_other_namespaces_are_nobodys() -> None:
    """The store ignores Clusters and Policies of other namespaces, so that the right to create a Topic does not suffice
    to add a Cluster.
    """
    for made in (
        resource_bodies.cluster("x", meta={"namespace": "other"}),
        resource_bodies.policy("x", meta={"namespace": "other"}),
    ):
        kept = Kept(A)
        kept.upsert(made)
        assert [*kept.clusters] == ["a"]
        assert kept.policies == {}
        kept.remove(resource_bodies.cluster("a", meta={"namespace": "other"}))
        assert [*kept.clusters] == ["a"]
        assert kept.marked() == []


def test_a_namespace_marks_the_clusters_of_its_topics() -> None:
    """A namespace marks the clusters of its Topics only if its labels change or it is being deleted or was deleted."""
    kept = Kept(A, B, named())
    for labels, leaving, marks in (
        ({"team": "x"}, False, ["a"]),
        ({"team": "x"}, False, []),
        ({"team": "y"}, False, ["a"]),
        ({"team": "y"}, True, ["a"]),
        ({"team": "y"}, True, []),
        (None, False, ["a"]),
    ):
        kept.update_namespace("shop", labels, leaving=leaving)
        assert kept.marked() == marks
    kept.update_namespace("empty", {"team": "x"})
    assert kept.marked() == []
    assert kept.namespaces == {"empty": {"team": "x"}}
    assert kept.terminating_namespaces == set()


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the merged topics and the parsed Clusters and Policies, in order."""
    found: list[str] = []

    def counting(name: str, plain: Any) -> Any:
        def counted(manifest: Any, *more: Any) -> Any:
            found.append(f"{name} {manifest.name}")
            return plain(manifest, *more)

        return counted

    monkeypatch.setattr(cache, "merge", counting("merge", merge))
    monkeypatch.setattr(parse, "parse_cluster_spec", counting("cluster", parse.parse_cluster_spec))
    monkeypatch.setattr(parse, "parse_policy", counting("policy", parse.parse_policy))
    return found


def looked(kept: Store, name: str = "a") -> list[Resource]:
    """Return the Topics of a pass."""
    return [each.resource for each in kept.candidates(name)]


def test_nothing_is_merged_again_that_has_not_changed(merges: list[str]) -> None:
    """New statuses, finalizers and annotations cause no new merge; a pass has the newest resource and the existing
    specs.
    """
    one, two = named("one"), named("two")
    kept = Kept(A, one, two)
    assert merges == ["cluster a"]
    for _ in range(3):
        assert looked(kept) == [one, two]
    assert merges == ["cluster a", "merge one", "merge two"]
    merges.clear()
    newer = resource_bodies.updated_body(one, status={"observedGeneration": 1}, finalizers=[FINALIZER])
    kept.upsert(newer)
    kept.upsert(resource_bodies.updated_body(A, status={"brokers": 6}))
    assert looked(kept) == [newer, two]
    assert looked(kept)[0] is newer
    assert merges == []


def test_what_has_changed_is_merged_and_nothing_else(merges: list[str]) -> None:
    """A changed Topic is merged alone; a changed Cluster causes a merge of all its Topics."""
    one, two = named("one"), named("two")
    kept = Kept(A, B, one, two)
    looked(kept)
    merges.clear()
    kept.upsert(named("one", partitions=9, meta={"uid": one.uid, "generation": 2}))
    looked(kept)
    assert merges == ["merge one"]
    kept.upsert(resource_bodies.updated_body(A, generation=2))
    looked(kept)
    assert merges == ["merge one", "cluster a", "merge one", "merge two"]
    looked(kept)
    assert len(merges) == 4


def test_nothing_is_kept_of_a_cluster_that_is_gone(merges: list[str]) -> None:
    """The merged specs of its Topics are removed, and those of other clusters stay."""
    specs, topic = [spec_of(A), spec_of(B)], named("one")
    kept = cache.SpecCache()
    for each in (*specs, *specs):
        kept.candidates(each, [topic])
    assert merges.count("merge one") == 2
    kept.remove_cluster("a")
    for each in specs:
        kept.candidates(each, [topic])
    assert merges.count("merge one") == 3
    store = Kept(A, topic)
    looked(store)
    spec = store.cluster_spec("a")
    assert spec is not None
    store.remove(A)
    store._spec_cache.candidates(spec, [topic])
    assert merges.count("merge one") == 5  # the deletion of the Cluster has removed them


def test_policies_are_read_once(merges: list[str]) -> None:
    """Each Policy is parsed once and remains the same object, which identifies its compiled rules."""
    law = resource_bodies.policy("law", {"expression": "true"})
    kept = Kept(A, law)
    first = kept.parsed_policies()
    kept.upsert(resource_bodies.updated_body(law, status={"observedGeneration": 1}))
    assert kept.parsed_policies()[0] is first[0]
    assert merges == ["cluster a", "policy law"]
    kept.upsert(resource_bodies.updated_body(law, generation=2))
    assert kept.parsed_policies()[0] is not first[0]


def test_a_topic_that_cannot_be_read_has_no_home() -> None:
    """An unreadable Topic has no target, so its status is still written; its claim on its known clusters remains."""
    kept = Kept(A, B)
    for name, cluster, marks in (("named", "b", [UNASSIGNED, "b"]), ("lost", "nowhere", [UNASSIGNED])):
        kept.upsert(resource_bodies.topic(name, partitions=0, clusters=[cluster]))
        assert kept.marked() == marks
    assert looked(kept, "a") == looked(kept, "b") == []
    assert {cluster: [each.name for each in kept.unreadable_topics(cluster)] for cluster in "ab"} == {
        "a": [],
        "b": ["named"],
    }
    assert [each.name for each in kept.untargeted_topics()] == ["named", "lost"]
    kept.upsert(named("fine", "b"))
    assert [each.name for each in kept.unreadable_topics("b")] == ["named"]


def unreadable(of: Resource) -> Resource:
    """Return the same Cluster with an unreadable spec."""
    wrong = resource_bodies.body("Cluster", of.name, {"kafkaVersion": "never"}, uid=of.uid, generation=2)
    return parse_resource(wrong, of)


def test_a_cluster_that_cannot_be_read_any_more_is_still_meant() -> None:
    """A Cluster that becomes unreadable keeps its Topics by its last valid spec, so none loses its finalizer."""
    topic = resource_bodies.topic("orders")
    kept = Kept(A, topic)
    kept.upsert(unreadable(A))
    assert kept.marked() == [UNASSIGNED, "a"]
    assert kept.cluster_spec("a") is None
    assert kept.unreadable_clusters == ["a"]
    assert kept.target_clusters(topic) == ["a"]
    kept.upsert(resource_bodies.updated_body(A, generation=3))
    assert kept.unreadable_clusters == []
    assert kept.cluster_spec("a") is not None


def test_a_cluster_that_could_never_be_read() -> None:
    """The Topics of a Cluster that was never readable are unknown."""
    kept = Kept(unreadable(A), named())
    assert (kept.cluster_spec("a"), kept.unreadable_clusters) == (None, ["a"])
    assert [*kept.topic_keys("a")] == [*kept.topic_keys("nowhere")] == []


def test_a_policy_that_cannot_be_read_any_more_has_no_rules() -> None:
    """An unreadable Policy has no rules, and the store lists it as unreadable, which withholds every change."""
    law = resource_bodies.policy("law", {"expression": "true"})
    kept = Kept(A, law)
    kept.upsert(parse_resource(resource_bodies.body("Policy", "law", {"rules": []}, uid=law.uid, generation=2), law))
    assert kept.parsed_policies() == []
    assert kept.policies["law"].manifest is None


def test_a_cluster_that_is_gone_takes_nothing_along() -> None:
    """The Topics of a deleted Cluster remain without a target; a recreated Cluster is parsed anew."""
    topic = named()
    kept = Kept(A, topic)
    looked(kept)
    kept.verdicts["a"] = {topic.key: NOT_JUDGED}
    kept.remove(A)
    assert kept.marked() == [UNASSIGNED, "a"]
    assert kept.verdicts == {}
    assert kept.target_clusters(topic) == []
    assert [*kept.untargeted_topics()] == [topic]
    kept.upsert(resource_bodies.cluster("a"))
    assert [each.resource for each in kept.candidates("a")] == [topic]


class Blue(Kept):
    """A store of a release with an owner, and a class if one is given."""

    def __init__(self, *found: Resource, operator_class: str = "") -> None:
        self._marks = []
        Store.__init__(self, "shop", lambda name, _source: self._marks.append(name), operator_class)
        self.owner = "k8s/1/shop/blue"
        for each in found:
            self.upsert(each)
        self.marked()


GREEN = "k8s/1/shop/green"


@pytest.mark.parametrize(("ours", "theirs"), [("", "blue"), ("blue", ""), ("blue", "green")])
def test_only_what_has_our_class_is_there(ours: str, theirs: str) -> None:
    """The store has only resources of its class, including unreadable ones; a resource that changes class is
    removed.
    """
    fields: list[dict[str, Any]] = [{"class": name} if name else {} for name in (ours, theirs)]
    own, other = fields
    kept = Blue(
        resource_bodies.cluster("a", **own),
        resource_bodies.cluster("b", **other),
        resource_bodies.policy("law", **own),
        resource_bodies.policy("rule", **other),
        resource_bodies.topic("mine", **own),
        resource_bodies.topic("yours", **other),
        operator_class=ours,
    )
    assert ([*kept.clusters], [*kept.policies], [*kept.topics]) == (["a"], ["law"], [("shop", "mine")])
    assert kept.target_clusters(kept.topics["shop", "mine"]) == ["a"]
    assert kept.other_release_owners() == {}
    given = parse_resource(
        resource_bodies.body("Topic", "mine", {"partitions": 3, **other}, uid=kept.topics["shop", "mine"].uid)
    )
    kept.upsert(given)
    assert kept.topics == {}
    assert kept.marked() == ["a"]


def test_what_another_release_serves_is_left_to_it() -> None:
    """The store omits resources that another release serves, by their status, and adds them after the other release
    stops.
    """
    held = {"operator": GREEN, "clusters": [{"name": "b", "state": "Synced"}]}
    topic = named("orders", "a", status=held)
    policy = parse_resource({**resource_bodies.body("Policy", "law", {"rules": []}), "status": {"operator": GREEN}})
    kept = Blue(A, topic, policy)
    assert ([*kept.topics], [*kept.policies]) == ([], [])
    assert kept.other_release_owners() == {("Topic", "shop", "orders"): GREEN, ("Policy", "shop", "law"): GREEN}
    free = resource_bodies.updated_body(topic, status={"operator": GREEN, "clusters": []})
    kept.upsert(free)
    assert [*kept.topics.values()] == [free]
    assert kept.other_release_owners().keys() == {("Policy", "shop", "law")}
    kept.upsert(resource_bodies.updated_body(free, status=held))
    assert kept.topics == {}
    kept.remove(resource_bodies.updated_body(free, status=held))
    assert kept.other_release_owners().keys() == {("Policy", "shop", "law")}


def test_a_topic_of_another_release_is_not_homeless() -> None:
    """A Topic with a Cluster of another release is not without a target, by name, label, only Cluster or status."""
    labels = {"labels": {"env": "blue", "tier": "1"}}
    elsewhere = resource_bodies.updated_body(
        resource_bodies.cluster("far", meta={"namespace": "other", **labels}), status={"operator": GREEN}
    )
    named_, chosen = named("a", "far"), resource_bodies.topic("b", clusterSelector={"matchLabels": {"env": "blue"}})
    only, lost = resource_bodies.topic("c"), named("d", "nowhere")
    other = resource_bodies.topic("f", clusterSelector={"matchLabels": {"env": "green"}})
    spoken = named("e", "nowhere", status={"operator": GREEN, "clusters": []})
    kept = Blue(A, B, named_, chosen, only, lost, other, spoken)
    assert [*kept.untargeted_topics()] == [named_, chosen, only, lost, other]
    assert kept.seen(elsewhere) == [UNASSIGNED]
    kept.upsert(elsewhere)
    assert [*kept.untargeted_topics()] == [lost, other]
    assert kept.other_release_owners() == {}  # a Cluster of another namespace is in nobody's way
    kept.remove(elsewhere)
    assert kept.marked() == [UNASSIGNED]
    assert [*kept.untargeted_topics()] == [named_, chosen, only, lost, other]
    for strange in ({"class": "violet"}, {}):
        kept.upsert(
            resource_bodies.updated_body(
                resource_bodies.cluster("far", meta={"namespace": "other", **labels}, **strange),
                status={"operator": GREEN} if strange else {},
            )
        )
        assert [*kept.untargeted_topics()] == [named_, chosen, only, lost, other]
    for status in ({}, {"operator": kept.owner}):  # the owner is this release, wherever its Cluster is
        far = resource_bodies.cluster("far", meta={"namespace": "other"})
        kept.upsert(resource_bodies.updated_body(far, status=status))
        assert [*kept.untargeted_topics()] == [named_, chosen, only, lost, other]


def test_a_policy_of_another_release_is_reported_beside_any_number_of_clusters() -> None:
    """A Topic of another release is reported only if it targets a Cluster of this one; a Policy targets none."""
    policy = resource_bodies.updated_body(resource_bodies.policy("law"), status={"operator": GREEN})
    held = {"operator": GREEN, "clusters": [{"name": "b", "state": "Synced"}]}
    here, elsewhere = named("here", "a", status=held), named("elsewhere", "nowhere", status=held)
    assert Blue(A, B, policy, here, elsewhere).other_release_owners() == {
        ("Policy", "shop", "law"): GREEN,
        ("Topic", "shop", "here"): GREEN,
    }


def test_a_removed_cluster_of_this_owner_claims_no_kafka_cluster() -> None:
    """A Cluster that another release of this owner serves counts until it is deleted, not until a namesake Topic is."""
    store = Store("shop", lambda *_: None)
    store.owner = "k8s/shop/topiarist"
    elsewhere: dict[str, Any] = {"meta": {"namespace": "other"}, "class": "blue"}
    home, away = resource_bodies.cluster(), resource_bodies.cluster("away", **elsewhere)
    served = resource_bodies.updated_body(away, status={"operator": "k8s/shop/topiarist"})
    namesake = resource_bodies.topic("away", **elsewhere)
    for each in (home, served, namesake):
        store.upsert(each)
    assert [each.name for each in store.other_clusters(home)] == ["away"]
    store.remove(namesake)
    assert [each.name for each in store.other_clusters(home)] == ["away"]
    store.remove(served)
    assert [*store.other_clusters(home)] == []
    before = {*store.clusters}, {*store.topics}
    for each in (served, namesake, resource_bodies.cluster("unknown"), resource_bodies.policy("unknown")):
        store.remove(each)  # a deletion may come twice
    assert ({*store.clusters}, {*store.topics}) == before


# Late data in the operator's store: events that follow newer responses, and responses about deleted resources.


@pytest.fixture
def store() -> Store:
    """Return an empty store."""
    return Store("shop", lambda *_: None)


def orders(version: int, uid: str = "a") -> Resource:
    """Return a Topic at this version."""
    return replace(resource_bodies.topic("orders"), resource_version=version, uid=uid)


def test_the_end_of_an_earlier_one_leaves_the_later(store: Store) -> None:
    """The late deletion event of a Topic does not remove the recreated Topic."""
    store.upsert(orders(120, uid="b"))
    store.remove(orders(130, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"


def test_a_list_removes_what_was_written_since_the_last_event(store: Store) -> None:
    """A list removes a Topic that was deleted during an interrupted watch, although a write response had a newer
    version.
    """
    store.upsert(orders(110))
    store.on_write_response(orders(120))
    store.remove(orders(110))
    assert not store.topics


def test_an_answer_and_an_event_that_cross(store: Store) -> None:
    """The later version remains in either order of response and event; an equal version counts."""
    store.upsert(orders(110))
    store.on_write_response(orders(120))
    store.upsert(orders(115))
    assert store.topics["shop", "orders"].resource_version == 120
    newest = orders(120)
    store.upsert(newest)
    assert store.topics["shop", "orders"] is newest


def test_an_answer_brings_nothing_back(store: Store) -> None:
    """The late response to a status write does not restore a deleted Topic, nor replace a recreated one."""
    store.on_write_response(orders(110))
    assert not store.topics
    store.upsert(orders(120, uid="b"))
    store.on_write_response(orders(125, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"
    store.on_write_response(orders(126, uid="b"))
    assert store.topics["shop", "orders"].resource_version == 126


@pytest.mark.parametrize(("listed_at", "kept"), [(0, 120), (115, 120), (120, 110), (130, 110)])
def test_a_later_list_replaces_a_later_version(store: Store, listed_at: int, kept: int) -> None:
    """A list that crosses the response to a write changes nothing; a later one shows that etcd was restored."""
    store.upsert(orders(110))
    store.on_write_response(orders(120))
    store.upsert(orders(110), listed_at)
    assert store.topics["shop", "orders"].resource_version == kept


# A status is a view: with any status, forged or lost, a pass decides the same, also after a restart.

DEFINITIONS = load.load_schema("status")["definitions"]
NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
FORGED_TEXTS = {"name": "prod", "topicName": "orders", "topic": "gone", "reason": "Forged", "type": "Ready"}
"""Texts that a field must have for a decision to find it, or by its pattern."""


def forge(schema: Mapping[str, Any], name: str = "") -> Any:
    """Return a value that has every field of a part of the schema, with values that the operator did not write."""
    if "$ref" in schema:
        return forge(DEFINITIONS[schema["$ref"].rpartition("/")[2]], name)
    if schema["type"] == "object":
        fields = {key: forge(part, key) for key, part in schema.get("properties", {}).items()}
        return fields or {"retention.ms": "1"}
    if schema["type"] == "array":
        return [forge(schema["items"], name)]
    if schema["type"] == "string":
        is_time = schema.get("format") == "date-time" or name == "retentionStepAt"
        return client.format_time(NOW) if is_time else schema.get("enum", [FORGED_TEXTS.get(name, "forged")])[-1]
    return True if schema["type"] == "boolean" else 7


def with_memory(topic: TopicState, **fields: Any) -> TopicState:
    """Return a topic with the operator's memory in its record."""
    assert topic.record is not None
    return replace(topic, record=replace(topic.record, memory=OperatorMemory(**fields)))


GONE = OwnershipRecord(OWNER, deleted=True, memory=OperatorMemory(deletions_ms=(NOW_MS,)))
LOSS = {"config": {"retention.ms": SHORT}}
KEPT = owned_topic("orders", retention_ms=LONG)
STEPS = {"allowRisk": ["DataLoss"], "retentionStep": {"share": "50%", "interval": "1h"}}
SITUATIONS: dict[str, tuple[ClusterState, dict[str, Any], dict[str, Any]]] = {
    "creation": (builders.state(), {}, {}),
    "nothing to do": (builders.state(owned_topic("orders")), {}, {}),
    "deletion": (builders.state(owned_topic("orders")), {"allowDeletion": True}, {"ensure": "Absent"}),
    "deletion beyond the budget": (
        builders.state(owned_topic("orders"), dangling_records={"a": GONE}),
        {"allowDeletion": True, "budgets": {"deletions": 1}},
        {"ensure": "Absent"},
    ),
    "loss": (builders.state(KEPT), {"allowRisk": ["DataLoss"]}, LOSS),
    "first step": (builders.state(KEPT), STEPS, LOSS),
    "early step": (builders.state(with_memory(KEPT, step_ms=NOW_MS)), STEPS, LOSS),
    "recreation": (
        builders.state(dangling_records={"orders": OwnershipRecord(OWNER)}),
        {"allowRisk": ["DataLoss"]},
        {},
    ),
    "other owner": (builders.state(builders.topic("orders", owner="team")), {"allowRisk": ["DataLoss"]}, {}),
}
CONSENTED = ("loss", "first step", "recreation", "other owner")
"""The situations with a refusal that names a consent."""


@pytest.mark.parametrize(
    ("name", "consents"), [*((name, False) for name in SITUATIONS), *((name, True) for name in CONSENTED)]
)
def test_a_forged_status_decides_nothing(name: str, consents: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every field of both statuses forged, and with none, two passes write and refuse the same."""
    monkeypatch.setattr(client, "utc_now", lambda: NOW)
    state, cluster, spec = SITUATIONS[name]
    home, topic = resource_bodies.cluster(**cluster), resource_bodies.topic("orders", **spec)
    if consents:
        topic = with_approval(home, topic, state)
    found = []
    for forged in (False, True):
        port, decisions = MemoryCluster(state), []
        statuses = {each: forge(DEFINITIONS[each]) if forged else {} for each in ("cluster", "topic")}
        for kind, status in statuses.items():
            validate_status(kind, status)
        for _ in range(2):  # nothing is kept between the passes, as at a restart
            request = make_request(
                resource_bodies.updated_body(home, status=statuses["cluster"]),
                resource_bodies.updated_body(topic, status=statuses["topic"]),
            )
            result = reconcile_cluster(port, request, lambda: False)
            (view,) = result.topic_results
            decisions += [view.refusals, view.written_changes, port.state.topics.get("orders"), result.error]
        assert known_records_id(request.cluster_resource) == ""
        assert [each.resource.applied_clusters for each in request.candidates] == [[]]
        found.append(decisions)
    assert found[0] == found[1]
