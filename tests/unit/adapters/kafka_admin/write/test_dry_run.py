"""Tests of brokers that do not carry out replica lists: what a dry run shows, what is made, and the outcome."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import cluster as cluster_spec
from support.builders import spec
from support.kafka.fake_cluster import Lists, leave_out_ids, lose_answer, shorten_waits, veto_topics
from support.kafka.fake_kafka import FakeKafka
from topiarist.adapters.kafka_admin.cluster import KafkaCluster
from topiarist.errors import Reason
from topiarist.kafka.types import UNPLACED
from topiarist.model.access import KafkaAccess
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import Capabilities, Support
from topiarist.reconcile import plan_cluster

ON = cluster_spec("prod", cluster_id="ID", kafka=KafkaAccess("fake:9092"))
UNKNOWN = Capabilities(replica_lists=Support(None), growth_lists=Support(None))
SMALL: dict[str, Any] = {"partitions": 1, "replicationFactor": 2}
OLD = spec("old", ON, **SMALL)
GROWN = spec("old", ON, partitions=3, replicationFactor=2)
NEW = spec("new", ON, partitions=2, replicationFactor=2, config={"retention.ms": 2000000})


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_waits(monkeypatch, 0.05)


@pytest.fixture
def kafka() -> FakeKafka:
    """Return a cluster that has records and one topic of topiarist's."""
    kafka = FakeKafka()
    assert [each.result for each in kafka.apply(kafka.plan(OLD))] == [Result.DONE]
    kafka.cluster.sent.clear()
    return kafka


def make_plan(kafka: KafkaCluster, *specs: TopicSpec, on: ClusterSpec = ON, known: Capabilities = UNKNOWN) -> Plan:
    """Return the plan of a session with a cluster that is known to have these capabilities."""
    return plan_cluster(kafka, replace(kafka.read(), capabilities=known), on, specs, RunOptions())


def apply(kafka: FakeKafka, *specs: TopicSpec, known: Capabilities = UNKNOWN) -> dict[str, Outcome]:
    """Return the outcomes of a run that plans and applies; afterwards nothing is left to do, and all is owned."""
    session = kafka.open()
    outcomes = {each.topic: each for each in session.apply(make_plan(session, *specs, known=known), lambda: False)}
    later = make_plan(kafka.open(), *specs, known=known)
    assert not later.has_changes
    assert later.sizes.keys() == {each.topic for each in specs}
    return outcomes


def lists_of(plan: Plan) -> dict[str, bool]:
    """Return whether the lists of each topic name brokers."""
    return {each.topic: UNPLACED not in each.new_replicas()[0] for each in plan.topics}


@pytest.mark.parametrize("mode", [Lists.REFUSED, Lists.IGNORED])
def test_brokers_that_carry_out_no_lists_get_counts(kafka: FakeKafka, mode: Lists) -> None:
    """A dry run shows it before anything is written; creation and growth are done, and a second plan is empty."""
    kafka.cluster.creation_lists = kafka.cluster.growth_lists = mode
    session = kafka.open()
    plan = make_plan(session, NEW, GROWN)
    assert lists_of(plan) == {"new": False, "old": False}
    assert kafka.cluster.changes == [("create", "__topiarist"), ("create", "old")]
    assert [each for each in plan.warnings if "place new replicas" in each]
    outcomes = apply(kafka, NEW, GROWN)
    assert {name: each.result for name, each in outcomes.items()} == {"new": Result.DONE, "old": Result.DONE}
    topics = kafka.cluster.topics
    assert [len(each) for each in topics["new"].replicas] == [2, 2]
    assert [len(each) for each in topics["old"].replicas] == [2, 2, 2]


def test_brokers_that_take_lists_at_creation_only(kafka: FakeKafka) -> None:
    """Growth alone is left to brokers that refuse its lists."""
    kafka.cluster.growth_lists = Lists.REFUSED
    assert lists_of(make_plan(kafka.open(), NEW, GROWN)) == {"new": True, "old": False}
    assert {each.result for each in apply(kafka, NEW, GROWN).values()} == {Result.DONE}


