"""A pass with what it needs of the API server: what is being deleted with whom, Secrets, policies; and a session."""

from __future__ import annotations

import asyncio
import base64
import copy
import stat
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, NamedTuple, Self

import pytest
from msgspec.structs import replace

from support import builders
from support.kubernetes import resource_bodies
from support.kubernetes.passes import spec_of
from support.memory_cluster import MemoryCluster
from topiarist.adapters import cel
from topiarist.adapters.tls import build_ssl_context
from topiarist.desired import parse
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import cluster_worker
from topiarist.kubernetes.cache import Candidate, Store, build_candidate
from topiarist.kubernetes.client import ApiError
from topiarist.kubernetes.cluster_worker import (
    CRD_TERMINATING,
    NAMESPACE_TERMINATING,
    ClusterSession,
    ClusterWorker,
    PolicyCache,
    SecretValues,
    errors_of_policy,
    secret_keys,
    write_secret_files,
)
from topiarist.kubernetes.identity import ClusterIdentities
from topiarist.kubernetes.reconciler import ReconcileRequest, ReconcileResult
from topiarist.kubernetes.resources import FINALIZER, Resource, ResourceSource, definition_path, parse_resource
from topiarist.model import spec as spec_
from topiarist.model.access import KafkaAccess, SecretKeyRef, SecretReference, map_references
from topiarist.model.plan import Issue, Plan, RunOptions
from topiarist.model.policy import Policy, Rule
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.planning.planner import make_plan
from topiarist.schema import check

# The policies of the operator: compiled once, and never passed by because they are broken.

