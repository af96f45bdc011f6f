"""KafkaTopics: as Topics, their operator, and their statuses in Strimzi's form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace

from support import builders
from support.kubernetes import resource_bodies
from support.kubernetes.passes import LATER, NOW, make_result
from support.virtual_time import virtual_time
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.approval import annotation_errors
from topiarist.kubernetes.cache import Store, build_candidate, select_candidates
from topiarist.kubernetes.client import ApiError, KubernetesClient
from topiarist.kubernetes.cluster_worker import ClusterWorker
from topiarist.kubernetes.informer import Definition, KafkaTopicInformers
from topiarist.kubernetes.manager import Manager
from topiarist.kubernetes.reconciler import ReconcileResult, SyncState
from topiarist.kubernetes.resources import (
    ANSWER_S,
    QUIET_S,
    STRIMZI_FINALIZER,
    Resource,
    Verdict,
    judge,
    parse_item,
    parse_resource,
)
from topiarist.kubernetes.status_writer import Event
from topiarist.kubernetes.topic_status import kafka_topic_status, topic_status
from topiarist.model.plan import Issue

STRIMZI, OURS = "strimzi-topic-operator", "topiarist"
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
SOURCES: dict[str, Any] = {"sources": ["Topic", "KafkaTopic"]}


def at(seconds: float) -> str:
    """The time so long after the creation of all resources."""
    return (CREATED + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def spec_of(resource: Resource) -> Mapping[str, Any]:
    """The spec of the Topic that a resource describes."""
    assert resource.manifest is not None, resource.errors
    return resource.manifest.spec


# The mapping.


def test_a_kafka_topic_is_the_topic_that_it_describes() -> None:
    """Numbers, booleans and lists become Kafka's texts; the name in Kafka, sizes and configs are the same."""
    config = {"retention.ms": 604800000, "preallocate": False, "min.cleanable.dirty.ratio": 0.5, "segment.ms": "1000"}
    found = resource_bodies.kafka_topic(
        "orders", topicName="Shop.Orders", config={**config, "cleanup.policy": ["compact", "delete"]}
    )
    assert spec_of(found) == {
        "topicName": "Shop.Orders",
        "clusters": ["prod"],
        "partitions": 3,
        "replicationFactor": 3,
        "config": {
            "cleanup.policy": "compact,delete",
            "min.cleanable.dirty.ratio": 0.5,
            "preallocate": False,
            "retention.ms": 604800000,
            "segment.ms": 1000,
        },
    }
    assert found.manifest is not None
    assert (found.manifest.namespace, found.manifest.name) == ("shop", "orders")  # for policies and messages


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"config": {"retention.ms": "soon"}}, "spec.config.retention.ms"),
        ({"config": {"retention.ms": None}}, "found no value here"),
        ({"config": {"retention.ms": {"a": 1}}}, "found no value here"),
        ({"config": {"leader.replication.throttled.replicas": "*"}}, "a reassignment sets it for a time"),
        ({"config": {"retention.ms": 9223372036854776000.0}}, "may have lost digits"),
        ({"color": "red"}, "topiarist has no counterpart"),
        ({"topicName": "a b"}, "topicName"),
    ],
)
def test_what_cannot_be_mapped_is_an_error(spec: dict[str, Any], words: str) -> None:
    """Nothing is left out in silence: the topic would be otherwise than declared."""
    found = resource_bodies.kafka_topic("orders", **spec)
    assert found.manifest is None
    assert any(words in each.message for each in found.errors), found.errors
    assert {each.path[0] for each in found.errors} == {"spec"}


def test_a_kafka_topic_without_a_spec_has_the_defaults_of_its_cluster() -> None:
    """Strimzi's definition requires none."""
    body = resource_bodies.body("KafkaTopic", "orders", {}, labels={"strimzi.io/cluster": "prod"})
    del body["spec"]
    found = parse_resource({**body, "apiVersion": "kafka.strimzi.io/v1"})
    assert spec_of(found) == {"clusters": ["prod"]}


def test_a_body_is_mapped_once() -> None:
    """A change of the status keeps the manifest, so that nothing is planned anew."""
    spec: dict[str, Any] = {"partitions": 3, "replicas": 3, "config": {"retention.ms": 1000}}
    first = resource_bodies.kafka_topic("orders", **spec)
    meta = {"name": "orders", "namespace": "shop", "uid": first.uid, "resourceVersion": "9000", "generation": 1}
    meta |= {"creationTimestamp": first.created, "labels": dict(first.labels)}
    body = {"metadata": meta, "spec": spec, "status": {"topicName": "orders", "replicasChange": {}}}
    again = parse_item("KafkaTopic", body, first, api_version="kafka.strimzi.io/v1")
    assert again.manifest is first.manifest
    assert again.status == {"topicName": "orders"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"strimzi.io/managed": "false"}, {"mode": "Observe"}),
        ({"strimzi.io/pause-reconciliation": "true"}, {"mode": "Observe"}),
        ({"strimzi.io/managed": "true"}, {}),
        ({"topiarist.dev/deletion-policy": "Delete"}, {"deletionPolicy": "Delete"}),
        ({"topiarist.dev/deletion-policy": "Retain"}, {}),
    ],
)
def test_annotations_count(annotations: dict[str, str], expected: dict[str, str]) -> None:
    """Those of Strimzi that keep its operator away, and the consent to a deletion."""
    spec = spec_of(resource_bodies.kafka_topic("orders", meta={"annotations": annotations}))
    assert {key: spec[key] for key in ("mode", "deletionPolicy") if key in spec} == expected


