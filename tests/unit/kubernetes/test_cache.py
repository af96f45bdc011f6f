"""The store of API server resources: the clusters that each event marks, and no repeated parsing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.kubernetes import resource_bodies
from topiarist.desired import parse
from topiarist.desired.merge import merge
from topiarist.kubernetes import cache
from topiarist.kubernetes.api.resources import FINALIZER, Resource, parse_resource
from topiarist.kubernetes.cache import UNASSIGNED, Store


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
    kept = Kept(A, B)
    assert kept.seen(A, annotations={"argocd.argoproj.io/tracking-id": "x"}) == []
    assert kept.seen(A, labels={"env": "test"}) == [UNASSIGNED, "a"]


def test_what_is_older_than_what_is_known_is_passed_over() -> None:
    """The store ignores an older version of a resource, such as one from a page of an earlier list."""
    old = named()
    new = resource_bodies.updated_body(old, generation=2)
    kept = Kept(A, new)
    kept.upsert(old)
    assert kept.marked() == []
    assert kept.topics[old.key] is new


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
    kept.remove(A)
    assert kept.marked() == [UNASSIGNED, "a"]
    assert kept.target_clusters(topic) == []
    assert [*kept.untargeted_topics()] == [topic]
    kept.upsert(resource_bodies.cluster("a"))
    assert [each.resource for each in kept.candidates("a")] == [topic]


def test_everything_can_be_found() -> None:
    """The store finds every resource by kind, namespace and name."""
    topic, law = named(), resource_bodies.policy("law", {"expression": "true"})
    kept = Kept(A, B, topic, law)
    for each in (A, B, topic, law):
        assert kept.find(each.kind, each.namespace, each.name) is each
    assert kept.find("Topic", "shop", "none") is None


class Blue(Kept):
    """A store of a release with an owner, and a class if one is given."""

    def __init__(self, *found: Resource, operator_class: str = "") -> None:
        self._marks = []
        Store.__init__(self, "shop", lambda name, _source: self._marks.append(name), operator_class, "k8s/1/shop/blue")
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
    kept.upsert(resource_bodies.cluster("far", meta={"namespace": "other"}))
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
    store = Store("shop", lambda *_: None, owner="k8s/shop/topiarist")
    home, away = resource_bodies.cluster(), resource_bodies.cluster("away", meta={"namespace": "other"})
    served = resource_bodies.updated_body(away, status={"operator": "k8s/shop/topiarist"})
    namesake = resource_bodies.topic("away", meta={"namespace": "other"})
    for each in (home, served, namesake):
        store.upsert(each)
    assert [each.name for each in store.other_clusters(home)] == ["away"]
    store.remove(namesake)
    assert [each.name for each in store.other_clusters(home)] == ["away"]
    store.remove(served)
    assert [*store.other_clusters(home)] == []