PROD, TEST = (spec_of(resource_bodies.cluster(name, meta={"labels": {"env": name}})) for name in ("prod", "test"))
NO_KEY = 'topic.config["retention.ms"] == "1"'
ON_CHANGE = {"subject": "Change", "expression": 'topic.config["retention.ms"] == "1"'}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rules of each court that was made."""
    found: list[int] = []
    plain = cel.CelRuleEvaluator.__init__

    def counting(self: cel.CelRuleEvaluator, rules: Iterable[Rule]) -> None:
        listed = list(rules)
        found.append(len(listed))
        plain(self, listed)

    monkeypatch.setattr(cel.CelRuleEvaluator, "__init__", counting)
    return found


def law(name: str = "law", *rules: dict[str, Any], **selector: Any) -> Policy:
    """A Policy as the store keeps it."""
    found = resource_bodies.policy(name, *rules, **({"selector": selector} if selector else {}))
    assert found.manifest is not None, found.errors
    return parse.parse_policy(found.manifest)


def wishes(spec: ClusterSpec, *topics: Resource) -> list[Candidate]:
    """Topics on a cluster."""
    return [build_candidate(each, merge(each.manifest, spec)) for each in topics if each.manifest]


def left(
    policing: PolicyCache, policies: list[Policy], *, spec: ClusterSpec = PROD, unreadable: tuple[str, ...] = ()
) -> Plan:
    """What policies leave of a plan that creates one topic and grows another."""
    found = wishes(spec, resource_bodies.topic("new"), resource_bodies.topic("old", partitions=6))
    state = builders.state(builders.topic("old", 3))
    plan = make_plan(state, spec, [each.spec for each in found], RunOptions())
    return policing.build_filter(policies, unreadable, spec, found)(plan)


def changed(plan: Plan) -> list[str]:
    """The topics that may be changed."""
    return [topic.topic for topic in plan.actionable_topics()]


def refused(plan: Plan) -> dict[str, tuple[Reason, str]]:
    """Why each other topic may not."""
    return {
        topic.topic: (topic.refusals[0].reason, topic.refusals[0].message) for topic in plan.topics if topic.refusals
    }


def test_without_policies_everything_may_be_done(compiled: list[int]) -> None:
    """The very same plan; nor is the library of the language needed."""
    assert changed(left(PolicyCache(), [])) == ["new", "old"]
    assert compiled == []


def test_a_rule_holds_back_what_it_denies() -> None:
    """Of topics and of changes; the rest is done, and a warning holds nothing back."""
    small = law("small", {"expression": "topic.partitions <= 3", "message": "too many"})
    plan = left(PolicyCache(), [small])
    assert changed(plan) == ["new"]
    assert refused(plan) == {"old": (Reason.POLICY_DENIED, "too many (policy small, rule r0)")}
    fixed = law("fixed", {"subject": "Change", "expression": 'change.kind != "CreateTopic"'})
    assert changed(left(PolicyCache(), [fixed])) == ["old"]
    assert changed(left(PolicyCache(), [law("mild", {"expression": "false", "action": "Warn"})])) == ["new", "old"]


def test_rules_are_compiled_once(compiled: list[int]) -> None:
    """For all passes of all clusters, until one of them changes."""
    policing, policies = PolicyCache(), [law("a", {"expression": "true"}, {"expression": "topic.partitions < 9"})]
    for spec in (PROD, TEST, PROD):
        left(policing, [*policies], spec=spec)
    assert compiled == [2]
    policies = [*policies, law("b", {"expression": "true"})]
    left(policing, policies)
    left(policing, [*policies])
    assert compiled == [2, 3]
    left(
        policing, [*policies[:1], law("b", {"expression": "true"})]
    )  # changed: another object, though it says the same
    assert compiled == [2, 3, 3]


def test_a_policy_that_cannot_be_read_holds_back_every_change() -> None:
    """It does so on every cluster, since its rules and its scope are unknown."""
    plan = left(PolicyCache(), [law("fine", {"expression": "true"})], unreadable=("broken", "other"))
    assert changed(plan) == []
    assert {reason for reason, _ in refused(plan).values()} == {Reason.INVALID_MANIFEST}
    assert refused(plan)["new"][1] == "Policy broken cannot be read"
    assert plan.topics[0].refusals[0].hint == "correct or delete the Policy: until then nothing is changed"
    assert changed(left(PolicyCache(), [], unreadable=("broken",))) == []


BROKEN_RULES = [
    ({"expression": "topic.partitons < 3"}, 'does not compile: unknown name "topic.partitons"'),
    ({"expression": "topic.partitions"}, "evaluates to int, wanted true or false"),
    ({"expression": NO_KEY}, "found no key"),
    (ON_CHANGE, "found no key"),
    ({"subject": "Change", "expression": "change.nothing"}, "does not compile"),
]


@pytest.mark.parametrize(("rule", "words"), BROKEN_RULES)
def test_a_rule_that_cannot_be_judged_holds_back_every_change(rule: dict[str, str], words: str) -> None:
    """Also one that fails only when it meets a change; what is wrong is kept for the status of its Policy."""
    policing, policies = PolicyCache(), [law("fine", {"expression": "true"}), law("broken", rule)]
    for _ in range(3):  # in every pass: it is never passed by because it is known
        plan = left(policing, policies)
        assert changed(plan) == []
        reasons = {(reason, words in message) for reason, message in refused(plan).values()}
        assert reasons == {(Reason.POLICY_DENIED, True)}
        (fault,) = errors_of_policy("broken", policing.rule_errors["prod"])
        assert fault.startswith("policy broken, rule r0: ")
        assert words in fault
        assert errors_of_policy("fine", policing.rule_errors["prod"]) == []


@pytest.mark.parametrize(("rule", "words"), BROKEN_RULES)
def test_a_broken_rule_holds_back_only_what_it_is_for(rule: dict[str, str], words: str) -> None:
    """The topics and clusters that its Policy selects; a rule that only warns could deny nothing, so it holds nothing
    back.
    """
    policing = PolicyCache()
    plan = left(policing, [law("broken", rule, topics=["o*"])])
    assert changed(plan) == ["new"]
    assert words in refused(plan)["old"][1]
    assert words in policing.rule_errors["prod"][0]
    assert changed(left(policing, [law("broken", {**rule, "action": "Warn"})])) == ["new", "old"]
    assert words in policing.rule_errors["prod"][0]
    elsewhere = [law("broken", rule, clusterSelector={"matchLabels": {"env": "test"}})]
    assert changed(left(policing, elsewhere)) == ["new", "old"]
    held = left(policing, elsewhere, spec=TEST)
    assert (changed(held), words in refused(held)["new"][1]) == ([], True)


@pytest.mark.parametrize("subject", ["Topic", "Change"])
def test_a_rule_that_fails_for_one_topic_holds_back_that_topic(subject: str) -> None:
    """It is judged for all others, and denies what it denies."""
    rule = {"subject": subject, "expression": 'topic.name == "new" || topic.config["x"] == "1"'}
    plan = left(PolicyCache(), [law("broken", rule)])
    assert changed(plan) == ["new"]
    assert "found no key" in refused(plan)["old"][1]
    denying = {"subject": subject, "expression": 'topic.name == "old" ? false : topic.config["x"] == "1"'}
    assert changed(left(PolicyCache(), [law("broken", denying)])) == []


def test_rules_are_checked_without_any_cluster() -> None:
    """What does not compile is known before a pass meets it."""
    policing = PolicyCache()
    assert policing.check_rules([]) == []
    (fault,) = policing.check_rules([law("fine"), law("broken", {"expression": "topic.partitons < 3"})])
    assert fault.startswith("policy broken, rule r0: does not compile")
    (fault,) = policing.check_rules([law("broken", {"expression": "size < 3"})])
    assert fault.endswith('unknown name "size", at line 1, column 1 of the expression')  # there is no hint to add
    assert policing.check_rules([law("broken", {"expression": "topic.partitions < 3"})]) == []


def test_what_was_mended_counts_at_once() -> None:
    """Its error is not reported any more, also beside a Policy that cannot be read."""
    policing = PolicyCache()
    left(policing, [law("a", {"expression": NO_KEY})])
    mended = [law("a", {"expression": "true"})]
    left(policing, mended, unreadable=("b",))
    assert policing.rule_errors["prod"] == []
    assert changed(left(policing, mended)) == ["new", "old"]
    left(policing, [law("a", {"expression": NO_KEY})])
    assert changed(left(policing, [])) == ["new", "old"]
    assert not policing.rule_errors.get("prod")


def test_a_rule_that_was_given_up_is_passed_by_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the next pass nor in that of another cluster that is under way: all its changes are held."""
    monkeypatch.setattr(cel, "EVALUATION_GRACE_S", -1.0)
    policing, policies = PolicyCache(), [law("slow", {"subject": "Change", "expression": "true"})]
    found = wishes(TEST, resource_bodies.topic("new"))
    plan = make_plan(builders.state(), TEST, [each.spec for each in found], RunOptions())
    guard = policing.build_filter(policies, (), TEST, found)  # under way, with the same court
    for spec in (PROD, PROD):
        assert changed(left(policing, policies, spec=spec)) == []
        assert "is not evaluated any more" in policing.rule_errors["prod"][0]
    monkeypatch.setattr(cel, "EVALUATION_GRACE_S", 1000.0)
    assert changed(guard(plan)) == []
    assert changed(left(policing, policies)) == ["new", "old"]


def test_annotations_can_be_asked_for() -> None:
    """Those of the resource."""
    found = [law("owned", {"expression": '"team" in topic.annotations'})]
    for notes, may in (({}, []), ({"team": "shop"}, ["new"])):
        topics = wishes(PROD, resource_bodies.topic("new", meta={"annotations": notes}))
        plan = make_plan(builders.state(), PROD, [each.spec for each in topics], RunOptions())
        assert changed(PolicyCache().build_filter(found, (), PROD, topics)(replace(plan))) == may


def test_what_is_wrong_is_known_before_any_plan() -> None:
    """A cluster that cannot be read has no errors; with the last Policy all errors are removed."""
    policing = PolicyCache()
    policing.build_filter([law("broken", {"expression": "topic.partitons < 3"})], (), PROD, [])
    assert "does not compile" in policing.rule_errors["prod"][0]
    policing.build_filter([], (), PROD, [])
    assert policing.rule_errors == {}


def test_one_fault_hides_no_other() -> None:
    """A rule that does not compile is reported beside one that fails for a change."""
    policing = PolicyCache()
    broken = law("broken", {"expression": "topic.partitons < 3"}, ON_CHANGE)
    assert changed(left(policing, [broken])) == []
    assert "does not compile" in policing.rule_errors["prod"][0]


