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
from topiarist.adapters.kafka_admin.connection.connection import UnsupportedRequest
from topiarist.adapters.kafka_admin.write import chunks
from topiarist.adapters.kafka_admin.write.dry_run import HINT, ask_brokers, find_list_support
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import UNPLACED
from topiarist.model.access import KafkaAccess
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    ConfigItem,
    CreateTopic,
    Issue,
    Plan,
    RunOptions,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import GIVEN, Capabilities, Support
from topiarist.reconcile import plan_cluster
from unit.adapters.kafka_admin.scripted_session import LOST, ScriptedSession, reply

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
    assert "which client changed it is unknown" in outcome.message
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


# The questions alone, over a script: what is asked, and what each answer shows.

WORDS = "POLICY_VIOLATION (44): why"
REFUSED_LISTS = Support(False, f"they accept a without replica lists, and refuse it with them: {WORDS}")
IGNORED = Support(False, "they ignore replica lists: they accept one that has the same broker twice")
PROBE = "a-topiarist-dry-run"


def codes_of(field: str, *answers: dict[str, int] | Exception) -> list[Any]:
    """Return answers of one request after the other, each with a code for each topic."""
    return [
        each
        if isinstance(each, Exception)
        else reply(
            throttle_time_ms=0,
            **{field: [reply(name=name, error_code=code, error_message="why") for name, code in each.items()]},
        )
        for each in answers
    ]


def planned(*changes: Any, names: tuple[str, ...] = ("a",), known: Capabilities = UNKNOWN) -> Plan:
    """Return a plan with these changes of each topic."""
    return Plan("prod", "", topics=tuple(TopicPlan(name, changes=changes) for name in names), capabilities=known)


CREATION, GROWTH = CreateTopic(((1, 2),), {"k": "v"}), AddPartitions(1, (1, 2), ((3, 1), (2,)), SAFE_ASSESSMENT)


@pytest.mark.parametrize(
    ("answers", "support", "asked"),
    [
        ([{"a": 0, PROBE: 39}], GIVEN, [True]),
        ([{"a": 0, PROBE: 42}], GIVEN, [True]),
        ([{"a": 0, PROBE: 0}], IGNORED, [True]),
        ([{"a": 0, PROBE: 44}], Support(None), [True]),
        ([{"a": 0}], Support(None), [True]),
        ([{"a": 44, PROBE: 39}, {"a": 0}], REFUSED_LISTS, [True, False]),
        ([{"a": 44, PROBE: 39}, {"a": 44}], Support(None), [True, False]),
        ([{"a": 29, PROBE: 39}], Support(None), [True]),
        ([{PROBE: 39}], Support(None), [True]),
        ([{"a": 41, PROBE: 41}, {"a": 0, PROBE: 39}], GIVEN, [True, True]),
        ([LOST], Support(None), [True]),
        ([{"a": 44, PROBE: 39}, UnsupportedRequest("no")], Support(None), [True, False]),
    ],
)
def test_what_a_creation_shows_about_lists(answers: list[Any], support: Support, asked: list[bool]) -> None:
    """The probe has one broker twice; topics that are refused are asked about once more without lists."""
    session = ScriptedSession({"CreateTopics": codes_of("topics", *answers)})
    found = find_list_support(session, planned(CREATION))  # type: ignore[arg-type]
    assert found == replace(UNKNOWN, replica_lists=support)
    assert [bool(each.request.topics[0].assignments) for each in session.sent] == asked
    assert all(each.request.validate_only and each.timeout == chunks.ANSWER_TIMEOUT_S for each in session.sent)
    first = {each.name: [one.broker_ids for one in each.assignments] for each in session.sent[0].request.topics}
    assert first == {"a": [[1, 2]], PROBE: [[1, 1]]}


@pytest.mark.parametrize(
    ("answers", "support", "lists"),
    [
        ([{"a": 39}], GIVEN, [[[3, 3], [2, 2]]]),
        ([{"a": 0}], IGNORED, [[[3, 3], [2, 2]]]),
        ([{"a": 44}, {"a": 0}], REFUSED_LISTS, [[[3, 3], [2, 2]], None]),
        ([{"a": 44}, {"a": 44}], Support(None), [[[3, 3], [2, 2]], None]),
        ([{"a": 42}, {"a": 42}], Support(None), [[[3, 3], [2, 2]], None]),
        ([{"a": 31}], Support(None), [[[3, 3], [2, 2]]]),
    ],
)
def test_what_a_growth_shows_about_lists(answers: list[Any], support: Support, lists: list[Any]) -> None:
    """Each list has its first broker twice, which Kafka refuses."""
    session = ScriptedSession({"CreatePartitions": codes_of("results", *answers)})
    found = find_list_support(session, planned(GROWTH))  # type: ignore[arg-type]
    assert found == replace(UNKNOWN, growth_lists=support)
    sent = [each.request.topics[0].assignments for each in session.sent]
    assert [each and [one.broker_ids for one in each] for each in sent] == lists