@pytest.mark.parametrize(
    ("specs", "requests"),
    [
        ((OLD,), {}),
        ((NEW, OLD), {"CreateTopics": 1}),
        ((GROWN,), {"CreatePartitions": 1}),
        ((NEW, GROWN), {"CreateTopics": 1, "CreatePartitions": 1}),
    ],
)
def test_brokers_that_obey_are_asked_once(
    kafka: FakeKafka, specs: tuple[TopicSpec, ...], requests: dict[str, int]
) -> None:
    """Only a plan that places replicas costs a request, one for new topics and one for new partitions."""
    session = kafka.open()
    plan = make_plan(session, *specs)
    assert Counter(kafka.cluster.sent) == requests
    assert all(lists_of(plan).values())
    kafka.cluster.sent.clear()
    assert {each.result for each in session.apply(plan, lambda: False)} <= {Result.DONE}
    assert Counter(kafka.cluster.sent) == requests  # nothing is asked again
    assert not any("dry-run" in name for name in kafka.cluster.topics)


@pytest.mark.parametrize("known", [Support(True), Support(False, "it says so")])
def test_what_is_known_is_not_asked(kafka: FakeKafka, known: Support) -> None:
    """A finder that knows what the cluster does saves the dry run."""
    plan = make_plan(kafka.open(), NEW, GROWN, known=Capabilities(replica_lists=known, growth_lists=known))
    assert kafka.cluster.sent == []
    assert set(lists_of(plan).values()) == {known.is_given}


@pytest.mark.parametrize("code", [29, 40, 44, 36])
def test_a_refusal_of_the_topic_shows_nothing_about_lists(kafka: FakeKafka, code: int) -> None:
    """A topic that is refused with and without lists is refused for itself: lists are planned, and tried."""
    kafka.cluster.vetoes.append(veto_topics({"new", "new-topiarist-dry-run"}, code, "said the broker"))
    session = kafka.open()
    plan = make_plan(session, NEW, OLD)
    assert lists_of(plan) == {"new": True}
    (outcome,) = session.apply(plan, lambda: False)
    assert "said the broker" in outcome.message


def test_one_topic_that_is_refused_does_not_hide_the_others(kafka: FakeKafka) -> None:
    """Several topics are asked about: one that is accepted shows that lists are."""
    kafka.cluster.vetoes.append(veto_topics({"a"}, 44, "a name of no team"))
    plan = make_plan(kafka.open(), spec("a", ON, **SMALL), NEW, OLD)
    assert lists_of(plan) == {"a": True, "new": True}
    assert plan.capabilities.replica_lists.is_given is True