def test_a_topic_that_may_not_be_declared_is_not_judged() -> None:
    """A rule that cannot be evaluated for it would hold back all others."""
    found = wishes(PROD, resource_bodies.topic("new", config={"retention.ms": 1}), resource_bodies.topic("stranger"))
    conflict = Issue(Reason.RESOURCE_CONFLICT, "another declares it")
    found[1] = found[1]._replace(refusals=(conflict,))
    policing = PolicyCache()
    guard = policing.build_filter([law("a", {"expression": NO_KEY})], (), PROD, found)
    plan = make_plan(builders.state(), PROD, [found[0].spec], RunOptions())
    assert changed(guard(plan)) == ["new"]
    assert policing.rule_errors["prod"] == []


OWNER = "k8s/shop/topiarist"
TOPICS = "/apis/topiarist.dev/v1/namespaces/shop/topics"
PIN = "topiarist.dev/cluster-id"
SHOP, PAY, SECRET = "/api/v1/namespaces/shop", "/api/v1/namespaces/pay", "/api/v1/namespaces/shop/secrets/zookeeper"
GOING: dict[str, Any] = {"deletionTimestamp": "2026-02-01T00:00:00Z", "finalizers": [FINALIZER]}
STAYS: Mapping[str, Any] = {"metadata": {}}
GOES: Mapping[str, Any] = {"metadata": {"deletionTimestamp": "2026-02-01T00:00:00Z"}}
GONE, FORBIDDEN, BROKEN = 404, 403, 503