def test_a_wrong_consent_is_reported() -> None:
    """An annotation that deletes nothing because of its value is named."""
    found = resource_bodies.kafka_topic("orders", meta={"annotations": {"topiarist.dev/deletion-policy": "delete"}})
    assert "deletionPolicy" not in spec_of(found)
    assert "wanted Delete or Retain" in annotation_errors(found)[0]


# Which Cluster.


def store_of(*found: Resource) -> Store:
    """A store with these resources."""
    store = Store("shop", lambda *_: None)
    for each in found:
        store.upsert(each)
    return store


def test_the_label_names_the_cluster() -> None:
    """The name of the Cluster counts, or its own label; only if KafkaTopics are among its sources."""
    mapped = resource_bodies.cluster("msk", meta={"labels": {"strimzi.io/cluster": "prod"}}, **SOURCES)
    topic = resource_bodies.kafka_topic("orders")
    assert store_of(resource_bodies.cluster(**SOURCES), topic).target_clusters(topic) == ["prod"]
    assert store_of(mapped, topic).target_clusters(topic) == ["msk"]
    assert store_of(resource_bodies.cluster(), topic).target_clusters(topic) == []
    other = resource_bodies.kafka_topic("orders", meta={"labels": {}})
    assert store_of(resource_bodies.cluster(**SOURCES), other).target_clusters(other) == []


def test_both_kinds_may_have_one_name() -> None:
    """A Topic and a KafkaTopic of one name are two resources, and the older one counts."""
    topic = resource_bodies.topic("orders", clusters=["prod"], meta={"creationTimestamp": at(5)})
    store = store_of(resource_bodies.cluster(**SOURCES), topic, kafka_topic := resource_bodies.kafka_topic("orders"))
    assert len(store.topics) == 2
    spec = store.cluster_spec("prod")
    assert spec is not None
    found = select_candidates(spec, "shop", store.candidates("prod"), {})
    refused = {each.resource.kind: [issue.reason for issue in each.refusals] for each in found}
    assert refused == {"KafkaTopic": [], "Topic": [Reason.RESOURCE_CONFLICT]}
    store.remove(kafka_topic)
    assert [each.kind for each in store.topics.values()] == ["Topic"]


def test_a_write_of_another_operator_begins_a_pass() -> None:
    """Topiarist's own write of a status begins none, or each pass would begin the next."""
    asked: list[str] = []
    store = Store("shop", lambda name, _: asked.append(name))
    store.upsert(resource_bodies.cluster(**SOURCES))
    first = resource_bodies.kafka_topic("orders")
    store.upsert(first)
    asked.clear()
    store.upsert(replace(first, resource_version=9001, told_at=at(5), status={"topicName": "orders"}))
    assert asked == []
    store.upsert(replace(first, resource_version=9002, told_at=at(5), foreign_at=at(6)))
    assert asked == ["prod"]


def test_an_unmanaged_kafka_topic_claims_nothing() -> None:
    """A younger Topic takes its topic over: so a team hands over without any deletion."""
    marked = resource_bodies.kafka_topic("orders", meta={"annotations": {"strimzi.io/managed": "false"}})
    topic = resource_bodies.topic("orders", clusters=["prod"], meta={"creationTimestamp": at(5)})
    store = store_of(resource_bodies.cluster(**SOURCES), topic, marked)
    spec = store.cluster_spec("prod")
    assert spec is not None
    found = select_candidates(spec, "shop", store.candidates("prod"), {})
    assert [each.resource.kind for each in found if not each.refusals] == ["Topic"]


def test_a_topic_of_a_cluster_without_topics_is_refused() -> None:
    """With KafkaTopic alone, a Topic is told so, and does not stand in the way of a KafkaTopic."""
    topic = resource_bodies.topic("orders", clusters=["prod"], meta={"creationTimestamp": at(-5)})
    store = store_of(resource_bodies.cluster(sources=["KafkaTopic"]), topic, resource_bodies.kafka_topic("orders"))
    spec = store.cluster_spec("prod")
    assert spec is not None
    found = select_candidates(spec, "shop", store.candidates("prod"), {})
    refused = {each.resource.kind: [issue.reason for issue in each.refusals] for each in found}
    assert refused == {"KafkaTopic": [], "Topic": [Reason.NOT_ALLOWED]}
    (hint,) = (issue.hint for each in found for issue in each.refusals)
    assert hint == "declare a KafkaTopic, or add Topic to spec.sources"


# Their operator.


def verdict_of(seconds: float, *found: Resource, operators: set[tuple[str, str]] = frozenset()) -> list[str]:  # type: ignore[assignment]
    """What is found about KafkaTopics so long after their creation: a word for each."""
    verdicts = judge(found, operators, CREATED + timedelta(seconds=seconds))
    return [word_of(verdicts[each.key]) for each in found]


def word_of(verdict: Verdict) -> str:
    """A verdict in a word."""
    if verdict.issue is None:
        assert verdict.is_ours
        assert verdict.may_tell
        return "ours"
    assert not verdict.is_ours
    return f"{verdict.issue.reason}{' asked' if verdict.may_tell else ''}"