def test_a_few_topics_are_asked_about() -> None:
    """Five of each kind are enough; the name of the probe is no longer than a topic may have."""
    names = tuple(f"{number}" + "x" * 248 for number in range(6))
    session = ScriptedSession({"CreateTopics": codes_of("topics", {}), "CreatePartitions": codes_of("results", {})})
    find_list_support(session, planned(CREATION, names=names))  # type: ignore[arg-type]
    find_list_support(session, planned(GROWTH, names=names))  # type: ignore[arg-type]
    creation, growth = ([each.name for each in sent.request.topics] for sent in session.sent)
    assert creation == [*names[:5], "0" + "x" * (248 - len("-topiarist-dry-run")) + "-topiarist-dry-run"]
    assert len(creation[-1]) == 249
    assert growth == [*names[:5]]


@pytest.mark.parametrize(
    ("changes", "known", "is_needed"),
    [
        ((CREATION,), UNKNOWN, True),
        ((CREATION,), replace(UNKNOWN, replica_lists=GIVEN), False),
        ((CREATION,), replace(UNKNOWN, growth_lists=GIVEN), True),
        ((CreateTopic(((UNPLACED, UNPLACED),), {}),), UNKNOWN, False),
        ((), UNKNOWN, False),
        ((GROWTH,), UNKNOWN, True),
        ((GROWTH,), replace(UNKNOWN, growth_lists=GIVEN), False),
    ],
)
def test_when_lists_are_asked_about(changes: tuple[Any, ...], known: Capabilities, is_needed: bool) -> None:
    """A plan that names brokers, and does not know what becomes of their lists; else no request is sent."""
    plan = planned(*changes, known=known)
    answers = {
        "CreateTopics": codes_of("topics", {"a": 0, PROBE: 39}),
        "CreatePartitions": codes_of("results", {"a": 39}),
    }
    session = ScriptedSession(answers)
    find_list_support(session, plan)  # type: ignore[arg-type]
    assert bool(session.sent) is is_needed


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (LOST, "the answer was lost"),
        (codes_of("topics", {"a": -1})[0], "the answer about a is unknown: why"),
        (codes_of("topics", {"a": 7})[0], "the answer about a is unknown: why"),
        (codes_of("topics", {})[0], "the answer about a is unknown: no element"),
    ],
)
def test_brokers_that_do_not_answer_about_a_plan(answer: Any, why: str) -> None:
    """The error says that nothing was written."""
    session = ScriptedSession({"CreateTopics": answer})
    with pytest.raises(TopiaristError) as caught:
        ask_brokers(session, planned(CREATION))  # type: ignore[arg-type]
    error = caught.value
    assert (error.reason, error.message, error.hint) == (
        Reason.UNREACHABLE,
        f"the brokers were asked about the plan, and did not answer: {why}",
        "run the same command again; nothing was written",
    )


def test_refusals_of_the_brokers() -> None:
    """Each has the reason, the words, the field, what to do, and the changes that it withholds."""
    update = UpdateConfig((ConfigItem("k", None, "v", SAFE_ASSESSMENT),))
    two = UpdateConfig((*update.items, ConfigItem("l", None, "v", SAFE_ASSESSMENT)))
    configured = [reply(resource_name="a", error_code=40, error_message="why")]
    session = ScriptedSession(
        {
            "CreateTopics": codes_of("topics", {"a": 44}),
            "CreatePartitions": codes_of("results", {"a": 37}),
            "IncrementalAlterConfigs": reply(throttle_time_ms=0, responses=configured),
        }
    )
    grown = "has another partition count now: the brokers answered INVALID_PARTITIONS (37): why"
    set_words = "the brokers answered INVALID_CONFIG (40): why"
    for change, reason, message, field in (
        (CREATION, Reason.POLICY_VIOLATION, f"the brokers answered {WORDS}", ()),
        (GROWTH, Reason.STATE_CONFLICT, grown, ("partitions",)),
        (update, Reason.CONFIG_INVALID, set_words, ("config", "k")),
        (two, Reason.CONFIG_INVALID, set_words, ("config",)),
    ):
        issues = ask_brokers(session, planned(change))  # type: ignore[arg-type]
        assert issues == {"a": [Issue(reason, message, field, HINT, (change,))]}