class Server:
    """An API server that has these objects, or answers with these codes."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any] | int]) -> None:
        self.hangs = False
        self.objects = {definition_path("Topic"): STAYS, SHOP: STAYS, PAY: STAYS, **objects}
        self.topics: dict[str, Mapping[str, Any]] = {}
        self.topics_answer = 200
        self.asked: list[str] = []

    async def get(self, path: str, **params: str) -> Mapping[str, Any]:
        """One of them, or the list of the Topics with a name."""
        if name := params.get("fieldSelector", "").removeprefix("metadata.name="):
            self.asked.append(f"{path} {name}")
            if self.hangs:
                await asyncio.Event().wait()
            if self.topics_answer != 200:
                raise ApiError(self.topics_answer, "no answer")
            return {"items": [self.topics[name]] if name in self.topics else []}
        self.asked.append(path)
        found = self.objects.get(path, GONE)
        if isinstance(found, int):
            raise ApiError(found, f"{path}: {found}")
        return found


class Session:
    """A cluster in memory in place of a session. Opening it raises ``error``."""

    def __init__(self, state: ClusterState) -> None:
        self.port = MemoryCluster(state)
        self.secrets: Mapping[SecretKeyRef, str] | None = None
        self.error: TopiaristError | None = None
        self.closed = 0
        self.usage_reads = 0
        self.kafka_id = self.cluster_id = ""
        self.notices: Sequence[str] = ()

    def take_notices(self) -> Sequence[str]:
        """The notices that a test has set."""
        return self.notices

    def cluster(self, _spec: ClusterSpec, secrets: Mapping[SecretKeyRef, str], _records_id: str) -> MemoryCluster:
        """The cluster."""
        if self.error:
            raise self.error
        self.secrets, self.cluster_id = secrets, self.kafka_id
        return self.port

    def open_usage_reader(self, _spec: ClusterSpec, _secrets: Mapping[SecretKeyRef, str]) -> None:
        """Return no reader: no broker can be asked who uses a topic."""
        self.usage_reads += 1

    def close(self) -> None:
        """End it."""
        self.closed += 1

    def requests(self) -> dict[tuple[str, str], int]:
        """Nothing was asked."""
        return {}


class KafkaTopics:
    """What is known of KafkaTopics beside the resources: an error, and the topic operators of Strimzi."""

    def __init__(self) -> None:
        self.error: TopiaristError | None = None
        self.declared: set[tuple[str, str]] = set()

    def problem(self) -> TopiaristError | None:
        """The error."""
        return self.error

    async def operators(self) -> set[tuple[str, str]]:
        """The operators."""
        return self.declared


class World(NamedTuple):
    """A Cluster, its Topics and all that they need."""

    store: Store
    server: Server
    session: Session
    kafka_topics: KafkaTopics

    def look(self) -> ReconcileResult:
        """One pass over ``prod``."""

        async def work() -> ReconcileResult:
            round_ = make_worker(self)
            seen = await round_.reconcile(self.store, self.store.clusters["prod"], OWNER)
            await round_.close()
            return seen

        return asyncio.run(work())

    @property
    def topics(self) -> set[str]:
        """What the cluster has."""
        return {*self.session.port.state.topics}


def make_worker(world: World, *, stop: bool = False) -> ClusterWorker:
    """Return the worker of the Cluster in a world."""
    server: Any = world.server
    session: Any = world.session
    identities = ClusterIdentities(server, world.store)
    return ClusterWorker(server, PolicyCache(), session, lambda: stop, identities, world.kafka_topics)


def world(*found: Resource, home: Resource | None = None, state: ClusterState | None = None, **objects: Any) -> World:
    """What is declared, and what the API server answers otherwise: of ``shop``, ``pay``, ``definition``, ``secret``."""
    paths = {"shop": SHOP, "pay": PAY, "definition": definition_path("Topic"), "secret": SECRET}
    store = Store("shop", lambda *_: None)
    for each in (
        home or resource_bodies.cluster(allowDeletion=True, allowedTopics=[{"namespaces": {"from": "All"}}]),
        *found,
    ):
        store.upsert(each)
    held = builders.state(*(builders.topic(each.name, 3, owner=OWNER) for each in found if each.kind == "Topic"))
    server = Server({paths[name]: body for name, body in objects.items()})
    server.topics = {
        each.name: resource_bodies.body_of(each) for each in found if each.kind == "Topic" and each.manifest
    }
    return World(store, server, Session(state or held), KafkaTopics())


def leaving(name: str = "orders", namespace: str = "shop") -> Resource:
    """A Topic that is being deleted, with its topic."""
    return resource_bodies.topic(name, deletionPolicy="Delete", meta={**GOING, "namespace": namespace})


def told(seen: ReconcileResult) -> dict[str, list[tuple[Reason, str]]]:
    """What stands against each topic."""
    return {
        view.candidate.spec.topic: [(each.reason, each.message) for each in view.refusals]
        for view in seen.topic_results
    }


def test_a_topic_goes_with_its_resource() -> None:
    """A topic is deleted if neither its namespace nor its kind is; without a deletion the API server is not asked."""
    found = world(leaving(), resource_bodies.topic("stays"))
    assert told(found.look()) == {"orders": [], "stays": []}
    assert found.topics == {"stays"}
    assert found.server.asked == [definition_path("Topic"), SHOP, f"{TOPICS} orders"]
    quiet = world(resource_bodies.topic("stays"))
    quiet.look()
    assert quiet.server.asked == []
    assert (found.session.usage_reads, quiet.session.usage_reads) == (2, 0)  # planned, and again before the write


def without_topic(server: Server) -> None:
    """Remove the Topic: a user has removed its finalizer."""
    server.topics.clear()


def recreated_topic(server: Server) -> None:
    """Replace the Topic by another one of its name."""
    server.topics["orders"] = resource_bodies.body_of(resource_bodies.topic("orders", deletionPolicy="Delete"))


def unanswered_topic(server: Server) -> None:
    """Let the API server answer no list of Topics."""
    server.topics_answer = BROKEN


@pytest.mark.parametrize("change", [without_topic, recreated_topic, unanswered_topic])
def test_no_topic_is_deleted_because_of_an_old_view(change: Callable[[Server], None]) -> None:
    """A Topic that was deleted or recreated since it was watched, or that cannot be read, deletes no topic."""
    found = world(leaving())
    change(found.server)
    seen = found.look()
    assert [reason for reason, _ in told(seen)["orders"]] == [Reason.STATE_CONFLICT]
    assert [view.is_in_progress for view in seen.topic_results] == [True]
    assert found.topics == {"orders"}


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"definition": GOES}, CRD_TERMINATING),
        ({"definition": GONE}, CRD_TERMINATING),
        ({"shop": GOES}, NAMESPACE_TERMINATING),
        ({"shop": GONE}, NAMESPACE_TERMINATING),
    ],
)
def test_no_topic_goes_because_something_larger_does(answers: dict[str, Any], why: str) -> None:
    """A deletion of the namespace or of the kind deletes no topic: it is held, with the remedy in the message."""
    found = world(leaving(), resource_bodies.topic("stays"), **answers)
    assert told(found.look()) == {"orders": [(Reason.DELETION_HELD, why)], "stays": []}
    assert found.topics == {"orders", "stays"}


def test_a_topic_that_another_cluster_declares_too_does_not_go() -> None:
    """Two Clusters of one Kafka cluster: the deletion is held, and the message names who still declares the topic."""
    pin = {"annotations": {PIN: builders.CLUSTER_ID}}
    home = resource_bodies.cluster(allowDeletion=True, meta=pin)
    other = resource_bodies.topic("kept", topicName="orders", clusters=["second"])
    going = resource_bodies.topic("orders", deletionPolicy="Delete", clusters=["prod"], meta=GOING)
    seen = builders.state(builders.topic("orders", 3, owner=OWNER))
    found = world(going, resource_bodies.cluster("second", meta=pin), other, home=home, state=seen)
    (refusal,) = told(found.look())["orders"]
    assert refusal[0] is Reason.DELETION_HELD
    assert "Topic shop/kept of Cluster second, which has the same Kafka cluster, declares it too" in refusal[1]
    assert found.topics == {"orders"}


def test_a_namespace_that_is_known_to_go_is_not_asked_about() -> None:
    """What was watched is enough."""
    found = world(leaving())
    found.store.update_namespace("shop", {}, leaving=True)
    assert told(found.look()) == {"orders": [(Reason.DELETION_HELD, NAMESPACE_TERMINATING)]}
    assert SHOP not in found.server.asked


@pytest.mark.parametrize("asked", ["definition", "shop"])
@pytest.mark.parametrize(("code", "reason"), [(BROKEN, Reason.UNREACHABLE), (FORBIDDEN, Reason.NO_PERMISSION)])
def test_who_cannot_be_told_deletes_nothing(asked: str, code: int, reason: Reason) -> None:
    """The pass ends before it begins, and the Cluster says why."""
    answers: dict[str, Any] = {asked: code}
    found = world(leaving(), **answers)
    error = found.look().error
    assert error is not None
    assert error.reason is reason
    assert found.topics == {"orders"}
    assert found.session.secrets is None


LOGIN = {"username": "kafka", "password": {"secretKeyRef": {"name": "zookeeper", "key": "password"}}}


def test_a_session_gets_the_secrets_that_are_there() -> None:
    """As of now; one that is missing is left out, which the session then says."""
    home = resource_bodies.cluster(zookeeper={"connect": "zk:2181", "digest": LOGIN})
    data = base64.b64encode(b"hush").decode()
    for answer, wanted in (({"data": {"password": data}}, {SecretKeyRef("zookeeper", "password"): data}), (GONE, {})):
        found = world(home=home, secret=answer)
        assert found.look().error is None
        assert found.session.secrets == wanted
        assert found.server.asked == [SECRET]


def test_a_cluster_with_two_addresses_gets_the_secrets_of_both() -> None:
    """The usage of topics is read from the brokers, also if all else goes through ZooKeeper."""
    scram = {**LOGIN, "mechanism": "SCRAM-SHA-512"} | {"password": {"secretKeyRef": {"name": "brokers", "key": "p"}}}
    kafka = {"bootstrapServers": "b1:9093", "sasl": scram}
    found = world(
        home=resource_bodies.cluster(via="ZooKeeper", zookeeper={"connect": "zk:2181", "digest": LOGIN}, kafka=kafka)
    )
    assert found.look().error is None
    assert found.server.asked == [SECRET.replace("zookeeper", "brokers"), SECRET]


def test_the_topic_of_a_resource_that_cannot_be_read_is_declared() -> None:
    """It is not among the topics with the operator's record that no Topic declares."""
    found = world(resource_bodies.topic("broken", partitions=0), resource_bodies.topic("orders"))
    seen = found.look()
    assert (found.topics, seen.undeclared) == ({"broken", "orders"}, 0)