def test_a_declared_operator_is_the_end_of_it() -> None:
    """A Kafka resource with a topic operator keeps its KafkaTopics, whatever was written when."""
    ours = resource_bodies.kafka_topic("a", writes={OURS: at(0)})
    other = resource_bodies.kafka_topic("b", meta={"namespace": "pay"})
    assert verdict_of(9_000, ours, other, operators={("shop", "prod")}) == ["StrimziActive", "ours"]


@pytest.mark.parametrize(
    ("seconds", "writes", "expected"),
    [
        (5, {}, "TakingOver asked"),
        (ANSWER_S, {}, "ours"),
        (5, {STRIMZI: at(2)}, "StrimziActive"),
        (2 + QUIET_S, {STRIMZI: at(2)}, "TakingOver asked"),
        (200, {STRIMZI: at(2), OURS: at(190)}, "TakingOver asked"),
        (200, {STRIMZI: at(2), OURS: at(170)}, "ours"),
        (200, {STRIMZI: at(190), OURS: at(170)}, "StrimziActive"),
        (200, {STRIMZI: at(170), OURS: at(170)}, "StrimziActive"),
        (250, {STRIMZI: at(171), OURS: at(170)}, "TakingOver asked"),
        (200, {"okhttp": at(190), OURS: at(170)}, "StrimziActive"),
    ],
)
def test_who_answers_keeps_them(seconds: float, writes: dict[str, str], expected: str) -> None:
    """A client that writes after topiarist is an operator at work; half a minute without an answer shows none."""
    assert verdict_of(seconds, resource_bodies.kafka_topic("a", writes=writes)) == [expected]


def test_what_keeps_a_kafka_topic_says_what_to_do() -> None:
    """A topic operator in a Kafka resource, another client that writes, and another name than before."""
    declared = resource_bodies.kafka_topic("a")
    written = resource_bodies.kafka_topic("b", writes={STRIMZI: at(2)}, meta={"namespace": "pay"})
    ours = {OURS: at(0)}
    renamed = resource_bodies.kafka_topic(
        "c", topicName="new", status={"topicName": "old"}, writes=ours, meta={"namespace": "ads"}
    )
    found = judge([declared, written, renamed], {("shop", "prod")}, CREATED + timedelta(seconds=60))
    hints = [verdict.issue.hint for verdict in found.values() if verdict.issue]
    assert hints[0].startswith("remove spec.entityOperator.topicOperator from Kafka prod")
    assert hints[1]
    assert hints[2] == "set it back, and create another KafkaTopic for the new name"


def test_one_is_asked_for_all() -> None:
    """Its verdict holds for its namespace and cluster: later KafkaTopics are served at once, others are not judged."""
    old = {STRIMZI: at(0)}
    found = [resource_bodies.kafka_topic(name, writes=old) for name in ("a", "b", "c")]
    new = resource_bodies.kafka_topic("n")
    (question,) = (each.issue for each in judge([new], set(), CREATED).values())
    assert question
    assert question.message == (
        "topiarist takes over after 30 seconds without a write of another operator: KafkaTopic shop/n shows it"
    )
    assert verdict_of(100, *found) == ["TakingOver asked", "TakingOver", "TakingOver"]
    asked = resource_bodies.kafka_topic("c", writes={**old, OURS: at(100)})
    assert verdict_of(110, *found[:2], asked) == ["TakingOver", "TakingOver", "TakingOver asked"]
    fresh = resource_bodies.kafka_topic("d", meta={"creationTimestamp": at(129)})
    elsewhere = resource_bodies.kafka_topic("e", meta={"namespace": "pay"}, writes={STRIMZI: at(120)})
    assert verdict_of(130, *found[:2], asked, fresh, elsewhere) == [*["ours"] * 4, "StrimziActive"]
    back = resource_bodies.kafka_topic("a", writes={STRIMZI: at(125)})
    assert verdict_of(130, back, asked, fresh) == ["StrimziActive"] * 3


def test_each_question_differs() -> None:
    """The status is written again although the one before says the same but for the time."""
    messages = set()
    for time in (2, 200):
        found = resource_bodies.kafka_topic("a", writes={STRIMZI: at(time)})
        issue = judge([found], (), CREATED + timedelta(seconds=time + QUIET_S))[found.key].issue
        assert issue is not None
        messages.add(issue.message)
    assert len(messages) == 2


def test_another_topic_name_is_refused() -> None:
    """As in Strimzi: the topic of before would be left behind."""
    found = resource_bodies.kafka_topic("a", topicName="new", status={"topicName": "old"})
    issue = judge([found], (), CREATED + timedelta(seconds=100))[found.key].issue
    assert issue is not None
    assert issue.reason is Reason.INVALID_MANIFEST
    assert "topic old" in issue.message
    assert status_of(found, SyncState.REFUSED, issue=issue)["topicName"] == "old"


# Their statuses.


def status_of(found: Resource, state: SyncState, *reasons: Reason, issue: Issue | None = None, now: str = NOW) -> Any:
    """The status of a KafkaTopic in this state."""
    result = make_result(found, state, *reasons)
    return kafka_topic_status(found, topic_status(found, {"prod": result}, {}, now, {"prod"}), issue, now)


def test_a_status_has_the_form_of_strimzi() -> None:
    """One condition, the generation, the name: nothing that its definition does not have."""
    found = resource_bodies.kafka_topic("orders", topicName="Orders")
    ready = {"type": "Ready", "status": "True", "reason": "Synced", "message": "as declared on 1 cluster"}
    assert status_of(found, SyncState.SYNCED) == {
        "conditions": [{**ready, "lastTransitionTime": NOW}],
        "observedGeneration": 1,
        "topicName": "Orders",
    }