@pytest.mark.parametrize("has_id", [True, False])
@pytest.mark.parametrize(
    ("mode", "factor", "words"),
    [
        (Lists.IGNORED, None, "the replicas"),
        (Lists.OBEYED, 1, "wanted 2 replicas, found 1"),
    ],
)
def test_a_topic_that_was_made_otherwise_is_not_done(
    kafka: FakeKafka, mode: Lists, factor: int | None, words: str, has_id: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome has both values, the topic is owned, and no other client is blamed; with and without an id."""
    kafka.cluster.creation_lists, kafka.cluster.factor = mode, factor
    if not has_id:
        kafka.cluster.on("CreateTopics", leave_out_ids)
    session = kafka.open()
    listed = replace(make_plan(session, NEW, OLD, known=Capabilities()), capabilities=UNKNOWN)
    monkeypatch.setattr(KafkaCluster, "_learn_lists", lambda self, plan: plan)  # as without the right to ask
    outcomes = [*session.apply(listed, lambda: False)]
    assert [(each.result, each.reason) for each in outcomes] == [(Result.DIFFERS, Reason.MADE_OTHERWISE)]
    assert words in outcomes[0].message
    assert "another" not in outcomes[0].message
    assert outcomes[0].topic_id == kafka.cluster.topics["new"].id_text
    record = kafka.records().topics["new"]
    assert (record.topic_id, record.intent) == (kafka.cluster.topics["new"].id_text, None)
    later = make_plan(kafka.open(), NEW, OLD, known=Capabilities())
    assert {issue.reason for each in later.topics for issue in each.refusals} <= {Reason.REPLICATION_FACTOR_DIFFERS}
    assert not later.has_changes


@pytest.mark.parametrize("config", [{}, {"retention.ms": 3000000}])
def test_growth_that_was_made_otherwise_is_there(kafka: FakeKafka, config: dict[str, int]) -> None:
    """Partitions with other replicas are partitions: no message denies them, and the next plan is empty."""
    kafka.cluster.growth_lists = Lists.IGNORED
    wanted = spec("old", ON, partitions=3, replicationFactor=2, config=config)
    session = kafka.open()
    plan = make_plan(session, wanted, known=Capabilities())
    (outcome,) = session.apply(plan, lambda: False)
    assert (outcome.result, outcome.reason) == (Result.DIFFERS, Reason.MADE_OTHERWISE)
    assert "of partition 1, found [3, 2]" in outcome.message
    assert not any(word in outcome.message for word in ("not added", "another client", "not there", "did not"))
    assert not make_plan(kafka.open(), wanted, known=Capabilities()).has_changes


@pytest.mark.parametrize("config", [{}, {"retention.ms": 3000000}])
def test_growth_without_an_answer_is_not_called_missing(kafka: FakeKafka, config: dict[str, int]) -> None:
    """A lost answer and other replicas: the message has what exists, and that it is not known who added it."""
    kafka.cluster.growth_lists = Lists.IGNORED
    kafka.cluster.on("CreatePartitions", lose_answer)
    wanted = spec("old", ON, partitions=3, replicationFactor=2, config=config)
    session = kafka.open()
    (outcome,) = session.apply(make_plan(session, wanted, known=Capabilities()), lambda: False)
    assert (outcome.result, outcome.reason) == (Result.DIFFERS, Reason.STATE_CONFLICT)
    assert "not known which client" in outcome.message
    assert "not added" not in outcome.message
    assert len(kafka.cluster.topics["old"].replicas) == 3


def test_configs_that_were_made_otherwise_are_seen_in_the_answer(kafka: FakeKafka) -> None:
    """The answer to a creation has the configs; a value that was not taken is no success."""

    def drop_configs(cluster: Any, request: Any) -> Any:
        for each in request.topics:
            each.configs = []
        answer = cluster.carry_out(request)
        element = answer.topics[0]
        answer.topics[0].configs = [type_of_config(element)(name="retention.ms", value="604800000", config_source=5)]
        return answer

    kafka.cluster.on("CreateTopics", drop_configs)
    session = kafka.open()
    (outcome,) = session.apply(make_plan(session, NEW, OLD, known=Capabilities()), lambda: False)
    assert (outcome.result, outcome.reason) == (Result.DIFFERS, Reason.MADE_OTHERWISE)
    assert "retention.ms: wanted 2000000, found 604800000" in outcome.message
    later = make_plan(kafka.open(), NEW, OLD, known=Capabilities())
    assert [type(change).__name__ for each in later.topics for change in each.changes] == ["UpdateConfig"]


def type_of_config(element: Any) -> Any:
    """Return the class of a config in an answer to CreateTopics."""
    return type(element).CreatableTopicConfigs


def test_a_saved_plan_with_lists_is_not_sent_to_brokers_that_ignore_them(kafka: FakeKafka) -> None:
    """A run that only applies asks too, before it writes, and refuses what would be made otherwise."""
    session = kafka.open()
    saved = replace(make_plan(session, NEW, OLD), capabilities=UNKNOWN)
    kafka.cluster.creation_lists = Lists.IGNORED
    (outcome,) = kafka.open().apply(saved, lambda: False)
    assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.PLACED_BY_BROKERS)
    assert "make a new plan" in outcome.message
    assert "new" not in kafka.cluster.topics