def test_a_secret_that_may_not_be_read_is_named() -> None:
    """Nothing is opened without it."""
    found = world(home=resource_bodies.cluster(zookeeper={"connect": "zk:2181", "digest": LOGIN}), secret=FORBIDDEN)
    error = found.look().error
    assert error is not None
    assert (error.reason, SECRET in str(error)) == (Reason.NO_PERMISSION, True)
    assert found.session.secrets is None


def test_a_cluster_that_cannot_be_read_is_let_alone() -> None:
    """The address of the cluster is unknown, so an open session ends."""
    found = world(resource_bodies.topic("orders"))
    home = found.store.clusters["prod"]
    found.store.upsert(
        parse_resource(
            resource_bodies.body("Cluster", "prod", {"kafkaVersion": "never"}, uid=home.uid, generation=2), home
        )
    )
    error = found.look().error
    assert error is not None
    assert error.reason is Reason.INVALID_MANIFEST
    assert found.session.secrets is None
    assert found.session.closed == 2  # by the pass, and by its end


def test_a_cluster_that_is_not_served_names_the_kafka_cluster_of_another_one() -> None:
    """Its result has the id, which its status shows; a Cluster that fails for another reason has none."""
    first = resource_bodies.cluster(
        "first", meta={"creationTimestamp": "2025-01-01T00:00:00Z", "annotations": {PIN: builders.CLUSTER_ID}}
    )

    async def refuse(_path: str, _body: Mapping[str, Any], _manager: str) -> dict[str, Any]:
        raise ApiError(403, "the annotation is not allowed")

    found = {}
    for name, others in (("second", (first,)), ("only", ())):
        place = world(*others)
        place.session.kafka_id = builders.CLUSTER_ID  # known when the session is open
        place.server.apply = refuse  # type: ignore[attr-defined]
        seen = place.look()
        found[name] = seen.error and seen.error.reason, seen.cluster_id
    assert found == {"second": (Reason.CLUSTER_CONFLICT, builders.CLUSTER_ID), "only": (Reason.NO_PERMISSION, "")}


def test_a_session_that_failed_is_not_used_again(caplog: pytest.LogCaptureFixture) -> None:
    """One that did well is; the notices of either are in the result and in the log."""
    found = world(resource_bodies.topic("orders"))
    found.look()
    assert found.session.closed == 1  # by the end of all passes
    found.session.error = TopiaristError(Reason.UNREACHABLE, "no answer")
    found.session.notices = ("made without min.insync.replicas=2",)
    seen = found.look()
    assert seen.error is found.session.error
    assert seen.notices == found.session.notices
    assert [record.getMessage() for record in caplog.records if "records" in record.getMessage()] == [
        "the topic of records: made without min.insync.replicas=2"
    ]
    assert found.session.closed == 3


def test_limits_hold_what_a_group_uses_too_much() -> None:
    """The limits of Policies and of the Cluster count the topics of all namespaces that the cluster has."""
    limit = {"name": "few", "per": "Namespace", "topics": 1}
    body = resource_bodies.body("Policy", "quota", {"limits": [limit]})
    found = world(
        *(resource_bodies.topic("a"), resource_bodies.topic("b"), parse_resource(body)), state=builders.state()
    )
    reasons = {topic: [reason for reason, _ in refusals] for topic, refusals in told(found.look()).items()}
    assert reasons == {"a": [Reason.LIMIT_EXCEEDED], "b": [Reason.LIMIT_EXCEEDED]}
    assert found.topics == set()


def test_a_topic_that_cannot_be_read_is_in_the_way_of_others() -> None:
    """No other Topic adopts or deletes the topic that it declares."""
    older = resource_bodies.topic("older", topicName="orders", partitions=0)
    found = world(older, resource_bodies.topic("younger", topicName="orders", partitions=6))
    assert [each for each, _ in told(found.look())["orders"]] == [Reason.RESOURCE_CONFLICT]


def test_a_topic_that_cannot_be_read_in_time_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass does not wait for an API server that does not answer; the refusal has the cause."""
    monkeypatch.setattr(cluster_worker, "TOPIC_READ_TIMEOUT_S", 0.05)
    found = world(leaving())
    found.server.hangs = True
    ((reason, message),) = told(found.look())["orders"]
    assert reason is Reason.STATE_CONFLICT
    assert message.endswith("the API server: no answer in time")
    assert found.topics == {"orders"}


def test_requests_to_the_cluster_are_counted_once() -> None:
    """Each pass adds only its own requests to the metrics; none is subtracted."""
    found = world()
    counts: dict[tuple[str, str], int] = {}
    found.session.requests = lambda: counts  # type: ignore[method-assign]
    worker = make_worker(found)
    read, multi = ("read", "ok"), ("multi", "failed")
    for now, new in (({read: 3}, {read: 3}), ({read: 3}, {}), ({read: 5, multi: 1}, {read: 2, multi: 1})):
        counts = now
        assert worker.new_requests() == new


def test_an_operator_that_ends_writes_nothing_more() -> None:
    """A pass in progress sends no further topic, and reports it as not sent."""
    found = world(resource_bodies.topic("orders"), state=builders.state())

    async def work() -> ReconcileResult:
        worker = make_worker(found, stop=True)
        seen = await worker.reconcile(found.store, found.store.clusters["prod"], OWNER)
        await worker.close()
        return seen

    assert [reason for reason, _ in told(asyncio.run(work()))["orders"]] == [Reason.NOT_SENT]
    assert found.topics == set()


def test_a_pass_that_ends_early_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log names the cluster and the error."""
    found = world()
    found.session.error = TopiaristError(Reason.UNREACHABLE, "no answer")
    found.look()
    (record,) = (each for each in caplog.records if each.name == cluster_worker.__name__)
    assert (vars(record)["cluster"], vars(record)["error"]) == ("prod", "no answer")


def test_a_second_pass_plans_only_what_is_new() -> None:
    """The worker keeps the plans and the moves from one pass to the next."""
    found = world(resource_bodies.topic("orders"))
    requests = []

    def keep(_cluster: object, request: ReconcileRequest, *_: object) -> ReconcileResult:
        requests.append(request)
        return ReconcileResult([])

    async def work() -> None:
        worker = make_worker(found)
        for _ in range(2):
            await worker.reconcile(found.store, found.store.clusters["prod"], OWNER)
        await worker.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_worker, "reconcile_cluster", keep)
        asyncio.run(work())
    first, second = requests
    assert (first.plan_cache, first.move_tracker) == (second.plan_cache, second.move_tracker)
    assert first.owner == OWNER