@pytest.mark.parametrize(
    ("annotations", "state", "expected"),
    [
        ({}, SyncState.REFUSED, ("Ready", "False", "DataLoss")),
        ({}, SyncState.WAITING, ("Ready", "False", "ReassignmentInProgress")),
        ({"strimzi.io/managed": "false"}, SyncState.OBSERVED, ("Unmanaged", "True", "Unmanaged")),
        ({"strimzi.io/managed": "false"}, SyncState.REFUSED, ("Unmanaged", "True", "Unmanaged")),
        ({"strimzi.io/pause-reconciliation": "true"}, SyncState.OBSERVED, ("ReconciliationPaused", "True", "Paused")),
        ({"topiarist.dev/paused": "true"}, SyncState.PAUSED, ("ReconciliationPaused", "True", "Paused")),
    ],
)
def test_the_condition_is_one_that_users_of_strimzi_know(
    annotations: dict[str, str], state: SyncState, expected: tuple[str, str, str]
) -> None:
    """Ready, or what stands in its place."""
    found = resource_bodies.kafka_topic("orders", meta={"annotations": annotations})
    (condition,) = status_of(found, state)["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == expected


@pytest.mark.parametrize(("before", "generation"), [({"observedGeneration": 4}, 4), ({}, 0)])
def test_a_paused_status_keeps_the_generation_of_before(before: dict[str, Any], generation: int) -> None:
    """As in Strimzi: the new spec was not seen to."""
    paused = {"annotations": {"strimzi.io/pause-reconciliation": "true"}, "generation": 7}
    found = resource_bodies.kafka_topic("orders", status=before, meta=paused)
    assert status_of(found, SyncState.OBSERVED)["observedGeneration"] == generation


def test_a_status_is_equal_while_nothing_changes() -> None:
    """The time of a condition, the name and the id are kept; a Warning has what is wrong with an annotation."""
    wrong = {"annotations": {"topiarist.dev/paused": "maybe"}}
    first = status_of(resource_bodies.kafka_topic("orders", meta=wrong), SyncState.PAUSED)
    assert [each["type"] for each in first["conditions"]] == ["ReconciliationPaused", "Warning"]
    known = {**first, "topicId": "abc"}
    stored = resource_bodies.kafka_topic("orders", meta=wrong, status=known)
    assert status_of(stored, SyncState.PAUSED, now=LATER) == known
    part = {"name": "prod", "topicId": "new"}
    told = topic_status(stored, {"prod": make_result(stored, SyncState.PAUSED)}, {}, NOW, {"prod"})
    assert kafka_topic_status(stored, {**told, "clusters": [part]}, None, LATER) == {**known, "topicId": "new"}


@pytest.mark.parametrize(
    ("finalizers", "is_held"), [([], False), (["other"], False), (["strimzi.io/topic-operator"], True)]
)
def test_only_strimzis_finalizer_holds_a_kafka_topic(finalizers: list[str], is_held: bool) -> None:
    """A Topic of this operator is never held by it."""
    meta = {"finalizers": finalizers}
    assert resource_bodies.kafka_topic("orders", meta=meta).is_held_by_strimzi is is_held
    assert not resource_bodies.topic("orders", meta=meta).is_held_by_strimzi


@pytest.mark.parametrize(
    ("manager", "fields", "times"),
    [
        (STRIMZI, {"f:status": {"f:conditions": {}}}, ("", at(5))),
        (STRIMZI, {"f:metadata": {"f:finalizers": {".": {}, 'v:"strimzi.io/topic-operator"': {}}}}, ("", at(5))),
        (STRIMZI, {"f:metadata": {"f:finalizers": {".": {}, 'v:"backup"': {}}}}, ("", "")),
        (STRIMZI, {"f:metadata": {"f:annotations": {}}}, ("", "")),
        ("kubectl", {"f:spec": {"f:partitions": {}}}, ("", "")),
        (OURS, {"f:status": {"f:conditions": {}}}, (at(5), "")),
        ("topiarist-finalizer", {"f:metadata": {"f:finalizers": {'v:"strimzi.io/topic-operator"': {}}}}, ("", "")),
    ],
)
def test_another_operator_shows_by_a_status_or_strimzis_finalizer(
    manager: str, fields: dict[str, Any], times: tuple[str, str]
) -> None:
    """Neither users' changes nor topiarist's own writes are a sign of one; of several writes the last one counts."""
    untimed: dict[str, Any] = {"manager": manager, "fieldsV1": fields}
    writes = [untimed, *({**untimed, "time": at(second)} for second in (3, 5, 4))]
    found = resource_bodies.kafka_topic("orders", meta={"managedFields": writes})
    assert (found.told_at, found.foreign_at) == times


# Their informers.


class Server:
    """An API server with the definition and the KafkaTopics that a test gives it, and Kafka resources."""

    def __init__(self) -> None:
        self.versions: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.kafkas: dict[str, list[dict[str, Any]]] = {}
        self.denied: set[str] = set()
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.listed: list[str] = []
        self.selectors: set[str] = set()

    async def create(self, _path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Whether a right is there."""
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": asked["resource"] not in self.denied}}

    async def get(self, path: str, **_: str) -> dict[str, Any]:
        """The Kafka resources of a version."""
        if path not in self.kafkas:
            raise ApiError(404, "not found")
        return {"items": self.kafkas[path]}

    async def list_pages(self, path: str, **params: str) -> Any:
        """The definition, or the KafkaTopics."""
        self.listed.append(path)
        self.selectors |= {*params.values()}
        items = self.bodies
        if "customresourcedefinitions" in path:
            items = [self.definition()] if self.versions else []
        yield {"metadata": {"resourceVersion": "10"}, "items": items}

    async def watch(self, path: str, _version: str, **_: str) -> Any:
        """Events of the definition; nothing happens to KafkaTopics."""
        while "customresourcedefinitions" in path:
            yield await self.events.get()
        await asyncio.Event().wait()
        yield {}

    def definition(self) -> dict[str, Any]:
        """The definition with its served versions."""
        versions = [{"name": name, "served": True} for name in self.versions]
        return {
            "metadata": {"name": "kafkatopics.kafka.strimzi.io", "resourceVersion": "11"},
            "spec": {"versions": [*versions, *({"name": name, "served": False} for name in ("v1", "v1alpha1"))]},
        }


def informers_of(
    server: Server, store: Store, *namespaces: str, on_change: Callable[[], None] = lambda: None
) -> KafkaTopicInformers:
    """The informers of KafkaTopics on a server."""
    return KafkaTopicInformers(cast(KubernetesClient, server), store, namespaces, 60.0, on_change)


def reason_of(error: TopiaristError | None) -> Reason | None:
    """Why the KafkaTopics are not known."""
    return error.reason if error else None


@virtual_time
async def test_the_definition_may_come_later_and_go() -> None:
    """Without it only Clusters with this source wait; with it the KafkaTopics are there, of the newest version."""
    server, store = Server(), store_of()
    found = informers_of(server, store)
    running = asyncio.create_task(found.run())
    await asyncio.sleep(100)
    assert server.listed == []  # no Cluster wants them
    store.upsert(resource_bodies.cluster(**SOURCES))
    await asyncio.sleep(1)
    problem = found.problem()
    assert problem
    assert problem.reason is Reason.PREREQUISITE_MISSING
    assert str(problem) == (
        "the API server does not serve KafkaTopics (kafkatopics.kafka.strimzi.io): install Strimzi's CRD with the"
        " version v1 or v1beta2, or remove KafkaTopic from spec.sources of the Cluster"
    )
    given = resource_bodies.kafka_topic("orders")
    server.bodies = [
        {
            "metadata": {
                **{"name": "orders", "namespace": "shop", "uid": given.uid, "resourceVersion": "9", "generation": 1},
                **{"creationTimestamp": given.created, "labels": dict(given.labels)},
            },
            "spec": dict(given.raw_spec),
        }
    ]
    server.versions = ["v1beta2", "v1"]
    server.events.put_nowait({"type": "ADDED", "object": server.definition()})
    await asyncio.sleep(10)
    assert found.problem() is None
    assert server.listed[-1] == "/apis/kafka.strimzi.io/v1/kafkatopics"
    assert [each.api_version for each in store.kafka_topics("prod")] == ["kafka.strimzi.io/v1"]
    server.versions = ["v1beta2"]
    server.events.put_nowait({"type": "MODIFIED", "object": server.definition()})
    await asyncio.sleep(10)
    assert [each.api_version for each in store.kafka_topics("prod")] == ["kafka.strimzi.io/v1beta2"]
    assert server.selectors == {"metadata.name=kafkatopics.kafka.strimzi.io"}  # no other definition may be read
    server.events.put_nowait({"type": "DELETED", "object": server.definition()})
    await asyncio.sleep(10)
    assert store.kafka_topics("prod") == []
    assert reason_of(found.problem()) is Reason.PREREQUISITE_MISSING
    running.cancel()


@virtual_time
async def test_a_change_of_the_definition_calls_for_passes() -> None:
    """When the KafkaTopics of the version before were removed, and when those of the new version are listed."""
    server, store = Server(), store_of(resource_bodies.cluster(**SOURCES))
    server.versions = ["v1beta2"]
    told: list[str] = []
    found = informers_of(server, store, on_change=lambda: told.append(str(found.problem())))
    running = asyncio.create_task(found.run())
    await asyncio.sleep(10)
    assert found.problem() is None
    told.clear()
    server.versions = ["v1"]
    server.events.put_nowait({"type": "MODIFIED", "object": server.definition()})
    await asyncio.sleep(10)
    assert told == ["the KafkaTopics are not listed yet", "None"]
    running.cancel()


@virtual_time
async def test_missing_rights_are_named() -> None:
    """They are asked for when they are needed, and noticed when they are given."""
    server, store = Server(), store_of(resource_bodies.cluster(**SOURCES))
    server.denied = {"kafkatopics", "kafkas"}
    found = informers_of(server, store, "pay", "shop")
    running = asyncio.create_task(found.run())
    await asyncio.sleep(1)
    problem = found.problem()
    assert reason_of(problem) is Reason.NO_PERMISSION
    assert "list kafkas.kafka.strimzi.io in namespace pay" in str(problem)
    server.denied, server.versions = set(), ["v1"]
    await asyncio.sleep(30)
    assert found.problem() is None
    assert {path for path in server.listed if "kafkatopics" in path} == {
        "/apis/kafka.strimzi.io/v1/namespaces/pay/kafkatopics",
        "/apis/kafka.strimzi.io/v1/namespaces/shop/kafkatopics",
    }
    running.cancel()


@virtual_time
async def test_a_topic_operator_is_where_it_watches() -> None:
    """Its namespace is that of the Kafka resource, or the one that it names; users alone are no topics."""
    server = Server()
    operators = [
        ("a", {"topicOperator": {}}),
        ("b", {"topicOperator": {"watchedNamespace": "pay"}}),
        ("c", {"userOperator": {}}),
    ]
    server.kafkas["/apis/kafka.strimzi.io/v1beta2/kafkas"] = [
        *({"metadata": {"name": name, "namespace": "shop"}, "spec": {"entityOperator": of}} for name, of in operators),
        {"metadata": {"name": "d", "namespace": "shop"}, "spec": {}},
        {"metadata": {"name": "e", "namespace": "shop"}},
    ]
    assert await informers_of(server, store_of()).operators() == {("shop", "a"), ("pay", "b")}
    assert await informers_of(Server(), store_of()).operators() == set()


def test_a_candidate_of_a_kafka_topic_has_its_sizes() -> None:
    """Without partitions or replicas the defaults of the Cluster count, and without those it is refused."""
    for defaults, reasons in (({"partitions": 6, "replicationFactor": 2}, []), ({}, [Reason.INVALID_MANIFEST])):
        found = resource_bodies.kafka_topic("orders", partitions=None, replicas=None)
        store = store_of(resource_bodies.cluster(defaults=defaults, **SOURCES), found)
        (candidate,) = store.candidates("prod")
        assert [each.reason for each in candidate.refusals] == reasons
        assert all(each.hint for each in candidate.refusals)
        assert candidate == build_candidate(found, candidate.spec)


# What is written.


class Api:
    """An API server with one Cluster and one KafkaTopic, which keeps their metadata and statuses."""

    def __init__(self, kafka_topic: Resource) -> None:
        self.cluster: dict[str, Any] = resource_bodies.body(
            "Cluster", "prod", {"zookeeper": {"connect": "zk"}, **SOURCES}
        )
        of = kafka_topic
        metadata: dict[str, Any] = {"name": of.name, "namespace": of.namespace, "uid": of.uid}
        metadata |= {"generation": of.generation}
        metadata |= {"creationTimestamp": of.created, "labels": dict(of.labels), "finalizers": list(of.finalizers)}
        metadata |= {"resourceVersion": "5000", "annotations": dict(of.source.annotations)}
        metadata |= {"deletionTimestamp": at(1)} if of.deleting else {}
        self.body: dict[str, Any] = {
            "apiVersion": of.api_version,
            "kind": of.kind,
            "metadata": metadata,
            "spec": dict(of.raw_spec),
        }
        self.writes: list[str] = []
        self.events: list[str] = []
        self.requests: dict[tuple[str, str], int] = {}

    async def get(self, _path: str) -> dict[str, Any]:
        """The Cluster."""
        return self.cluster

    async def apply(self, path: str, body: Mapping[str, Any], _manager: str) -> dict[str, Any]:
        """A status, or topiarist's finalizer."""
        if "/clusters/" in path:
            self.cluster = {**self.cluster, "status": body["status"]}
            return self.cluster
        assert body["apiVersion"] == "kafka.strimzi.io/v1"
        assert path.startswith("/apis/kafka.strimzi.io/v1/namespaces/shop/kafkatopics/orders")
        if path.endswith("/status"):
            self.writes.append(body["status"]["conditions"][0]["reason"])
            return self._changed(status=body["status"])
        others = [each for each in self.body["metadata"]["finalizers"] if not each.startswith("topiarist")]
        return self._finalized([*others, *body["metadata"]["finalizers"]])

    async def patch(self, _path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """All finalizers."""
        assert body["metadata"]["resourceVersion"] == self.body["metadata"]["resourceVersion"]
        return self._finalized(body["metadata"]["finalizers"])

    def record(self, about: Resource, event: Event) -> None:
        """An Event."""
        self.events.append(f"{about.name} {event.reason}")

    def _finalized(self, finalizers: list[str]) -> dict[str, Any]:
        self.writes.append(f"finalizers {finalizers}")
        return self._changed(metadata={**self.body["metadata"], "finalizers": finalizers})

    def _changed(self, **fields: Any) -> dict[str, Any]:
        self.body |= fields
        version = str(int(self.body["metadata"]["resourceVersion"]) + 1)
        self.body["metadata"] = {**self.body["metadata"], "resourceVersion": version}
        return self.body


class Passes:
    """In place of the worker of ``prod``: what it finds about the KafkaTopic."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.verdict = Verdict(None, may_tell=True, is_ours=True)
        self.state = SyncState.SYNCED

    async def reconcile(self, store: Store, *_: Any) -> ReconcileResult:
        """One pass."""
        found = store.kafka_topics("prod")
        store.verdicts["prod"] = {each.key: self.verdict for each in found}
        issues = (self.verdict.issue,) if self.verdict.issue else ()
        state = SyncState.REFUSED if issues else self.state
        results = [
            make_result(each, state, cluster_resource=store.clusters["prod"])._replace(refusals=issues)
            for each in found
            if each.manifest and not each.is_released
        ]
        return ReconcileResult(results, builders.state())

    def new_requests(self) -> dict[tuple[str, str], int]:
        """Nothing is asked."""
        return {}


async def passes_over(api: Api, *verdicts: Verdict, state: SyncState = SyncState.SYNCED) -> Manager:
    """Play a pass for each verdict over the KafkaTopic of an API server."""
    manager = Manager(cast(KubernetesClient, api), "shop", "", 60.0, api.record)
    manager.store.owner = "k8s/shop/topiarist"
    manager.store.upsert(parse_resource(api.cluster))
    manager.store.upsert(parse_resource(api.body))
    passes = Passes(manager)
    passes.state = state
    for verdict in verdicts:
        passes.verdict = verdict
        await manager._reconcile("prod", cast(ClusterWorker, passes))
    return manager


ACTIVE = Verdict(Issue(Reason.STRIMZI_ACTIVE, "Strimzi has it"), may_tell=False)
ASKED = Verdict(Issue(Reason.TAKING_OVER, "wait"), may_tell=True)
MINE = Verdict(None, may_tell=True, is_ours=True)
HELD_BY_STRIMZI = {"finalizers": [STRIMZI_FINALIZER]}


@virtual_time
async def test_a_kafka_topic_of_another_operator_is_not_touched() -> None:
    """Neither status nor finalizer; its Event and that of the Cluster are posted once, and the Cluster says so."""
    api = Api(resource_bodies.kafka_topic("orders", meta=HELD_BY_STRIMZI))
    api.body["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "topicName": "orders"}
    await passes_over(api, ACTIVE, ACTIVE, ACTIVE)
    assert api.writes == []
    assert sorted(api.events) == ["orders StrimziActive", "prod StrimziActive"]
    (alarm,) = (each for each in api.cluster["status"]["conditions"] if each["type"] == "StrimziActive")
    assert alarm["message"] == "Strimzi has it; KafkaTopics that are left to it: 1"


@virtual_time
async def test_the_cluster_names_the_first_of_several_reasons() -> None:
    """The KafkaTopics that another operator has are counted, and the reason of the first one is that of the Cluster."""
    manager = await passes_over(Api(resource_bodies.kafka_topic("orders")))
    issues = [Issue(Reason.STRIMZI_ACTIVE, f"{name} has it") for name in ("Kafka a", "Kafka b")]
    verdicts = [*(Verdict(issue, may_tell=False) for issue in issues), MINE]
    manager.store.verdicts["prod"] = {("shop", str(number)): each for number, each in enumerate(verdicts)}
    assert manager._alarms("prod") == {"StrimziActive": "Kafka a has it; KafkaTopics that are left to it: 2"}


@virtual_time
async def test_a_write_of_another_operator_repeats_no_event() -> None:
    """The status of its KafkaTopic never says what was posted."""
    api = Api(resource_bodies.kafka_topic("orders"))
    manager = await passes_over(api, ACTIVE)
    passes = Passes(manager)
    passes.verdict = ACTIVE
    for _ in range(2):
        manager.store.upsert(parse_resource(api._changed(status={"topicName": "orders"})))
        await manager._reconcile("prod", cast(ClusterWorker, passes))
    assert api.events.count("orders StrimziActive") == 1


@virtual_time
async def test_a_kafka_topic_in_step_is_not_looked_at_again() -> None:
    """Ten thousand of them cost a pass nothing; one that no pass plans is looked at by each."""
    for kafka_topic, count in (
        (resource_bodies.kafka_topic("orders"), 0),
        (resource_bodies.kafka_topic("orders", color="red"), 1),
        (resource_bodies.kafka_topic("orders", meta=HELD_BY_STRIMZI), 0),
    ):
        manager = await passes_over(Api(kafka_topic), MINE)
        assert len([*manager._changed_kafka_topics("prod", manager.store.verdicts["prod"])]) == count


@virtual_time
async def test_a_kafka_topic_that_no_pass_has_judged_is_not_touched() -> None:
    """As while the definitions in the API server prevent every pass."""
    api = Api(resource_bodies.kafka_topic("orders", meta=HELD_BY_STRIMZI))
    manager = await passes_over(api)
    assert [*manager._changed_kafka_topics("prod", {})] == []
    manager.set_definitions({"Topic": Definition("topics", ("status.clusters",), {"properties": {}})})
    await manager._reconcile("prod", cast(ClusterWorker, Passes(manager)))
    assert api.writes == []


@virtual_time
async def test_a_kafka_topic_is_taken_over_in_two_steps() -> None:
    """First only its status is written; when it is topiarist's, Strimzi's finalizer goes. Then passes write nothing."""
    api = Api(resource_bodies.kafka_topic("orders", meta=HELD_BY_STRIMZI))
    await passes_over(api, ASKED, MINE, MINE, MINE)
    assert api.writes == ["TakingOver", "finalizers []", "Synced"]
    assert {"StrimziActive"}.isdisjoint(each["type"] for each in api.cluster["status"]["conditions"])


@virtual_time
async def test_a_deletion_waits_for_nobody() -> None:
    """A KafkaTopic in deletion loses Strimzi's finalizer when it is topiarist's, and not before; its topic stays."""
    going = {**HELD_BY_STRIMZI, "deletionTimestamp": at(1)}
    api = Api(resource_bodies.kafka_topic("orders", meta=going))
    await passes_over(api, ACTIVE, ASKED)
    assert api.writes == ["TakingOver"]
    api = Api(resource_bodies.kafka_topic("orders", meta=going))
    await passes_over(api, MINE)
    assert api.writes == ["finalizers []"]


@virtual_time
async def test_strimzis_finalizer_goes_also_from_what_no_pass_plans() -> None:
    """A KafkaTopic in deletion has no result; a finalizer that comes back is removed by the next pass."""
    going = {"finalizers": ["backup"], "deletionTimestamp": at(1)}
    api = Api(resource_bodies.kafka_topic("orders", meta=going))
    manager = await passes_over(api, MINE)
    assert api.writes == []
    api._changed(metadata={**api.body["metadata"], "finalizers": ["backup", STRIMZI_FINALIZER]})
    manager.store.upsert(parse_resource(api.body))
    await manager._reconcile("prod", cast(ClusterWorker, Passes(manager)))
    assert api.writes == ["finalizers ['backup']"]


@virtual_time
async def test_strimzis_finalizer_goes_again_from_what_is_in_step() -> None:
    """Its status is as it should be, and there is something to write all the same."""
    api = Api(resource_bodies.kafka_topic("orders"))
    manager = await passes_over(api, MINE)
    manager.store.upsert(parse_resource(api._changed(metadata={**api.body["metadata"], **HELD_BY_STRIMZI})))
    await manager._reconcile("prod", cast(ClusterWorker, Passes(manager)))
    assert api.writes == ["Synced", "finalizers []"]


@virtual_time
async def test_a_consent_to_deletion_holds_the_resource() -> None:
    """Topiarist's finalizer comes before Strimzi's goes; it goes again when the Cluster no longer has this source."""
    consent = {"annotations": {"topiarist.dev/deletion-policy": "Delete"}, **HELD_BY_STRIMZI}
    api = Api(resource_bodies.kafka_topic("orders", meta=consent))
    manager = await passes_over(api, MINE)
    both, ours = [STRIMZI_FINALIZER, "topiarist.dev/finalizer"], ["topiarist.dev/finalizer"]
    assert api.writes == [f"finalizers {both}", f"finalizers {ours}", "Synced"]
    api.cluster["metadata"] |= {"generation": 2, "resourceVersion": "9000"}
    api.cluster["spec"] = {**api.cluster["spec"], "sources": ["Topic"]}
    await manager._reconcile("prod", cast(ClusterWorker, Passes(manager)))
    assert api.writes[3:] == ["finalizers []"]


@virtual_time
async def test_strimzis_finalizer_is_strimzis() -> None:
    """Neither finalizer is removed while another operator has the KafkaTopic; without a source only topiarist's is."""
    both = [STRIMZI_FINALIZER, "topiarist.dev/finalizer"]
    consent = {"annotations": {"topiarist.dev/deletion-policy": "Delete"}, "finalizers": both}
    api = Api(resource_bodies.kafka_topic("orders", meta=consent))
    manager = await passes_over(api, ACTIVE)
    assert api.writes == []
    api.cluster["metadata"] |= {"generation": 2, "resourceVersion": "9000"}
    api.cluster["spec"] = {**api.cluster["spec"], "sources": ["Topic"]}
    await manager._reconcile("prod", cast(ClusterWorker, Passes(manager)))
    assert api.writes == [f"finalizers {[STRIMZI_FINALIZER]}"]


@virtual_time
async def test_a_kafka_topic_that_cannot_be_read_says_why() -> None:
    """Its condition and its Event have the field, as soon as it is topiarist's."""
    api = Api(resource_bodies.kafka_topic("orders", config={"retention.ms": "soon"}))
    await passes_over(api, ACTIVE, MINE, MINE)
    assert api.writes == ["InvalidManifest"]
    assert "spec.config.retention.ms" in api.body["status"]["conditions"][0]["message"]
    assert "orders ValidationFailed" in api.events
    # An earlier release could read it, and its status is of this generation.
    api.body |= {"status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}}
    api.body["metadata"]["managedFields"] = [{"manager": OURS, "time": at(50), "fieldsV1": {"f:status": {}}}]
    api._changed()
    await passes_over(api, MINE)
    assert api.writes == ["InvalidManifest", "InvalidManifest"]


@virtual_time
async def test_an_outage_changes_no_status() -> None:
    """A pass that ends early keeps the status of a KafkaTopic, unless another operator turns out to have it, or the
    status is that of another spec.
    """
    api = Api(resource_bodies.kafka_topic("orders"))
    manager = await passes_over(api, MINE)
    api.body["metadata"]["managedFields"] = [
        {"manager": OURS, "time": at(50), "fieldsV1": {"f:status": {"f:conditions": {}}}}
    ]
    manager.store.upsert(parse_resource(api._changed()))
    failing = Passes(manager)

    async def fail(*_: Any) -> ReconcileResult:
        manager.store.verdicts["prod"] = {each.key: failing.verdict for each in manager.store.kafka_topics("prod")}
        return ReconcileResult([], error=TopiaristError(Reason.UNREACHABLE, "no answer"))

    failing.reconcile = fail  # type: ignore[method-assign, assignment]
    await manager._reconcile("prod", cast(ClusterWorker, failing))
    assert api.writes == ["Synced"]
    failing.verdict = ASKED
    await manager._reconcile("prod", cast(ClusterWorker, failing))
    assert api.writes == ["Synced", "TakingOver"]
    failing.verdict = MINE
    changed = {**api.body["metadata"], "generation": 2}
    manager.store.upsert(parse_resource(api._changed(metadata=changed)))
    await manager._reconcile("prod", cast(ClusterWorker, failing))
    assert api.writes == ["Synced", "TakingOver", "Unreachable"]