# Sessions with clusters: kept from pass to pass, and opened again for new secrets; only the operator reads these.

PASSWORD, OTHER = "first", "the-second"
LOGIN_KEY = SecretKeyRef("login", "password")


def named(name: str, key: str) -> dict[str, Any]:
    """A reference to a Secret."""
    return {"secretKeyRef": {"name": name, "key": key}}


def spec(**zookeeper: Any) -> ClusterSpec:
    """A Cluster, by default with a login."""
    sasl = {"sasl": {"username": "kafka", "password": named("login", "password")}}
    return spec_of(resource_bodies.cluster(zookeeper={"connect": "zk:2181", **(zookeeper or sasl)}))


def of(**fields: Any) -> ClusterSpec:
    """A Cluster with exactly these fields."""
    return spec_of(parse_resource(resource_bodies.body("Cluster", "prod", fields)))


def secrets(text: str = PASSWORD, *keys: SecretKeyRef) -> SecretValues:
    """What the API server gives."""
    return dict.fromkeys(keys or (LOGIN_KEY,), b64encode(text.encode()).decode())


def references(spec: ClusterSpec) -> list[SecretReference]:
    """The references of a Cluster's access."""
    found: list[SecretReference] = []

    def note(reference: SecretReference) -> SecretReference:
        found.append(reference)
        return reference

    assert spec.access is not None
    map_references(spec.access, note)
    return found


class Opened:
    """What stands in for a session that is open."""

    all: list[Opened]
    fails = False

    def __init__(self, spec: ClusterSpec, **options: Any) -> None:
        self.spec = spec
        self.options = options
        self.requests = Counter({("read", "ok"): 1})
        self.closed = False
        files = [Path(reference.file) for reference in references(spec)]
        self.password = files[0].read_text() if files else ""
        Opened.all.append(self)

    def enable_decode_cache(self) -> Self:
        """Keep what was read."""
        return self

    def read_cluster_id(self) -> str:
        """Return the id of the cluster, which a test may let fail."""
        if Opened.fails:
            raise TopiaristError(Reason.SESSION_LOST, "lost")
        return "id"

    def close(self) -> None:
        """End it."""
        assert not self.closed
        self.closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Opened]:
    """The sessions that were opened."""
    Opened.all = []
    monkeypatch.setattr(cluster_worker, "open_cluster", Opened)
    return Opened.all


def test_a_session_lives_from_pass_to_pass(opened: list[Opened], tmp_path: Path) -> None:
    """As long as nothing that it was opened with has changed; its notices are taken once."""
    session = ClusterSession("k8s/shop/topiarist", tmp_path)
    first = session.cluster(spec(), secrets())
    assert session.cluster(spec(), secrets()) is first
    assert len(opened) == 1
    notify = opened[0].options.pop("on_notice")
    assert opened[0].options == {"owner": "k8s/shop/topiarist", "connect_timeout": 10.0, "lock_timeout": 30.0}
    notify("made without min.insync.replicas=2")
    assert [session.take_notices(), session.take_notices()] == [("made without min.insync.replicas=2",), ()]
    assert opened[0].password == PASSWORD


def test_a_session_without_its_cluster_id_is_opened_again(
    opened: list[Opened], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is lost before its cluster id is read is closed, and no other id is used meanwhile."""
    session = ClusterSession("k8s/shop/topiarist", tmp_path)
    monkeypatch.setattr(Opened, "fails", True)
    with pytest.raises(TopiaristError, match="lost"):
        session.cluster(spec(), secrets())
    monkeypatch.setattr(Opened, "fails", False)
    session.cluster(spec(), secrets())
    assert ([each.closed for each in opened], session.cluster_id) == ([True, False], "id")


@pytest.mark.parametrize(
    ("changed", "given"),
    [
        (spec(), secrets(OTHER)),
        (spec(sasl={"username": "other", "password": named("login", "password")}), secrets()),
        (spec_of(resource_bodies.cluster(zookeeper={"connect": "zk2:2181"})), secrets()),
        (spec(maxBuffer=2_000_000), secrets()),
        (of(kafka={"bootstrapServers": "b1:9092"}), {}),
    ],
)
def test_what_has_changed_opens_a_new_one(
    opened: list[Opened], tmp_path: Path, changed: ClusterSpec, given: SecretValues
) -> None:
    """Secrets, user, address, size, way: the old one is closed first, and what it was asked still counts."""
    session = ClusterSession("o", tmp_path)
    session.cluster(spec(), secrets())
    session.cluster(changed, given)
    session.cluster(changed, given)
    assert [each.closed for each in opened] == [True, False]
    assert session.requests() == {("read", "ok"): 2}


def test_a_rotated_password_is_the_new_one(opened: list[Opened], tmp_path: Path) -> None:
    """The file has the new password before it is read."""
    session = ClusterSession("o", tmp_path)
    for text in (PASSWORD, OTHER):
        session.cluster(spec(), secrets(text))
    assert [each.password for each in opened] == [PASSWORD, OTHER]
    session.close()
    session.close()
    assert [each.closed for each in opened] == [True, True]


ALL: dict[str, Any] = {
    "sasl": {"username": "u", "password": named("login", "password")},
    "digest": {"username": "u", "password": named("login", "digest")},
    "tls": {
        "ca": named("tls", "ca.crt"),
        "certificate": named("tls", "tls.crt"),
        "key": named("tls", "tls.key"),
        "keyPassword": named("tls", "password"),
    },
}
KEYS = {
    SecretKeyRef("login", "password"),
    SecretKeyRef("login", "digest"),
    *(SecretKeyRef("tls", key) for key in ("ca.crt", "tls.crt", "tls.key", "password")),
}


def everything() -> ClusterSpec:
    """A Cluster with all credentials that there can be."""
    return spec(**ALL)


def by_brokers(**kafka: Any) -> ClusterSpec:
    """A Cluster that is reached through its brokers."""
    return of(kafka={"bootstrapServers": "b1:9093", **kafka})


SCRAM = {"mechanism": "SCRAM-SHA-512", "username": "u", "password": named("login", "password")}
OAUTH = {
    "mechanism": "OAUTHBEARER",
    "tokenEndpoint": "https://login.example.com/token",
    "clientId": "u",
    "clientSecret": named("login", "secret"),
    "ca": named("login", "ca.crt"),
}
TLS_KEYS = {key for key in KEYS if key.name == "tls"}
BROKERS = {
    "scram": (by_brokers(sasl=SCRAM, tls=ALL["tls"]), TLS_KEYS | {LOGIN_KEY}),
    "oauth": (by_brokers(sasl=OAUTH), {SecretKeyRef("login", "secret"), SecretKeyRef("login", "ca.crt")}),
    "tls": (by_brokers(tls=ALL["tls"]), TLS_KEYS),
}


@pytest.mark.parametrize("form", BROKERS)
def test_secrets_for_brokers_are_files_too(form: str, tmp_path: Path) -> None:
    """Logins, client secrets and certificates of ``spec.kafka`` are asked for by name, and written for the session."""
    cluster, keys = BROKERS[form]
    assert secret_keys(cluster.access) == keys
    found = write_secret_files(cluster, {key: b64encode(key.key.encode()).decode() for key in keys}, tmp_path)
    assert {Path(each.file).read_text() for each in references(found)} == {key.key for key in keys}
    assert {each.secret for each in references(found)} == keys
    for missing in keys:
        with pytest.raises(TopiaristError, match=f"no key {missing.key} in a Secret {missing.name}") as caught:
            write_secret_files(cluster, {key: "" for key in keys if key != missing}, tmp_path)
        assert caught.value.reason is Reason.CREDENTIALS_INVALID
        assert str(caught.value).startswith("spec.kafka.")


def test_only_the_used_way_needs_its_secrets() -> None:
    """With both sections, the Secrets of the one that ``via`` names are read."""
    kafka = {"bootstrapServers": "b1:9093", "sasl": OAUTH}
    zookeeper = {"connect": "zk:2181", "sasl": ALL["sasl"]}
    for via, keys in (("Kafka", BROKERS["oauth"][1]), ("ZooKeeper", {LOGIN_KEY})):
        both = of(via=via, kafka=kafka, zookeeper=zookeeper)
        assert secret_keys(both.access) == keys


def test_only_named_secrets_are_asked_for() -> None:
    """Every key that the Cluster names, and none besides."""
    assert secret_keys(everything().access) == KEYS
    assert secret_keys(spec_of(resource_bodies.cluster()).access) == frozenset()


def test_secrets_lie_in_files_that_nobody_else_can_read(tmp_path: Path) -> None:
    """One for each, with what the Secret has, whatever mask there is."""
    found = write_secret_files(everything(), {key: b64encode(key.key.encode()).decode() for key in KEYS}, tmp_path)
    files = [Path(reference.file) for reference in references(found)]
    assert {path.read_text() for path in files} == {key.key for key in KEYS}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_errors_name_the_secret_and_not_its_file(tmp_path: Path) -> None:
    """The file is in the operator's pod, in a folder with another name after each start: a status must not name it."""
    found = write_secret_files(BROKERS["tls"][0], dict.fromkeys(TLS_KEYS, b64encode(b"junk").decode()), tmp_path)
    assert found.kafka is not None
    assert found.kafka.tls is not None
    with pytest.raises(TopiaristError) as caught:
        build_ssl_context(found.kafka.tls)
    words = "spec.kafka.tls.ca.secretKeyRef: the key ca.crt of the Secret tls holds no certificate in PEM form"
    assert caught.value.message.startswith(words)


@pytest.mark.parametrize("missing", sorted(KEYS))
def test_a_secret_that_is_not_there_is_named(missing: SecretKeyRef, tmp_path: Path) -> None:
    """With its key, and where the Cluster asks for it."""
    there = {key: "" for key in KEYS if key != missing}
    with pytest.raises(TopiaristError) as caught:
        write_secret_files(everything(), there, tmp_path)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
    assert f"there is no key {missing.key} in a Secret {missing.name} of the operator's namespace" in str(caught.value)
    assert str(caught.value).startswith("spec.zookeeper.")


@pytest.mark.parametrize("form", ["file", "env"])
@pytest.mark.parametrize("field", ["password", "digest", "ca", "certificate", "key", "keyPassword"])
def test_what_lies_beside_the_operator_is_never_read(
    field: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reference to a file or a variable ends the session before it is opened, even if the API server accepted it."""
    own = tmp_path / "token"
    own.write_text("token")
    monkeypatch.setenv("TOPIARIST_TOKEN", "token")
    local = {"file": str(own), "env": "TOPIARIST_TOKEN"}[form]
    zookeeper = copy.deepcopy(ALL)
    holder = zookeeper["tls"] if field in zookeeper["tls"] else zookeeper["digest" if field == "digest" else "sasl"]
    holder["password" if field == "digest" else field] = {form: local}
    document = resource_bodies.body("Cluster", "prod", {"zookeeper": {"connect": "zk:2181", **zookeeper}})
    found = parse.parse_cluster_spec(spec_.make_manifest(document, ResourceSource({})))
    given = {key: b64encode(b"x").decode() for key in KEYS}
    with pytest.raises(TopiaristError) as caught:
        write_secret_files(found, given, tmp_path)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
    place, _, words = str(caught.value).partition(": ")
    assert place.endswith(f"{'password' if field == 'digest' else field}.{form}")
    assert words.splitlines() == [
        f"the operator reads no {'file' if form == 'file' else 'environment variable'} that a Cluster names",
        "    put the value into a Secret of the operator's namespace and name it by secretKeyRef",
    ]


@pytest.mark.parametrize(
    ("file", "is_read"),
    [
        ("/var/run/secrets/topiarist.dev/tokens/kafka", True),
        ("/var/run/secrets/topiarist.dev/tokens/..data", False),
        ("/var/run/secrets/topiarist.dev/tokens/../../kubernetes.io/serviceaccount/token", False),
        ("/var/run/secrets/topiarist.dev/tokens/kafka\n", False),
        ("/var/run/secrets/kubernetes.io/serviceaccount/token", False),
        ("tokens/kafka", False),
    ],
)
def test_a_token_for_brokers_is_the_only_file(file: str, is_read: bool, tmp_path: Path) -> None:
    """It is read where it is mounted, in a folder where nothing else is; the schema of resources says the same."""
    login = {"mechanism": "OAUTHBEARER", "token": {"file": file}}
    document = resource_bodies.body("Cluster", "prod", {"kafka": {"bootstrapServers": "b:9092", "sasl": login}})
    assert (not check.check(document, custom_resource=True)) is is_read
    found = parse.parse_cluster_spec(spec_.make_manifest(document, ResourceSource({})))
    if is_read:
        (reference,) = references(write_secret_files(found, {}, tmp_path))
        assert reference.file == file
        return
    with pytest.raises(TopiaristError, match="the operator reads no file that a Cluster names"):
        write_secret_files(found, {}, tmp_path)


def test_a_file_is_never_seen_half_written(tmp_path: Path) -> None:
    """Two clusters that name one Secret write it while the other one reads."""
    texts = {PASSWORD, OTHER}
    started, seen = Barrier(2), set()
    path = Path(references(write_secret_files(spec(), secrets(), tmp_path))[0].file)

    def writes() -> None:
        started.wait()
        for number in range(300):
            write_secret_files(spec(), secrets(PASSWORD if number % 2 else OTHER), tmp_path)

    thread = Thread(target=writes)
    thread.start()
    started.wait()
    while thread.is_alive():
        seen.add(path.read_text())
    thread.join()
    assert seen <= texts


def test_a_session_knows_the_topic_of_records(opened: list[Opened], tmp_path: Path) -> None:
    """The id of an earlier session reaches the access, and a new id alone opens no new session."""
    session = ClusterSession("o", tmp_path)
    by_kafka = of(kafka={"bootstrapServers": "b1:9092"})
    session.cluster(by_kafka, {}, "first")
    session.cluster(by_kafka, {}, "second")
    (only,) = opened
    assert isinstance(only.spec.access, KafkaAccess)
    records = only.spec.access.records
    assert records is not None
    assert records.known_id == "first"


def test_usage_is_read_with_the_secrets_of_the_brokers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Cluster that is reached through ZooKeeper may have brokers too, with a login of their own."""
    asked: list[tuple[ClusterSpec, float]] = []
    monkeypatch.setattr(
        cluster_worker, "open_usage_reader", lambda spec, *, connect_timeout: asked.append((spec, connect_timeout))
    )
    session = ClusterSession("o", tmp_path)
    assert session.open_usage_reader(spec(), secrets()) is None
    assert asked == []
    both = of(
        zookeeper={"connect": "zk:2181"},
        kafka={"bootstrapServers": "b1:9093", "sasl": SCRAM},
        kafkaVersion="3.9",
        via="ZooKeeper",
    )
    session.open_usage_reader(both, secrets())
    ((given, timeout),) = asked
    assert timeout == 10.0
    assert isinstance(given.access, KafkaAccess)
    assert [Path(each.file).read_text() for each in references(given)] == [PASSWORD]


def kafka_topics_of(*found: Resource, **cluster: Any) -> World:
    """A world with a Cluster that takes KafkaTopics."""
    return world(*found, home=resource_bodies.cluster(sources=["Topic", "KafkaTopic"], **cluster))


def test_a_cluster_waits_for_its_kafka_topics() -> None:
    """Without them nothing is written, not even for Topics: one of them may be younger than a KafkaTopic."""
    found = kafka_topics_of(resource_bodies.topic("orders", clusters=["prod"]))
    found.kafka_topics.error = TopiaristError(Reason.PREREQUISITE_MISSING, "no such kind")
    assert found.look().error is found.kafka_topics.error
    found = world(resource_bodies.topic("orders"))
    found.kafka_topics.error = TopiaristError(Reason.PREREQUISITE_MISSING, "no such kind")
    assert found.look().error is None  # it takes none


def test_a_kafka_topic_is_written_when_it_is_nobodys() -> None:
    """What a topic operator of Strimzi has is refused with its reason; without one the topic is created."""
    found = kafka_topics_of(resource_bodies.kafka_topic("orders"), resource_bodies.topic("mine", clusters=["prod"]))
    found.session.port = MemoryCluster(builders.state())
    found.kafka_topics.declared = {("shop", "prod")}
    (refused,) = told(found.look())["orders"]
    assert refused[0] is Reason.STRIMZI_ACTIVE
    assert found.topics == {"mine"}
    found.kafka_topics.declared = set()
    assert told(found.look())["orders"] == []
    assert found.topics == {"mine", "orders"}


def test_a_kafka_topic_of_another_operator_is_refused_for_all_its_reasons() -> None:
    """Its own errors stay after the other operator was removed."""
    found = kafka_topics_of(resource_bodies.kafka_topic("orders", config={"no.such.key": "1"}))
    found.kafka_topics.declared = {("shop", "prod")}
    refusals = told(found.look())["orders"]
    assert [reason for reason, _ in refusals] == [Reason.CONFIG_INVALID, Reason.STRIMZI_ACTIVE]


def test_a_topic_of_records_that_cannot_be_bound_is_the_error_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass has its results all the same; an error that it had before comes first."""
    error = TopiaristError(Reason.UNREACHABLE, "the API server: no answer")

    async def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(ClusterIdentities, "bind_records", fail)
    found = world(resource_bodies.topic("orders")).look()
    assert (found.error, [*told(found)]) == (error, ["orders"])


def test_a_kafka_topic_goes_with_its_consent_alone() -> None:
    """A deletion keeps the topic; with the annotation it goes, unless the definition of KafkaTopics goes with it."""
    consent = {"annotations": {"topiarist.dev/deletion-policy": "Delete"}}
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kafkatopics.kafka.strimzi.io"
    for meta, definition, left in (({}, STAYS, {"orders"}), (consent, GOES, {"orders"}), (consent, STAYS, set())):
        going = resource_bodies.kafka_topic("orders", meta={**GOING, **meta})
        found = kafka_topics_of(going, allowDeletion=True)
        found.session.port = MemoryCluster(builders.state(builders.topic("orders", 3, owner=OWNER)))
        found.server.objects[crd] = definition
        body = {**resource_bodies.body_of(going), "spec": going.raw_spec, "apiVersion": going.api_version}
        found.server.topics["orders"] = {**body, "kind": "KafkaTopic"}
        found.look()
        assert found.topics == left
